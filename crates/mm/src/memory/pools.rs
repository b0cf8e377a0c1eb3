// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pools: the used blocks that one owner (a process, a cache, a driver) holds.

use super::frames::Frames;
use super::prefetch::AHEAD;
use super::state::{FrameKind, FrameState, MAX_POOLS};
use ample_kit::random::Xoshiro256 as Rng;

/// A set of pages with one owner: a process, a cache, a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolId(pub(crate) u32);

/// All pools.
///
/// Invariant: entry `i` of pool `p` is the first frame of a used block whose state says `(p, i)`.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    pools: Vec<Vec<u32>>,
    /// Pools whose pages a shrinker may free.
    shrinkable: Vec<PoolId>,
}

/// The end of one pool, to add entries to.
pub(crate) struct PoolEnd<'a> {
    pool: PoolId,
    pages: &'a mut Vec<u32>,
}

impl PoolEnd<'_> {
    /// Adds the block at `pfn`, whose state is to be `state`.
    #[inline]
    pub(crate) fn push(&mut self, frames: &mut Frames, pfn: u32, state: FrameState) {
        debug_assert_eq!(state.kind(), FrameKind::Used, "frame {pfn:#x}");
        frames.set(pfn, state.in_pool(self.pool.0, self.pages.len() as u32));
        self.pages.push(pfn);
    }
}

impl Pools {
    /// Whether there can be another pool.
    pub(crate) fn room_for_more(&self) -> bool {
        self.pools.len() < MAX_POOLS
    }

    /// A new, empty pool.
    pub(crate) fn create(&mut self) -> PoolId {
        assert!(self.room_for_more(), "more pools than a frame can name");
        self.pools.push(Vec::new());
        PoolId(self.pools.len() as u32 - 1)
    }

    /// Lets the shrinkers free the pages of a pool.
    pub(crate) fn set_shrinkable(&mut self, pool: PoolId) {
        self.shrinkable.push(pool);
    }

    /// The pools that shrinkers may free pages of.
    pub(crate) fn shrinkable(&self) -> &[PoolId] {
        &self.shrinkable
    }

    /// First frames of the blocks in a pool.
    #[inline]
    pub(crate) fn entries(&self, pool: PoolId) -> &[u32] {
        &self.pools[pool.0 as usize]
    }

    /// Blocks in a pool.
    #[inline]
    pub(crate) fn len(&self, pool: PoolId) -> u32 {
        self.entries(pool).len() as u32
    }

    /// The end of a pool.
    #[inline]
    pub(crate) fn end(&mut self, pool: PoolId) -> PoolEnd<'_> {
        PoolEnd {
            pool,
            pages: &mut self.pools[pool.0 as usize],
        }
    }

    /// Adds a used block to a pool.
    #[inline]
    pub(crate) fn push(&mut self, frames: &mut Frames, pool: PoolId, pfn: u32) {
        let state = frames.get(pfn);
        self.end(pool).push(frames, pfn, state);
    }

    /// Takes the entry at `index` out of a pool; the last entry fills the gap.
    #[inline]
    pub(crate) fn take(&mut self, frames: &mut Frames, pool: PoolId, index: u32) -> u32 {
        let pages = &mut self.pools[pool.0 as usize];
        let pfn = pages.swap_remove(index as usize);
        if let Some(&moved) = pages.get(index as usize) {
            let state = frames.get(moved);
            frames.set(moved, state.in_pool(pool.0, index));
        }
        pfn
    }

    /// Puts another used block at `index`; the block that was there, or `None`, and nothing is
    /// changed, if the pool has no such entry.
    #[inline]
    pub(crate) fn replace(
        &mut self,
        frames: &mut Frames,
        pool: PoolId,
        index: u32,
        pfn: u32,
    ) -> Option<u32> {
        let entry = self.pools[pool.0 as usize].get_mut(index as usize)?;
        let state = frames.get(pfn);
        frames.set(pfn, state.in_pool(pool.0, index));
        Some(std::mem::replace(entry, pfn))
    }

    /// The block whose state is `state` lies at `pfn` from now on; the state is not changed.
    #[inline]
    pub(crate) fn relocate(&mut self, state: FrameState, pfn: u32) {
        let (pool, index) = state.pool_entry();
        self.pools[pool as usize][index as usize] = pfn;
    }

    /// Whether a pool holds the block at `pfn`; if so, at which index.
    pub(crate) fn find(&self, frames: &Frames, pool: PoolId, pfn: u32) -> Option<u32> {
        let (owner, index) = frames.get(pfn).pool_entry();
        let held = self.entries(pool).get(index as usize) == Some(&pfn);
        (owner == pool.0 && held).then_some(index)
    }

    /// Makes single pages of a used block of a pool: further entries of the pool, in order.
    pub(crate) fn split(&mut self, frames: &mut Frames, pfn: u32) {
        let state = frames.get(pfn);
        let (pool, _) = state.pool_entry();
        let single = state.with_order(0);
        frames.set(pfn, single);
        let mut end = self.end(PoolId(pool));
        for page in pfn + 1..pfn + (1 << state.order()) {
            end.push(frames, page, single);
        }
    }

    /// Reads the entries that `rng` is about to pick for removal. Each removal shortens the pool
    /// by one, and the last entry fills the gap.
    #[inline]
    pub(crate) fn touch_removals(&self, frames: &Frames, pool: PoolId, rng: &Rng) {
        let entries = self.entries(pool);
        let len = entries.len() as u32;
        if len < AHEAD as u32 {
            return;
        }
        let mut rng = rng.clone();
        let picks: [u32; AHEAD] =
            std::array::from_fn(|done| entries[rng.below(len - done as u32) as usize]);
        frames.touch(picks.into_iter());
        self.touch_last(frames, pool);
    }

    /// Reads the entries that `rng` is about to pick for replacement.
    #[inline]
    pub(crate) fn touch_replacements(&self, frames: &Frames, pool: PoolId, rng: &Rng) {
        let entries = self.entries(pool);
        let len = entries.len() as u32;
        if len == 0 {
            return;
        }
        let mut rng = rng.clone();
        let picks: [u32; AHEAD] = std::array::from_fn(|_| entries[rng.below(len) as usize]);
        frames.touch(picks.into_iter());
    }

    /// Reads the entries from `index` on.
    #[inline]
    pub(crate) fn touch_run(&self, frames: &Frames, pool: PoolId, index: u32) {
        let run = self.entries(pool).iter().skip(index as usize);
        frames.touch(run.take(AHEAD).copied());
    }

    /// Reads the last entries.
    #[inline]
    pub(crate) fn touch_last(&self, frames: &Frames, pool: PoolId) {
        let last = self.entries(pool).iter().rev();
        frames.touch(last.take(AHEAD).copied());
    }

    /// Verifies the invariant; the number of blocks in all pools.
    ///
    /// # Errors
    /// A sentence about the first violation.
    pub(crate) fn check(&self, frames: &Frames) -> Result<u64, String> {
        let mut blocks = 0;
        for (pool, pages) in self.pools.iter().enumerate() {
            for (index, &pfn) in pages.iter().enumerate() {
                let state = frames.get(pfn);
                let back = state.pool_entry() == (pool as u32, index as u32);
                if state.kind() != FrameKind::Used || state.on_lru() || !back {
                    return Err(format!("frame {pfn:#x} is not what pool {pool} thinks"));
                }
            }
            blocks += pages.len() as u64;
        }
        Ok(blocks)
    }
}
