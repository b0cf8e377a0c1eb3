// SPDX-License-Identifier: MIT OR Apache-2.0
//! Swap: pages of user memory that reclaim takes lie there until they are wanted again
//! (`mm/vmscan.c`, `mm/swap_state.c`, 6.12). A machine has none unless its workload says so.

use crate::kernel::SimKernel;
use crate::memory::PoolId;

/// Pages looked at for each that is to go.
const LOOKS: u32 = 8;

/// What lies in swap, by the pools that it came from.
#[derive(Debug, Default)]
pub(crate) struct Swap {
    /// Room that is left, in pages.
    free_pages: u64,
    /// Share of what reclaim frees that it takes from user memory, the rest being page cache.
    share: f64,
    /// Pools whose pages may go, and how many of each have gone.
    pools: Vec<(PoolId, u64)>,
}

impl Swap {
    /// Sets up an area of so many pages.
    pub(crate) fn set_up(&mut self, pages: u64, share: f64) {
        debug_assert!((0.0..=1.0).contains(&share), "{share}");
        self.free_pages = pages;
        self.share = share;
    }

    /// Lets the pages of a pool of user memory go.
    pub(crate) fn add_pool(&mut self, pool: PoolId) {
        self.pools.push((pool, 0));
    }

    /// Of `goal` pages to reclaim, those that are to come from user memory.
    fn part_of(&self, goal: u32) -> u32 {
        let part = (f64::from(goal) * self.share) as u32;
        part.min(u32::try_from(self.free_pages).unwrap_or(u32::MAX))
    }

    /// Pages of a pool that lie in swap.
    pub(crate) fn pages_of(&self, pool: PoolId) -> u64 {
        let found = self.pools.iter().find(|(of, _)| *of == pool);
        found.map_or(0, |(_, pages)| *pages)
    }

    /// Takes up to `pages` pages of a pool out of swap, read back or dropped; how many there were.
    pub(crate) fn take_back(&mut self, pool: PoolId, pages: u64) -> u64 {
        let found = self.pools.iter_mut().find(|(of, _)| *of == pool);
        let taken = found.map_or(0, |(_, held)| {
            let taken = pages.min(*held);
            *held -= taken;
            taken
        });
        self.free_pages += taken;
        taken
    }
}

/// Takes the share of `goal` pages that user memory is to give; pages looked at and pages freed.
pub(super) fn shrink_user(kernel: &mut SimKernel, goal: u32) -> (u32, u32) {
    let goal = kernel.swap.part_of(goal);
    let pools = kernel.swap.pools.len() as u32;
    let (mut scanned, mut freed) = (0, 0);
    while pools > 0 && freed < goal && scanned < LOOKS * goal {
        scanned += 1;
        let at = kernel.rng.below(pools) as usize;
        let pool = kernel.swap.pools[at].0;
        let len = kernel.pools.len(pool);
        if len == 0 {
            continue;
        }
        let index = kernel.rng.below(len);
        let state = kernel
            .zone
            .state(kernel.pools.entries(pool)[index as usize]);
        let pages = 1u32 << state.order();
        // A huge page goes as a whole, and as seldom as its pages would one by one.
        let fits = u64::from(pages) <= kernel.swap.free_pages;
        if state.short_pinned() || !fits || pages > 1 && !kernel.rng.chance(1.0 / f64::from(pages))
        {
            continue;
        }
        let pfn = kernel.take_from(pool, index);
        kernel.free_to_buddy(pfn);
        kernel.swap.pools[at].1 += u64::from(pages);
        kernel.swap.free_pages -= u64::from(pages);
        kernel.counters.swapped_pages += u64::from(pages);
        freed += pages;
    }
    (scanned, freed)
}
