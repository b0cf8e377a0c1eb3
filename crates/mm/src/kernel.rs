// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated kernel's memory management without the policy: the memory, what its background
//! threads remember, and the books. Mechanisms (`alloc`, `reclaim`, `compact`) and policies work
//! on it.

use crate::compact::skip::SkipMarks;
use crate::compact::state::{Deferral, Kcompactd, Scanners};
use crate::config::{CostlyRequests, Rules};
use crate::counters::Counters;
use crate::memory::{
    self, CpuLists, FrameKind, HIGH, LOW, Lru, PCP_BATCH, PCP_ORDERS, PoolId, Pools, Slot,
    Watermarks, Zone,
};
use crate::psi::Psi;
use crate::reclaim::swap::Swap;
use crate::reclaim::writeback::Writeback;
use ample_kit::random::Xoshiro256 as Rng;
use ample_pfn::MigrateType;

/// The state that all mechanisms share. Each field keeps its own invariants.
#[derive(Debug)]
pub(crate) struct SimKernel {
    pub(crate) zone: Zone,
    pub(crate) cpus: CpuLists,
    pub(crate) pools: Pools,
    pub(crate) lru: Lru,
    pub(crate) swap: Swap,
    pub(crate) writeback: Writeback,
    pub(crate) watermarks: Watermarks,
    /// The scanners of direct compaction and of kcompactd's requests.
    pub(crate) scanners: Scanners,
    /// When compaction may be tried again.
    pub(crate) deferral: Deferral,
    pub(crate) kcompactd: Kcompactd,
    /// Blocks that compaction passes over.
    pub(crate) skips: SkipMarks,
    pub(crate) rules: Rules,
    pub(crate) counters: Counters,
    pub(crate) psi: Psi,
    pub(crate) rng: Rng,
    /// Simulated time since boot.
    pub(crate) now_ns: u64,
}

impl SimKernel {
    /// A machine of `frames` frames that are in no block yet ([`Zone::release`] hands them over)
    /// and `cpus` CPUs.
    pub(crate) fn new(frames: u32, cpus: usize, rules: Rules, seed: u64) -> SimKernel {
        let zone = Zone::new(frames, rules.banded);
        SimKernel {
            scanners: Scanners::apart(&zone),
            skips: SkipMarks::new(zone.block_count(), rules.costly == CostlyRequests::Kernel),
            zone,
            cpus: CpuLists::new(cpus),
            pools: Pools::default(),
            lru: Lru::EMPTY,
            swap: Swap::default(),
            writeback: Writeback::default(),
            watermarks: Watermarks::new(
                rules.tuning.min_free_factor,
                rules.marks,
                rules.one_type_low,
            ),
            deferral: Deferral::default(),
            kcompactd: Kcompactd::default(),
            rules,
            counters: Counters::default(),
            psi: Psi::default(),
            rng: Rng::new(seed),
            now_ns: 0,
        }
    }

    /// The type under which a region keeps pages of `mt`.
    #[inline]
    pub(crate) fn type_in(&self, region: usize, mt: MigrateType) -> MigrateType {
        if region == LOW && self.rules.one_type_low {
            MigrateType::Unmovable
        } else {
            mt
        }
    }

    /// Regions that requests of a type may use, best first.
    #[inline]
    pub(crate) fn route(&self, mt: MigrateType) -> &'static [usize] {
        self.rules.route[mt as usize]
    }

    /// Free pages of the machine, per-CPU lists included.
    pub(crate) fn all_free_pages(&self) -> u64 {
        let of = |region| self.zone.free_pages(region) + self.cpus.pages(region);
        of(LOW) + of(HIGH)
    }

    /// Free pages of the regions that movable pages may go to, per-CPU lists left out.
    pub(crate) fn free_user_pages(&self) -> u64 {
        let regions = self.route(MigrateType::Movable).iter();
        regions.map(|&region| self.zone.free_pages(region)).sum()
    }

    /// Moves the border, and the watermarks with it.
    pub(crate) fn set_border(&mut self, pfn: u32) {
        self.zone.set_border(pfn);
        self.watermarks.update(&self.zone);
    }

    /// Adds a used block to a pool.
    #[inline]
    pub(crate) fn give(&mut self, pool: PoolId, pfn: u32) {
        self.pools.push(self.zone.frames_mut(), pool, pfn);
    }

    /// Takes the entry at `index` out of a pool; the last entry fills the gap.
    #[inline]
    pub(crate) fn take_from(&mut self, pool: PoolId, index: u32) -> u32 {
        self.pools.take(self.zone.frames_mut(), pool, index)
    }

    /// Puts a used page on the inactive LRU list.
    #[inline]
    pub(crate) fn cache(&mut self, pfn: u32) {
        let state = self.zone.state(pfn);
        self.lru.add(self.zone.frames_mut(), pfn, state);
    }

    /// Frees a used block that no pool and no LRU list holds any more.
    #[inline]
    pub(crate) fn free(&mut self, pfn: u32, cpu: usize) {
        let state = self.zone.state(pfn);
        let order = state.order();
        debug_assert_eq!(state.kind(), FrameKind::Used);
        self.zone.count_used(pfn, order, state.class(), false);
        self.counters.frees += 1;
        let block = self.zone.block_of(pfn);
        if order >= PCP_ORDERS || block.isolated {
            self.zone.free_block(pfn, order);
            return;
        }
        let region = self.zone.region(pfn);
        let slot = self.cpus.slot(cpu, region, order, block.mt);
        if self.cpus.put(self.zone.frames_mut(), slot, pfn) {
            self.drain_batch(slot);
        }
    }

    /// Frees a used block past the per-CPU lists, as reclaim does (`free_unref_folios`).
    pub(crate) fn free_to_buddy(&mut self, pfn: u32) {
        let state = self.zone.state(pfn);
        debug_assert_eq!(state.kind(), FrameKind::Used);
        let order = state.order();
        self.zone.count_used(pfn, order, state.class(), false);
        self.counters.frees += 1;
        self.zone.free_block(pfn, order);
    }

    /// Returns the oldest pages of a per-CPU list to the buddy lists.
    #[cold]
    #[inline(never)]
    fn drain_batch(&mut self, slot: Slot) {
        let mut oldest = [0; PCP_BATCH as usize];
        let count = self.cpus.take_batch(slot, &mut oldest);
        let (oldest, order) = (&oldest[..count], slot.list.order);
        let frames = self.zone.frames();
        frames.touch(oldest.iter().copied());
        // What decides where a large block goes lies outside its own cache line.
        if order > 1 {
            frames.touch(oldest.iter().map(|pfn| pfn ^ 1 << order));
        }
        for &pfn in oldest {
            self.zone.free_block(pfn, order);
        }
    }

    /// Returns all per-CPU pages to the buddy lists.
    pub(crate) fn drain_all(&mut self) {
        let zone = &mut self.zone;
        self.cpus.drain(|pfn, order| zone.free_block(pfn, order));
    }

    /// Verifies every invariant of the memory in O(frames).
    ///
    /// # Errors
    /// A sentence about the first violation, with the frame.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.watermarks.check()?;
        memory::check(&self.zone, &self.cpus, &self.pools, &self.lru)
    }
}
