// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every configuration of the quick suite holds; every planted fault is found.

use super::config::{CheckConfig, DeadLine};
use super::coverage::MESSAGES;
use super::{
    LITMUS_TESTS, LitmusCase, LitmusTest, POISON, judge, litmus_outcomes, liveness, quick, run,
    safety, sweep, with_faults, wrong_marks, wrong_registers,
};
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
        // A directory that forgets does harm to pages that stay, too.
        let submits = events.iter().any(|e| e.starts_with("OS: submits"));
        assert!(
            submits || matches!(fault, PlantedFault::RecallKeepsCopies),
            "{fault:?}: {events:#?}"
        );
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

/// The large machines let answers to accesses arrive at once. That hides no planted fault.
#[test]
fn prompt_data_hide_no_planted_fault() {
    for (fault, mut config) in with_faults() {
        config.prompt_data = true;
        let judged = judge(&config, 1_000_000);
        assert!(judged.broken.is_some(), "{fault:?}: {judged:?}");
    }
}

#[test]
fn the_explorer_of_large_machines_counts_the_same_states() {
    let suite = quick();
    for name in [
        "nc-late-translation",
        "c-joined",
        "nc-reset",
        "c-offline",
        "c-2pages",
    ] {
        let config = suite.iter().find(|config| config.name == name).unwrap();
        let (swept, judged) = (sweep(config, 1_000_000), judge(config, 1_000_000));
        assert!(swept.whole && swept.broken.is_none(), "{swept:?}");
        assert_eq!(swept.states, judged.states, "{name}");
        let prompt = CheckConfig {
            prompt_data: true,
            ..config.clone()
        };
        assert!(sweep(&prompt, 1_000_000).states < swept.states, "{name}");
    }
    let part = sweep(&suite[0], 100);
    assert!(!part.whole && part.states >= 100, "{part:?}");
    let fault = CheckConfig::new("fault", Design::Cacheable).with_fault(PlantedFault::SkipPurge);
    let fault = CheckConfig {
        dead_line: Some(DeadLine::Modified),
        ..fault
    };
    assert!(sweep(&fault, 1_000_000).broken.is_some());
}

#[test]
fn registers_answer_every_order_of_writes_as_documented() {
    assert_eq!(wrong_registers(), None);
}

#[test]
fn marks_are_set_and_let_go_of_in_every_order() {
    assert_eq!(wrong_marks(), None);
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
        fault: None,
        stop: false,
        first: None,
        threads: 1,
        liveness_states: 0,
    };
    let error = run(&params, |_| {}).unwrap_err();
    assert!(error.contains("c-2cores"), "{error}");
    let params = super::Params {
        only: None,
        fault: Some("no-such".into()),
        ..params
    };
    let error = run(&params, |_| {}).unwrap_err();
    assert!(error.contains("SkipPurge"), "{error}");
}

const MOVING: LitmusCase = LitmusCase {
    migrates: true,
    poison: false,
    careless: false,
    drops_poison: false,
};

/// Whether the values of each outcome that are not poison are those of an outcome without errors.
fn poison_is_told(test: LitmusTest, design: Design, drops_poison: bool) -> bool {
    let (clean, _) = litmus_outcomes(test, design, MOVING);
    let poisoned = LitmusCase {
        poison: true,
        drops_poison,
        ..MOVING
    };
    let (outcomes, states) = litmus_outcomes(test, design, poisoned);
    println!("{} {design:?}: {states} states, {outcomes:?}", test.name);
    assert!(
        outcomes.iter().flatten().any(|value| *value == POISON),
        "{}",
        test.name
    );
    let like = |outcome: &Vec<u8>, clean: &Vec<u8>| {
        let mut pairs = outcome.iter().zip(clean);
        pairs.all(|(value, clean)| *value == POISON || value == clean)
    };
    let told = |outcome: &Vec<u8>| clean.iter().any(|clean| like(outcome, clean));
    outcomes.iter().all(told)
}

#[test]
fn data_that_memory_has_lost_stay_lost_wherever_the_page_moves() {
    for test in LITMUS_TESTS {
        if matches!(test.name, "CoRR" | "DMA write" | "DMA read") {
            for design in [Design::NonCacheable, Design::Cacheable] {
                assert!(
                    poison_is_told(test, design, false),
                    "{} {design:?}",
                    test.name
                );
                assert!(
                    !poison_is_told(test, design, true),
                    "{} {design:?}",
                    test.name
                );
            }
        }
    }
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
            let (still, _) = litmus_outcomes(test, design, LitmusCase::default());
            let (moving, states) = litmus_outcomes(test, design, MOVING);
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
        let careless = LitmusCase {
            careless: true,
            ..MOVING
        };
        let (moving, _) = litmus_outcomes(test, Design::NonCacheable, careless);
        forbidden(test.name).is_some_and(|bad| moving.contains(bad.as_slice()))
    };
    let names = LITMUS_TESTS.into_iter().filter(|test| found(*test));
    let names: Vec<_> = names.map(|test| test.name).collect();
    assert_eq!(names, ["MP", "CoRR", "DMA write"]);
}
