// SPDX-License-Identifier: MIT OR Apache-2.0
//! The marks of a core, on pages of several lines and runs of several pages: every order of marking
//! and of letting go, compared with a set of runs.

use super::config::CheckConfig;
use super::core_step::Freshness;
use super::state::State;
use crate::protocol::{CoreStep, Design, LineAddr, Mapping, Message, Outbox};
use std::collections::{BTreeSet, HashSet};

/// Runs of pages, by first and last page.
type Runs = BTreeSet<(u64, u64)>;

/// Two pages that move to and fro, and a run of two pages.
fn mappings(page_lines: u32) -> Vec<Mapping> {
    let map = |(from, to, pages): (u64, u64, u32)| Mapping {
        src: LineAddr(from * u64::from(page_lines)),
        dst: LineAddr(to * u64::from(page_lines)),
        lines: pages * page_lines,
    };
    let pages = [(0, 1, 1), (1, 0, 1), (2, 3, 1), (3, 2, 1), (4, 6, 2)];
    pages.into_iter().map(map).collect()
}

/// What a message leaves of the runs.
fn wanted(runs: &Runs, message: &Message<bool>, page_lines: u64, entries: usize) -> Runs {
    let mut runs = runs.clone();
    match message {
        Message::Mark(map) if runs.len() < entries => {
            let first = map.src.0 / page_lines;
            runs.insert((first, first + u64::from(map.lines) / page_lines - 1));
        }
        Message::Unmark(map) => runs.retain(|(page, _)| {
            let line = page * page_lines;
            let within =
                |first: LineAddr| (first.0..first.0 + u64::from(map.lines)).contains(&line);
            !within(map.src) && !within(map.dst)
        }),
        _ => {}
    }
    runs
}

/// What marks do wrong, if anything.
pub fn wrong_marks() -> Option<&'static str> {
    let mut config = CheckConfig::new("marks", Design::NonCacheable);
    (config.rules.page_lines, config.rules.mark_entries) = (4, 2);
    let rules = &config.rules;
    let maps = mappings(rules.page_lines);
    let first = (State::initial(&config).cores.remove(0), Runs::new());
    let mut known = HashSet::from([Runs::new()]);
    let mut open = vec![first];
    while let Some((core, runs)) = open.pop() {
        for message in maps
            .iter()
            .flat_map(|&m| [Message::Mark(m), Message::Unmark(m)])
        {
            let mut core = core.clone();
            let mut step = CoreStep {
                rules,
                core: 0,
                observer: &mut Freshness::default(),
                out: &mut Outbox::default(),
            };
            core.side.receive(&mut step, message);
            let entries = usize::from(rules.mark_entries);
            let runs = wanted(&runs, &message, u64::from(rules.page_lines), entries);
            if !core.side.marks().iter().eq(&runs) {
                return Some(
                    "a core marks the pages that it is told of, and lets go of these alone",
                );
            }
            if known.insert(runs.clone()) {
                open.push((core, runs));
            }
        }
    }
    None
}
