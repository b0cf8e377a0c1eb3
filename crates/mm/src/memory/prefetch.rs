// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looking ahead: the frames that a loop is about to visit are read together, so that their cache
//! misses overlap instead of following each other. Nothing here changes anything: results are the
//! same with and without, and only speed differs.

use crate::Rng;
use crate::core::Core;
use ample_pfn::MigrateType;

/// Frames that are looked at together: what one core of today keeps in flight.
pub(crate) const AHEAD: usize = 16;

/// Whether step `done` of a loop begins a new group of [`AHEAD`].
#[inline]
pub(crate) fn begins_group(done: u32) -> bool {
    (done as usize).is_multiple_of(AHEAD)
}

impl Core {
    /// The entries of a pool that `rng` is about to pick for removal. Each removal shortens the
    /// pool by one, and the last entry fills the gap.
    #[inline]
    pub(crate) fn touch_removals(&self, pool: u32, rng: &Rng) {
        let entries = &self.pools[pool as usize];
        let len = entries.len() as u32;
        if len < AHEAD as u32 {
            return;
        }
        let mut rng = rng.clone();
        let picks: [u32; AHEAD] =
            std::array::from_fn(|done| entries[rng.below(len - done as u32) as usize]);
        self.frames.touch(picks.into_iter());
        self.touch_last(pool);
    }

    /// The entries of a pool that `rng` is about to pick for replacement.
    #[inline]
    pub(crate) fn touch_replacements(&self, pool: u32, rng: &Rng) {
        let entries = &self.pools[pool as usize];
        let len = entries.len() as u32;
        if len == 0 {
            return;
        }
        let mut rng = rng.clone();
        let picks: [u32; AHEAD] = std::array::from_fn(|_| entries[rng.below(len) as usize]);
        self.frames.touch(picks.into_iter());
    }

    /// The entries of a pool from `index` on.
    #[inline]
    pub(crate) fn touch_run(&self, pool: u32, index: u32) {
        let run = self.pools[pool as usize].iter().skip(index as usize);
        self.frames.touch(run.take(AHEAD).copied());
    }

    /// The last entries of a pool.
    #[inline]
    pub(crate) fn touch_last(&self, pool: u32) {
        let last = self.pools[pool as usize].iter().rev();
        self.frames.touch(last.take(AHEAD).copied());
    }

    /// The blocks that the next `count` allocations take from the buddy lists.
    #[inline]
    pub(crate) fn touch_free(&self, region: usize, order: u32, mt: MigrateType, count: u32) {
        let next = self.areas[region].next_blocks(order, mt, count);
        self.frames.touch(next.take(count as usize));
    }

    /// The frames anywhere in memory that `rng` is about to pick.
    #[inline]
    pub(crate) fn touch_anywhere(&self, rng: &Rng) {
        let mut rng = rng.clone();
        let picks: [u32; 2 * AHEAD] = std::array::from_fn(|_| rng.below(self.frames.len()));
        self.frames.touch(picks.into_iter());
    }
}
