// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way from a walker to memory.

use crate::stats::HitLevel;

/// The way from a walker to memory. Times are in the core's own unit: see
/// [`Mmu::new`](crate::Mmu::new).
pub trait Port {
    /// Waits for a free walker; returns when the walk can start.
    fn walk_start(&mut self, now: u64) -> u64;
    /// Reads 8 bytes at a physical address; returns when they are there and where they were.
    fn read(&mut self, pa: u64, now: u64) -> (u64, HitLevel);
    /// A walk that took from `start` to `end` is over.
    fn walk_end(&mut self, start: u64, end: u64);
    /// Whether time passes: an entry is in the first level once its look-up or its walk is over,
    /// and at once where none passes.
    #[inline(always)]
    fn takes_time(&self) -> bool {
        false
    }
}

/// A port whose reads are answered later, by what the walker needs for each.
pub(crate) struct WalkerPort<'a, P: ?Sized> {
    port: &'a mut P,
    reference_time: u64,
}

impl<'a, P: ?Sized> WalkerPort<'a, P> {
    /// The way to `port` of a walker that needs `reference_time` for each read.
    #[inline(always)]
    pub(crate) fn new(port: &'a mut P, reference_time: u64) -> Self {
        WalkerPort {
            port,
            reference_time,
        }
    }
}

impl<P: Port + ?Sized> Port for WalkerPort<'_, P> {
    #[inline(always)]
    fn walk_start(&mut self, now: u64) -> u64 {
        self.port.walk_start(now)
    }

    #[inline(always)]
    fn read(&mut self, pa: u64, now: u64) -> (u64, HitLevel) {
        let (answered, hit) = self.port.read(pa, now);
        (answered + self.reference_time, hit)
    }

    #[inline(always)]
    fn walk_end(&mut self, start: u64, end: u64) {
        self.port.walk_end(start, end);
    }

    #[inline(always)]
    fn takes_time(&self) -> bool {
        self.port.takes_time()
    }
}

/// A port without caches or time: for functional runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMemory;

impl Port for NoMemory {
    #[inline]
    fn walk_start(&mut self, now: u64) -> u64 {
        now
    }

    #[inline]
    fn read(&mut self, _pa: u64, now: u64) -> (u64, HitLevel) {
        (now, HitLevel::Unknown)
    }

    #[inline]
    fn walk_end(&mut self, _start: u64, _end: u64) {}
}
