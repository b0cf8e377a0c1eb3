// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring: messages on their way, in the order in which they arrive.

use super::params::MemoryParams;
use ample_migration::protocol::{Envelope, Party};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// When a message arrives, its number, and the message, the earliest first; messages of one cycle
/// arrive in the order they were sent.
type Arrival = Reverse<(u64, u64, Envelope<u64>)>;

/// Messages under way between cores, slices and devices.
#[derive(Clone)]
pub(super) struct Ring {
    cores: u8,
    stops: u64,
    hop_cycles: u64,
    arrivals: BinaryHeap<Arrival>,
    sequence: u64,
}

impl Ring {
    /// An empty ring with a stop for each slice.
    pub(super) fn new(params: &MemoryParams) -> Self {
        Self {
            cores: params.cores,
            stops: params.slices.into(),
            hop_cycles: params.hop_cycles,
            arrivals: BinaryHeap::new(),
            sequence: 0,
        }
    }

    /// Slice `i` sits beside core `i`, devices beside slice 0.
    fn stop(&self, node: Party) -> u64 {
        match node {
            Party::Slice(s) => u64::from(s),
            Party::Agent(a) if a < self.cores => u64::from(a) * self.stops / u64::from(self.cores),
            Party::Agent(_) | Party::Controller => 0,
        }
    }

    /// Sends a message that is ready at a cycle, the shorter way around; returns when it arrives.
    pub(super) fn post(&mut self, ready: u64, envelope: Envelope<u64>) -> u64 {
        let apart = self.stop(envelope.from).abs_diff(self.stop(envelope.to));
        let hops = apart.min(self.stops - apart);
        debug_assert!(2 * hops <= self.stops, "a longer way than half around");
        self.sequence += 1;
        let at = ready + hops * self.hop_cycles;
        self.arrivals.push(Reverse((at, self.sequence, envelope)));
        at
    }

    /// When the next message arrives, if any is under way.
    pub(super) fn next_arrival(&self) -> Option<u64> {
        self.arrivals.peek().map(|Reverse((at, ..))| *at)
    }

    /// The next message that arrives by cycle `until`, and when.
    pub(super) fn take(&mut self, until: u64) -> Option<(u64, Envelope<u64>)> {
        self.next_arrival().filter(|&at| at <= until)?;
        let Reverse((at, _, envelope)) = self.arrivals.pop()?;
        Some((at, envelope))
    }
}
