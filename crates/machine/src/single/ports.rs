// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of a core as its translation hardware sees it.

use ample_memory::{Level, MemorySystem};
use ample_translate::{HitLevel, Port};

/// The walkers and the memory behind them, as the translation hardware sees them.
pub(super) struct CorePort<'a, M: MemorySystem> {
    pub(super) memory: &'a mut M,
    pub(super) walkers: &'a mut [u64],
    pub(super) current: usize,
    pub(super) active: &'a mut WalkActive,
    /// Whether entries arrive when their walk is over.
    pub(super) arrivals: bool,
}

/// Cycles with at least one walk under way, as the `WALK_ACTIVE` counters count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WalkActive {
    until: u64,
    pub(super) units: u64,
}

impl<M: MemorySystem> Port for CorePort<'_, M> {
    #[inline]
    fn walk_start(&mut self, now: u64) -> u64 {
        let mut first = 0;
        for at in 1..self.walkers.len() {
            if self.walkers[at] < self.walkers[first] {
                first = at;
            }
        }
        self.current = first;
        now.max(self.walkers[first])
    }

    #[inline]
    fn read(&mut self, pa: u64, now: u64) -> (u64, HitLevel) {
        let (done, level) = self.memory.walk(pa, now);
        debug_assert!(done >= now, "an answer before the request");
        (done, hit_level(level))
    }

    #[inline]
    fn walk_end(&mut self, start: u64, end: u64) {
        self.walkers[self.current] = end;
        if end > self.active.until {
            self.active.units += end - start.max(self.active.until);
            self.active.until = end;
        }
    }

    #[inline(always)]
    fn takes_time(&self) -> bool {
        self.arrivals
    }
}

/// Where a reference of the walker was found, in the words of the translation hardware.
#[inline(always)]
fn hit_level(level: Level) -> HitLevel {
    match level {
        Level::L1 => HitLevel::L1,
        Level::L2 => HitLevel::L2,
        Level::Llc => HitLevel::Llc,
        Level::Dram => HitLevel::Dram,
    }
}

/// Memory behind walkers of which there are always enough: while the core is not simulated.
pub(super) struct WarmPort<'a, M: MemorySystem> {
    pub(super) memory: &'a mut M,
    pub(super) arrivals: bool,
}

impl<M: MemorySystem> Port for WarmPort<'_, M> {
    #[inline]
    fn walk_start(&mut self, now: u64) -> u64 {
        now
    }

    #[inline]
    fn read(&mut self, pa: u64, now: u64) -> (u64, HitLevel) {
        let (done, level) = self.memory.walk(pa, now);
        (done, hit_level(level))
    }

    #[inline]
    fn walk_end(&mut self, _start: u64, _end: u64) {}

    #[inline(always)]
    fn takes_time(&self) -> bool {
        self.arrivals
    }
}
