// SPDX-License-Identifier: MIT OR Apache-2.0
//! From every reachable state, can everything still end? The whole graph is explored, then
//! walked backwards from the states in which nothing is under way and every migration is over.
//! A state that is not met on the way back is a deadlock or a loop without exit.

use super::config::CheckConfig;
use super::coverage::Explored;
use super::events::{Action, actions};
use super::state::State;
use super::step::apply;
use foldhash::quality::FixedState;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasher;

/// Result of the exploration.
#[derive(Debug)]
pub struct Liveness {
    /// Distinct states reached.
    pub states: usize,
    /// Steps between them.
    pub transitions: usize,
    /// States in which all is over.
    pub quiet: usize,
    /// How to get to a state from which nothing quiet can be reached: the farthest one, where
    /// all that still can happen has happened.
    pub stuck: Option<Vec<String>>,
    /// What the steps were.
    pub coverage: Explored,
    /// Whether the limit on states ended the exploration: then nothing is proved.
    pub truncated: bool,
}

pub(super) fn fingerprint(state: &State) -> u64 {
    FixedState::default().hash_one(state)
}

/// States that have been met, by their fingerprints, each with its number: the first one.
pub(super) fn numbered(first: &State) -> HashMap<u64, u32, FixedState> {
    let mut ids = HashMap::default();
    ids.insert(fingerprint(first), 0);
    ids
}

/// Explores up to `max_states` states.
pub fn check(config: &CheckConfig, max_states: usize) -> Liveness {
    let first = State::initial(config);
    let mut ids = numbered(&first);
    let mut parents = vec![0u32];
    let mut prints = vec![fingerprint(&first)];
    let mut edges: Vec<(u32, u32)> = Vec::new();
    let mut quiet = Vec::new();
    let mut frontier = vec![(0u32, first)];
    let mut truncated = false;
    let mut coverage = Explored::default();
    while !frontier.is_empty() {
        let mut next = Vec::new();
        for (id, state) in frontier {
            if state.is_quiet() {
                quiet.push(id);
            }
            for (action, after) in successors(config, &state) {
                coverage.note(config, &state, &action, &after);
                let print = fingerprint(&after);
                let fresh = parents.len() as u32;
                let to = match ids.entry(print) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(_) if parents.len() >= max_states => {
                        truncated = true;
                        continue;
                    }
                    Entry::Vacant(slot) => {
                        slot.insert(fresh);
                        parents.push(id);
                        prints.push(print);
                        next.push((fresh, after));
                        fresh
                    }
                };
                if to != id {
                    edges.push((to, id));
                }
            }
        }
        frontier = next;
    }
    let transitions = edges.len();
    let reaches = backwards(parents.len(), &mut edges, &quiet);
    let stuck = reaches
        .iter()
        .rposition(|&ok| !ok)
        .filter(|_| !truncated)
        .map(|id| path(config, id as u32, &parents, &prints));
    Liveness {
        states: parents.len(),
        transitions,
        quiet: quiet.len(),
        stuck,
        coverage,
        truncated,
    }
}

pub(super) fn successors(config: &CheckConfig, state: &State) -> Vec<(Action, State)> {
    let mut all = Vec::new();
    actions(config, state, &mut all);
    all.into_iter()
        .filter_map(|action| apply(config, state, &action).map(|after| (action, after)))
        .collect()
}

/// Marks the states from which a quiet one can be reached. `edges` are (to, from).
pub(super) fn backwards(states: usize, edges: &mut [(u32, u32)], quiet: &[u32]) -> Vec<bool> {
    edges.sort_unstable();
    let mut reaches = vec![false; states];
    let mut stack = quiet.to_vec();
    for &q in quiet {
        reaches[q as usize] = true;
    }
    while let Some(to) = stack.pop() {
        let first = edges.partition_point(|e| e.0 < to);
        for &(_, from) in edges[first..].iter().take_while(|e| e.0 == to) {
            if !reaches[from as usize] {
                reaches[from as usize] = true;
                stack.push(from);
            }
        }
    }
    reaches
}

/// The events that lead to a state, found by walking again along the known fingerprints.
fn path(config: &CheckConfig, to: u32, parents: &[u32], prints: &[u64]) -> Vec<String> {
    let mut ids = vec![to];
    while let Some(&id) = ids.last()
        && id != 0
    {
        ids.push(parents[id as usize]);
    }
    let mut state = State::initial(config);
    let mut events = Vec::new();
    for &id in ids.iter().rev().skip(1) {
        let step = successors(config, &state)
            .into_iter()
            .find(|(_, after)| fingerprint(after) == prints[id as usize]);
        let Some((action, after)) = step else { break };
        events.push(format!("{action:?}"));
        state = after;
    }
    events
}
