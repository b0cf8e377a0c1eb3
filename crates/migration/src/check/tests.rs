// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every configuration of the quick suite holds; every planted fault is found.

use super::config::CheckConfig;
use super::coverage::MESSAGES;
use super::{LITMUS_TESTS, LitmusTest, litmus_outcomes, liveness, quick, run, safety, with_faults};
use crate::protocol::{Design, FAULTS, PlantedFault};
use std::collections::HashSet;

/// Explores all machines of a design. Returns the kinds of messages that none of them sent.
fn check(design: Design) -> Vec<&'static str> {
    let wanted = |c: &CheckConfig| c.rules.design == design;
    let mut met = HashSet::new();
    let mut missing = MESSAGES.to_vec();
    for config in quick().iter().filter(|c| wanted(c)) {
        let safety = safety(config, 1);
        assert!(safety.broken.is_none(), "{}: {:#?}", config.name, safety);
        let liveness = liveness(config, 3_000_000);
        assert!(!liveness.truncated, "{}", config.name);
        assert!(liveness.stuck.is_none(), "{}: {liveness:#?}", config.name);
        assert!(liveness.quiet > 0, "{}", config.name);
        // Two explorers written apart see the same graph.
        assert_eq!(safety.states, liveness.states, "{}", config.name);
        // A machine that does nothing new costs time only.
        let known = met.len();
        missing.retain(|kind| !liveness.coverage.kinds().any(|sent| sent == *kind));
        met.extend(liveness.coverage.transitions);
        assert!(met.len() > known, "{} adds nothing", config.name);
    }
    missing
}

#[test]
fn non_cacheable_design_holds_and_sends_every_message_of_its_own() {
    assert_eq!(check(Design::NonCacheable), ["flush", "flushed"]);
}

#[test]
fn cacheable_design_holds_and_sends_every_message_of_its_own() {
    let marks = ["nack", "mark", "marked", "unmark", "unmarked"];
    assert_eq!(check(Design::Cacheable), marks);
}

#[test]
fn every_planted_fault_is_found_with_a_readable_run() {
    for (fault, config) in with_faults() {
        let broken = safety(&config, 1).broken.map(|c| (c.property, c.events));
        let stuck = || liveness(&config, 3_000_000).stuck.map(|e| ("can end", e));
        let found = broken.or_else(stuck);
        let (property, events) =
            found.unwrap_or_else(|| panic!("{fault:?} in {:?} not found", config.rules.design));
        assert!(events.len() < 80, "{fault:?}: {property}: {events:#?}");
        assert!(events.iter().any(|e| e.starts_with("OS: submits")));
        match fault {
            PlantedFault::LoseTurn => assert_eq!(property, "can end"),
            PlantedFault::ForgetUnmark => assert_eq!(property, "no mark outlives Clear"),
            // The mark comes after its end, which it had been sent before.
            PlantedFault::UnmarkBeforeMarked => {
                assert_eq!(property, "no mark outlives Clear");
                let place = |what: &str| events.iter().rposition(|e| e.contains(what));
                assert!(
                    place("Agent(0): Mark(") > place("Agent(0): Unmark("),
                    "{events:#?}"
                );
            }
            // The request of the first migration arrives in the second.
            PlantedFault::ClearBeforeForwardsServed => {
                assert!(
                    events.iter().any(|e| e.contains("move page 0 again")),
                    "{events:#?}"
                );
            }
            _ => {}
        }
    }
}

#[test]
fn every_fault_is_planted_somewhere() {
    let planted = with_faults();
    for fault in FAULTS {
        assert!(planted.iter().any(|(f, _)| *f == fault), "{fault:?}");
    }
}

#[test]
fn an_unknown_name_lists_the_names() {
    let params = super::Params {
        full: false,
        only: Some("no-such".into()),
        stop: false,
        first: None,
        threads: 1,
        liveness_states: 0,
    };
    let error = run(&params, |_| {}).unwrap_err();
    assert!(error.contains("c-2cores"), "{error}");
}

/// Outcomes that TSO, and a device that does one thing after the other, forbid.
fn forbidden(name: &str) -> Option<[u8; 2]> {
    match name {
        "MP" | "DMA write" | "DMA read" | "CoRR" => Some([1, 0]),
        "LB" => Some([1, 1]),
        _ => None,
    }
}

#[test]
fn a_migration_adds_no_reordering() {
    for test in LITMUS_TESTS {
        for design in [Design::NonCacheable, Design::Cacheable] {
            let (still, _) = litmus_outcomes(test, design, false, false);
            let (moving, states) = litmus_outcomes(test, design, true, false);
            println!("{} {design:?}: {states} states, {moving:?}", test.name);
            assert_eq!(still, moving, "{} {design:?}", test.name);
            let outcomes = if forbidden(test.name).is_some() { 3 } else { 4 };
            assert_eq!(moving.len(), outcomes, "{}: {moving:?}", test.name);
            let bad = forbidden(test.name).map(|bad| bad.to_vec());
            assert!(
                bad.is_none_or(|bad| !moving.contains(&bad)),
                "{}",
                test.name
            );
        }
    }
}

#[test]
fn loads_that_bypass_the_caches_early_are_noticed() {
    let found = |test: LitmusTest| {
        let (moving, _) = litmus_outcomes(test, Design::NonCacheable, true, true);
        forbidden(test.name).is_some_and(|bad| moving.contains(bad.as_slice()))
    };
    let names = LITMUS_TESTS.into_iter().filter(|test| found(*test));
    let names: Vec<_> = names.map(|test| test.name).collect();
    assert_eq!(names, ["MP", "CoRR", "DMA write"]);
}
