// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page cache on two LRU lists, and reclaim (`mm/vmscan.c`, 6.12). There is no swap, so
//! anonymous and shared memory stay where they are until their owner frees them.

use crate::ahead::{AHEAD, begins_group};
use crate::core::{Core, LOW};
use crate::frame::{Kind, State};
use ample_pfn::PageClass;

const INACTIVE: usize = 0;
const ACTIVE: usize = 1;
/// Share of slab pages whose last object a shrinker can free: the others hold a hostage.
const SHRINK_SUCCESS: f64 = 0.1;

impl Core {
    /// Puts a used page-cache page on the inactive list.
    #[inline]
    pub(crate) fn lru_add(&mut self, pfn: u32) {
        let place = self.lru[INACTIVE].push_head(&mut self.frames, pfn);
        let state = self.frames.get(pfn).with_lru(true).with_active(false);
        self.frames.set(pfn, state.at(place));
    }

    /// Takes a page off its LRU list.
    pub(crate) fn lru_remove(&mut self, pfn: u32) {
        let state = self.frames.get(pfn);
        self.lru[usize::from(state.active())].remove(state.place());
        self.frames.set(pfn, state.with_lru(false));
    }

    /// Marks a page as used again; the second use makes it active (`mark_page_accessed`).
    pub(crate) fn lru_touch(&mut self, pfn: u32) {
        let state = self.frames.get(pfn);
        if !state.referenced() {
            self.frames.set(pfn, state.with_referenced(true));
        } else if !state.active() {
            self.move_to(pfn, state.with_referenced(false).with_active(true));
        }
    }

    fn move_to(&mut self, pfn: u32, state: State) {
        let old = self.frames.get(pfn);
        self.lru[usize::from(old.active())].remove(old.place());
        let place = self.lru[usize::from(state.active())].push_head(&mut self.frames, pfn);
        self.frames.set(pfn, state.at(place));
    }

    /// Tries to free `goal` pages that help `region`; pages looked at and pages freed.
    pub(crate) fn reclaim(&mut self, region: usize, goal: u32) -> (u32, u32) {
        let mut scanned = 0;
        let mut freed = 0;
        let cache_helps = region != LOW || self.rules.mixing;
        if cache_helps {
            (scanned, freed) = self.shrink_cache(region, goal);
        }
        // Shrinkers run in proportion (`shrink_slab`): one slab page looked at for 16 of cache.
        let slab_goal = if cache_helps { goal / 16 } else { goal };
        let (slab_scanned, slab_freed) = self.shrink_slab(slab_goal);
        (scanned + slab_scanned, freed + slab_freed)
    }

    fn shrink_cache(&mut self, region: usize, goal: u32) -> (u32, u32) {
        let (mut scanned, mut freed) = (0, 0);
        while freed < goal && scanned < 8 * goal {
            if begins_group(scanned) {
                for list in &self.lru {
                    self.frames.touch(list.near_tail(AHEAD as u32));
                }
            }
            if self.lru[INACTIVE].len() < self.lru[ACTIVE].len() {
                self.deactivate();
            }
            let Some(pfn) = self.lru[INACTIVE].tail() else {
                break;
            };
            scanned += 1;
            let state = self.frames.get(pfn);
            if state.referenced() {
                self.move_to(pfn, state.with_referenced(false).with_active(true));
            } else if state.short_pinned() || self.region(pfn) < region {
                self.move_to(pfn, state);
            } else {
                self.lru_remove(pfn);
                self.free_reclaimed(pfn);
                freed += 1;
            }
        }
        (scanned, freed)
    }

    fn deactivate(&mut self) {
        if let Some(pfn) = self.lru[ACTIVE].tail() {
            let state = self.frames.get(pfn);
            self.move_to(pfn, state.with_active(false).with_referenced(false));
        }
    }

    /// Reclaimed pages go straight to the buddy lists (`free_unref_folios` in batches).
    fn free_reclaimed(&mut self, pfn: u32) {
        let state = self.frames.get(pfn);
        debug_assert_eq!(state.kind(), Kind::Used);
        self.account(pfn, state.order(), state.class(), false);
        self.counters.frees += 1;
        self.free_block(pfn, state.order());
    }

    /// Runs the shrinkers over `count` slab pages; pages looked at and pages freed.
    pub(crate) fn shrink_slab(&mut self, count: u32) -> (u32, u32) {
        let mut freed = 0;
        for _ in 0..count {
            if self.shrinkable.is_empty() {
                return (0, 0);
            }
            let pick = self.rng.below(self.shrinkable.len() as u32);
            let pool = self.shrinkable[pick as usize];
            let len = self.pools[pool as usize].len() as u32;
            if len == 0 || !self.rng.chance(SHRINK_SUCCESS) {
                continue;
            }
            let index = self.rng.below(len);
            let pfn = self.pool_take(pool, index);
            debug_assert_eq!(self.frames.get(pfn).class(), PageClass::SlabReclaimable);
            freed += 1 << self.frames.get(pfn).order();
            self.free_reclaimed(pfn);
        }
        self.counters.slab_shrunk_pages += u64::from(freed);
        (count, freed)
    }

    /// Drops up to `count` cache pages from `pfn` on along its LRU list: pages read together
    /// lie together there, as those of a file that is deleted.
    pub(crate) fn drop_file(&mut self, pfn: u32, count: u32) {
        let state = self.frames.get(pfn);
        let list = &self.lru[usize::from(state.active())];
        let file: Vec<u32> = (list.from(state.place()).map(|(_, pfn)| pfn))
            .take(count as usize)
            .collect();
        self.frames.touch(file.iter().copied());
        for pfn in file {
            if !self.frames.get(pfn).short_pinned() {
                self.lru_remove(pfn);
                self.free_reclaimed(pfn);
            }
        }
    }
}
