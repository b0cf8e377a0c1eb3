// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines too large for the other explorers: breadth first, properties of states only.
//!
//! A state that has been met is kept as 64 bits of its hash (hash compaction, Stern and Dill 1995):
//! one that shares them with another is taken for known. States whose turn comes later are kept as
//! numbers of their parts, each part once (the collapse compression of SPIN): cores, slices and
//! messages recur far more often than whole states.

use super::config::CheckConfig;
use super::liveness::successors;
use super::properties::CHECKS;
use super::state::{FewLines, ModelCore, ModelNic, State};
use crate::protocol::{Controller, Envelope, OsMigration, Slice};
use foldhash::quality::FixedState;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash};
use std::time::Instant;

/// What became of a large machine.
#[derive(Clone, Debug, Serialize)]
pub struct Swept {
    /// Name of the machine.
    pub name: &'static str,
    /// Distinct states.
    pub states: usize,
    /// Steps between them.
    pub steps: u64,
    /// Steps to the farthest state.
    pub depth: usize,
    /// Whether these are all, or those nearest to the first one.
    pub whole: bool,
    /// The property that does not hold, if one does not.
    pub broken: Option<&'static str>,
    /// At most this likely, some state was taken for another one.
    pub omission: f64,
    /// Wall time.
    pub seconds: f64,
    /// States found in a second.
    pub states_per_second: f64,
    /// Memory of the process at its peak.
    pub peak_bytes: u64,
}

/// Parts of one kind, each once.
struct Parts<T> {
    numbers: HashMap<u64, u32, FixedState>,
    list: Vec<T>,
}

impl<T: Clone + Hash> Parts<T> {
    fn new() -> Self {
        let (numbers, list) = (HashMap::default(), Vec::new());
        Self { numbers, list }
    }

    fn number(&mut self, part: &T) -> u32 {
        let print = FixedState::default().hash_one(part);
        *self.numbers.entry(print).or_insert_with(|| {
            self.list.push(part.clone());
            self.list.len() as u32 - 1
        })
    }

    fn get(&self, numbers: &[u32]) -> Vec<T> {
        let part = |&n: &u32| self.list[n as usize].clone();
        numbers.iter().map(part).collect()
    }
}

/// States as numbers of their parts.
struct Packer {
    cores: Parts<ModelCore>,
    slices: Parts<Slice<FewLines>>,
    nics: Parts<ModelNic>,
    controllers: Parts<Controller>,
    systems: Parts<OsMigration>,
    messages: Parts<Envelope<bool>>,
    flags: Parts<(Vec<bool>, bool)>,
}

impl Packer {
    fn new() -> Self {
        Self {
            cores: Parts::new(),
            slices: Parts::new(),
            nics: Parts::new(),
            controllers: Parts::new(),
            systems: Parts::new(),
            messages: Parts::new(),
            flags: Parts::new(),
        }
    }

    /// Numbers of the parts; the length comes first, then how many slices there are.
    fn pack(&mut self, state: &State, packed: &mut Vec<u32>) {
        debug_assert_eq!(state.error, None, "a wrong state ends the search");
        packed.clear();
        packed.extend([0, state.slices.len() as u32]);
        packed.extend(state.cores.iter().map(|part| self.cores.number(part)));
        packed.extend(state.slices.iter().map(|part| self.slices.number(part)));
        packed.push(self.nics.number(&state.nic));
        packed.push(self.controllers.number(&state.controller));
        packed.extend(state.os.iter().map(|part| self.systems.number(part)));
        let flags = (state.moved_again.clone(), state.was_reset);
        packed.push(self.flags.number(&flags));
        packed.extend(state.net.iter().map(|part| self.messages.number(part)));
        packed[0] = packed.len() as u32;
    }

    /// The state of a machine with so many cores and pages.
    fn unpack(&self, packed: &[u32], (cores, pages): (usize, usize)) -> State {
        let (cores, rest) = packed[2..].split_at(cores);
        let (slices, rest) = rest.split_at(packed[1] as usize);
        let (single, rest) = rest.split_at(2);
        let (systems, rest) = rest.split_at(pages);
        let (flags, messages) = rest.split_at(1);
        let (moved_again, was_reset) = self.flags.list[flags[0] as usize].clone();
        State {
            cores: self.cores.get(cores),
            slices: self.slices.get(slices),
            nic: self.nics.list[single[0] as usize].clone(),
            controller: self.controllers.list[single[1] as usize].clone(),
            os: self.systems.get(systems),
            net: self.messages.get(messages),
            moved_again,
            was_reset,
            error: None,
        }
    }
}

/// Explores up to `max_states` states.
pub fn sweep(config: &CheckConfig, max_states: usize) -> Swept {
    let started = Instant::now();
    let first = State::initial(config);
    let sizes = (first.cores.len(), first.os.len());
    let mut packer = Packer::new();
    let mut known: HashSet<u64, FixedState> = HashSet::default();
    let (mut frontier, mut packed) = (Vec::new(), Vec::new());
    packer.pack(&first, &mut packed);
    frontier.extend_from_slice(&packed);
    known.insert(FixedState::default().hash_one(&packed));
    let (mut depth, mut steps, mut broken) = (0, 0u64, None);
    while !frontier.is_empty() && broken.is_none() && known.len() <= max_states {
        let mut next = Vec::new();
        let mut at = 0;
        while at < frontier.len() && broken.is_none() {
            let end = at + frontier[at] as usize;
            let state = packer.unpack(&frontier[at..end], sizes);
            at = end;
            for (_, after) in successors(config, &state) {
                steps += 1;
                if after.error.is_none() {
                    packer.pack(&after, &mut packed);
                    if !known.insert(FixedState::default().hash_one(&packed)) {
                        continue;
                    }
                    next.extend_from_slice(&packed);
                }
                let wrong = CHECKS.iter().find(|(_, holds)| !holds(config, &after));
                broken = broken.or(wrong.map(|(property, _)| *property));
            }
        }
        frontier = next;
        depth += usize::from(!frontier.is_empty());
    }
    let (states, seconds) = (known.len(), started.elapsed().as_secs_f64());
    Swept {
        name: config.name,
        states,
        steps,
        depth,
        whole: frontier.is_empty(),
        broken,
        omission: (states as f64).powi(2) / 2f64.powi(65),
        seconds,
        states_per_second: states as f64 / seconds,
        peak_bytes: peak_bytes(),
    }
}

/// Peak memory of this process, 0 where the kernel does not say.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
