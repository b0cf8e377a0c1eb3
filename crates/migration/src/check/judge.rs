// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verdict alone, in one walk: properties of each state, and of the whole graph whether
//! everything can end. For changed protocols (`scripts/protocol-mutants.py`), of which most are
//! wrong soon.

use super::config::CheckConfig;
use super::liveness::{backwards, fingerprint, numbered, successors};
use super::properties::CHECKS;
use super::report::CAN_END;
use super::state::State;
use serde::Serialize;
use std::collections::hash_map::Entry;

/// What became of one machine.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// Name of the machine.
    pub name: &'static str,
    /// Distinct states until the verdict.
    pub states: usize,
    /// Whether these are all. What can end is asked of whole graphs only.
    pub whole: bool,
    /// What is wrong, if anything.
    pub broken: Option<&'static str>,
}

/// Explores up to `max_states` states.
pub fn judge(config: &CheckConfig, max_states: usize) -> Judged {
    let first = State::initial(config);
    let mut ids = numbered(&first);
    let (mut edges, mut quiet) = (Vec::new(), Vec::new());
    let mut frontier = vec![(0u32, first)];
    let verdict = |states, broken, whole| Judged {
        name: config.name,
        states,
        whole,
        broken,
    };
    while !frontier.is_empty() {
        let mut next = Vec::new();
        for (id, state) in frontier {
            let broken = CHECKS.iter().find(|(_, holds)| !holds(config, &state));
            if let Some((property, _)) = broken {
                return verdict(ids.len(), Some(*property), false);
            }
            if state.is_quiet() {
                quiet.push(id);
            }
            for (_, after) in successors(config, &state) {
                let fresh = ids.len() as u32;
                let to = match ids.entry(fingerprint(&after)) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(slot) => {
                        next.push((fresh, after));
                        *slot.insert(fresh)
                    }
                };
                if to != id {
                    edges.push((to, id));
                }
            }
            if ids.len() > max_states {
                return verdict(ids.len(), None, false);
            }
        }
        frontier = next;
    }
    let stuck = backwards(ids.len(), &mut edges, &quiet).contains(&false);
    verdict(ids.len(), stuck.then_some(CAN_END), true)
}
