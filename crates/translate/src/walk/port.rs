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
