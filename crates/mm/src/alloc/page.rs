// SPDX-License-Identifier: MIT OR Apache-2.0
//! Allocation and freeing: per-CPU lists, watermarks, the slow path
//! (`mm/page_alloc.c`, 6.12: `rmqueue`, `__alloc_pages_slowpath`).

use crate::core::{BLOCK_ORDER, Core, HIGH, LOW, MAX_ORDER, PCP_ORDERS};
use crate::frame::{Frames, Kind, State};
use crate::list::List;
use crate::psi::{RECLAIM_NS, Stall};
use crate::server::Server;
use ample_pfn::{MigrateType, PageClass, is_movable};

/// Pages moved between a per-CPU list and the buddy lists at once (`pcp->batch`).
const PCP_BATCH: u32 = 63;
/// Pages a per-CPU list of order 0 holds before it is drained.
const PCP_HIGH: u32 = 6 * PCP_BATCH;
/// Pages one round of direct reclaim tries to free (`SWAP_CLUSTER_MAX`); more where compaction
/// needs more room than that (`compact_gap`).
const RECLAIM_BATCH: u32 = 32;
/// Rounds of reclaim before a request fails (`MAX_RECLAIM_RETRIES`); where compaction may help, as
/// many at each of its three priorities (`MAX_COMPACT_RETRIES`); and for orders above
/// `PAGE_ALLOC_COSTLY_ORDER` a quarter of that at the first two (`should_compact_retry`).
fn retries(order: u32) -> u32 {
    match order {
        0 => 16,
        1..PCP_ORDERS => 48,
        _ => 5,
    }
}

/// What is asked of the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What the pages are for; decides the migratetype.
    pub class: PageClass,
    /// Order of the block.
    pub order: u32,
    /// May not sleep (`GFP_ATOMIC`): no reclaim, no compaction, half the reserve.
    pub atomic: bool,
    /// Fails early instead of reclaiming (without `__GFP_DIRECT_RECLAIM`).
    pub light: bool,
    /// Inherently long-lived: belongs at the far end of the unmovable region.
    pub long_lived: bool,
}

impl Request {
    /// An ordinary request for one page.
    pub fn new(class: PageClass) -> Request {
        Request {
            class,
            order: 0,
            atomic: false,
            light: false,
            long_lived: false,
        }
    }

    /// The same for a block of `order`.
    pub fn order(self, order: u32) -> Request {
        Request { order, ..self }
    }

    /// The same, unable to sleep.
    pub fn atomic(self) -> Request {
        Request {
            atomic: true,
            ..self
        }
    }

    /// The same, giving up rather than reclaiming.
    pub fn light(self) -> Request {
        Request {
            light: true,
            ..self
        }
    }
}

#[inline]
fn pcp_index(region: usize, order: u32, mt: MigrateType) -> usize {
    (region * PCP_ORDERS as usize + order as usize) * 3 + mt as usize
}

impl Core {
    /// The type under which a region keeps pages of `mt`.
    #[inline]
    pub(crate) fn type_in(&self, region: usize, mt: MigrateType) -> MigrateType {
        if region == LOW && self.rules.one_type_low {
            MigrateType::Unmovable
        } else {
            mt
        }
    }

    /// The CPU that stands for a caller's.
    #[inline]
    fn cpu(&self, cpu: usize) -> usize {
        let count = self.cpus.len();
        if count.is_power_of_two() {
            cpu & (count - 1)
        } else {
            cpu % count
        }
    }

    /// Frees a used block that no pool and no LRU list holds any more.
    #[inline]
    pub(crate) fn free_used(&mut self, pfn: u32, cpu: usize) {
        let state = self.frames.get(pfn);
        let order = state.order();
        debug_assert_eq!(state.kind(), Kind::Used);
        self.account(pfn, order, state.class(), false);
        self.counters.frees += 1;
        let block = self.blocks[(pfn >> BLOCK_ORDER) as usize];
        if order >= PCP_ORDERS || block.isolated {
            self.free_block(pfn, order);
            return;
        }
        let region = self.region(pfn);
        let cpu = self.cpu(cpu);
        self.frames
            .set(pfn, State::free(Kind::Pcp, order, block.mt));
        self.pcp_pages[region] += 1 << order;
        let list = &mut self.cpus[cpu].lists[pcp_index(region, order, block.mt)];
        list.push_back(pfn);
        if list.len() as u32 > PCP_HIGH >> order {
            self.drain_batch(region, order, block.mt, cpu);
        }
    }

    /// Returns the oldest pages of a per-CPU list to the buddy lists.
    #[cold]
    #[inline(never)]
    fn drain_batch(&mut self, region: usize, order: u32, mt: MigrateType, cpu: usize) {
        let list = &mut self.cpus[cpu].lists[pcp_index(region, order, mt)];
        let mut oldest = [0; PCP_BATCH as usize];
        let batch = (PCP_BATCH as usize >> order).min(list.len());
        let oldest = &mut oldest[..batch];
        for (pfn, old) in oldest.iter_mut().zip(list.drain(..batch)) {
            *pfn = old;
        }
        self.pcp_pages[region] -= (batch as u64) << order;
        self.frames.touch(oldest.iter().copied());
        // What decides where a large block goes lies outside its own cache line.
        if order > 1 {
            self.frames.touch(oldest.iter().map(|pfn| pfn ^ 1 << order));
        }
        for &pfn in &*oldest {
            self.free_block(pfn, order);
        }
    }

    /// Up to `most` blocks from the per-CPU list that a request is served from first, the last
    /// freed first, each passed to `keep` with its state to be; how many there were.
    #[inline]
    fn take_hot(
        &mut self,
        request: &Request,
        cpu: usize,
        most: u32,
        mut keep: impl FnMut(u32, State, &mut Frames),
    ) -> u32 {
        if request.order >= PCP_ORDERS || request.long_lived {
            return 0;
        }
        let mt = MigrateType::of(request.class);
        let region = self.rules.route[mt as usize][0];
        let index = pcp_index(region, request.order, self.type_in(region, mt));
        let cpu = self.cpu(cpu);
        let list = &mut self.cpus[cpu].lists[index];
        let count = (list.len() as u32).min(most);
        let state = State::used(request.order, request.class);
        let movable = is_movable(request.class);
        for pfn in list.drain(list.len() - count as usize..).rev() {
            let block = &mut self.blocks[(pfn >> BLOCK_ORDER) as usize];
            let used = if movable {
                &mut block.movable
            } else {
                &mut block.fixed
            };
            *used += 1 << request.order;
            keep(pfn, state, &mut self.frames);
        }
        self.pcp_pages[region] -= u64::from(count << request.order);
        self.counters.allocs += u64::from(count);
        count
    }

    /// As [`Core::take_hot`], into a pool.
    pub(crate) fn take_hot_into_pool(
        &mut self,
        pool: u32,
        request: &Request,
        cpu: usize,
        most: u32,
    ) -> u32 {
        let mut pages = std::mem::take(&mut self.pools[pool as usize]);
        let count = self.take_hot(request, cpu, most, |pfn, state, frames| {
            frames.set(pfn, state.in_pool(pool, pages.len() as u32));
            pages.push(pfn);
        });
        self.pools[pool as usize] = pages;
        count
    }

    /// As [`Core::take_hot`], into the page cache.
    pub(crate) fn take_hot_into_cache(&mut self, request: &Request, cpu: usize, most: u32) -> u32 {
        let mut inactive = std::mem::replace(&mut self.lru[0], List::EMPTY);
        let count = self.take_hot(request, cpu, most, |pfn, state, frames| {
            let place = inactive.push_head(frames, pfn);
            frames.set(pfn, state.with_lru(true).at(place));
        });
        self.lru[0] = inactive;
        count
    }
}

impl Core {
    /// A request of `order` went into the slow path: kswapd wakes, frees twice its size whatever
    /// is free (`compact_gap`), and wakes kcompactd for it before it sleeps (`balance_pgdat`).
    fn wake_kswapd(&mut self, region: usize, order: u32) {
        self.kcompactd.note_request(order);
        self.kswapd_awake[region] = true;
        if order > 0 {
            self.kswapd_gap = self.kswapd_gap.max(2 << order);
        }
    }
}

impl Server {
    /// Allocates a block; its first frame, or `None` when memory cannot be had. The caller hands
    /// it to a pool or to the LRU lists, or frees it.
    #[inline]
    pub(crate) fn alloc(&mut self, request: &Request, cpu: usize) -> Option<u32> {
        let mt = MigrateType::of(request.class);
        let pfn = match self.get_page(request, mt, cpu) {
            Some(pfn) => pfn,
            None => self.alloc_slow(request, mt, cpu)?,
        };
        self.core.counters.allocs += 1;
        self.core.set_used(pfn, request.order, request.class);
        Some(pfn)
    }

    /// One pass over the regions that the request may use (`get_page_from_freelist`).
    #[inline]
    fn get_page(&mut self, request: &Request, mt: MigrateType, cpu: usize) -> Option<u32> {
        let route = self.core.rules.route[mt as usize];
        for &region in route {
            let mt = self.core.type_in(region, mt);
            if request.order < PCP_ORDERS && !request.long_lived {
                let index = pcp_index(region, request.order, mt);
                let cpu = self.core.cpu(cpu);
                if self.core.cpus[cpu].lists[index].is_empty() {
                    self.refill(request, region, mt, cpu);
                }
                if let Some(pfn) = self.core.cpus[cpu].lists[index].pop_back() {
                    self.core.pcp_pages[region] -= 1 << request.order;
                    return Some(pfn);
                }
            } else if self.watermark_ok(request, region)
                && let Some(pfn) = self.remove_from_buddy(region, request.order, mt)
            {
                return Some(pfn);
            }
        }
        None
    }

    fn remove_from_buddy(&mut self, region: usize, order: u32, mt: MigrateType) -> Option<u32> {
        if order > MAX_ORDER {
            return None;
        }
        match self.core.take(region, order, mt) {
            Some(pfn) => Some(pfn),
            None => self.policy.fallback(&mut self.core, region, order, mt),
        }
    }

    /// Whether the request leaves the region its reserve; wakes kswapd on the way down.
    fn watermark_ok(&mut self, request: &Request, region: usize) -> bool {
        let free = self.core.free_pages(region);
        let marks = self.core.watermarks[region];
        if free < marks.low + (1 << request.order) {
            self.core.kswapd_awake[region] = true;
        }
        if self.core.kswapd_awake[region] {
            self.kswapd_quantum(region);
        }
        let mut reserve = if request.atomic {
            marks.min / 2
        } else {
            marks.min
        };
        // `lowmem_reserve_ratio`: requests that could use the upper zone leave the lower one
        // 1/32 of the upper.
        if region == LOW && MigrateType::of(request.class) == MigrateType::Movable {
            reserve += self.core.region_pages(HIGH) / 32;
        }
        self.core.free_pages(region) >= reserve + (1 << request.order)
    }

    #[cold]
    fn refill(&mut self, request: &Request, region: usize, mt: MigrateType, cpu: usize) {
        if !self.watermark_ok(request, region) {
            return;
        }
        let order = request.order;
        let index = pcp_index(region, order, mt);
        self.core.touch_free(region, order, mt, PCP_BATCH >> order);
        let mut wanted = PCP_BATCH >> order;
        while wanted > 0 {
            let run = (self.core.take_run(region, order, mt, wanted)).or_else(|| {
                let pfn = self.policy.fallback(&mut self.core, region, order, mt)?;
                Some((pfn, 1))
            });
            let Some((first, count)) = run else {
                break;
            };
            // The block it came from may be of another type (a stolen page): it still goes to
            // the list of the request, and back to its block's list when freed.
            let list = &mut self.core.cpus[cpu].lists[index];
            for pfn in (first..).step_by(1 << order).take(count as usize) {
                self.core.frames.set(pfn, State::free(Kind::Pcp, order, mt));
                list.push_front(pfn);
            }
            self.core.pcp_pages[region] += u64::from(count << order);
            wanted -= count;
        }
    }

    #[cold]
    fn alloc_slow(&mut self, request: &Request, mt: MigrateType, cpu: usize) -> Option<u32> {
        let stall = stall_of(mt);
        // A huge page at fault asks for nothing in the background either (`GFP_TRANSHUGE_LIGHT`).
        if request.order < BLOCK_ORDER || !request.light {
            let region = self.core.rules.route[mt as usize][0];
            self.core.wake_kswapd(region, request.order);
        }
        for round in 0..retries(request.order) {
            if self.policy.relieve(&mut self.core, request, round)
                && let Some(pfn) = self.get_page(request, mt, cpu)
            {
                return Some(pfn);
            }
            if request.atomic || request.light {
                break;
            }
            // The first attempt may be deferred; the next has a higher priority, which no deferral
            // holds back (`should_compact_retry`, orders up to 3).
            let compacts =
                request.order > 0 && (round > 0 || !self.core.deferral.defers(request.order));
            if compacts && self.direct_compact(request.order, mt, round > 0, stall) {
                if let Some(pfn) = self.get_page(request, mt, cpu) {
                    return Some(pfn);
                }
                if request.order >= BLOCK_ORDER && round > 0 {
                    break;
                }
            }
            let region = self.core.rules.route[mt as usize][0];
            let (scanned, freed) = self
                .core
                .reclaim(region, RECLAIM_BATCH.max(2 << request.order));
            self.core.psi.stall(stall, u64::from(scanned) * RECLAIM_NS);
            self.core.counters.direct_reclaimed_pages += u64::from(freed);
            if freed == 0 && round == 0 {
                self.core.drain_all();
            }
            if let Some(pfn) = self.get_page(request, mt, cpu) {
                return Some(pfn);
            }
            if freed == 0 && round > 2 {
                break;
            }
        }
        if !request.light {
            match stall {
                Stall::Unmovable => self.core.counters.failed_unmovable += 1,
                Stall::Movable => self.core.counters.failed_movable += 1,
            }
        }
        None
    }

    /// A step of kswapd, which runs beside the allocating task: frees a few pages when awake,
    /// and sleeps again above the high watermark (plus the boost after a block was claimed).
    pub(crate) fn kswapd_quantum(&mut self, region: usize) {
        let core = &mut self.core;
        let goal = core.watermarks[region].high + core.boost_pages;
        if core.free_pages(region) >= goal && core.kswapd_gap == 0 {
            core.kswapd_awake[region] = false;
            core.kcompactd.wake_after_kswapd(core.boost_pages > 0);
            core.boost_pages = 0;
            return;
        }
        // Reclaim cannot help the unmovable region except through shrinkers; the resizer, which
        // shares the wake-up, does the rest.
        let (_, freed) = core.reclaim(region, core.kswapd_gap.max(2 * PCP_BATCH));
        core.kswapd_gap = 0;
        core.counters.kswapd_reclaimed_pages += u64::from(freed);
    }

    /// kswapd on its own, between allocations: as far as it gets in `elapsed_ns`.
    pub(crate) fn kswapd_run(&mut self, region: usize, elapsed_ns: u64) {
        let quanta = elapsed_ns / (2 * u64::from(PCP_BATCH) * RECLAIM_NS) + 1;
        for _ in 0..quanta {
            let before = self.core.free_pages(region);
            if !self.core.kswapd_awake[region] {
                return;
            }
            self.kswapd_quantum(region);
            if self.core.free_pages(region) == before {
                return;
            }
        }
    }

    /// Frees a block that the caller got from [`Server::alloc`] and did not hand over.
    #[inline]
    pub(crate) fn free(&mut self, pfn: u32, cpu: usize) {
        self.core.free_used(pfn, cpu);
    }

    /// Free pages of the machine, per-CPU lists included.
    pub fn free_pages(&self) -> u64 {
        let in_region = |region| self.core.free_pages(region) + self.core.pcp_pages[region];
        in_region(LOW) + in_region(HIGH)
    }

    /// Free pages that user memory and page cache may take: those below a border that confines are
    /// the kernel's. Per-CPU lists included.
    pub fn free_user_pages(&self) -> u64 {
        let regions = self.core.rules.route[MigrateType::Movable as usize];
        let in_lists: u64 = regions
            .iter()
            .map(|&region| self.core.pcp_pages[region])
            .sum();
        self.core.free_user_pages() + in_lists
    }
}

/// Which pressure a wait for this type belongs to.
pub(crate) fn stall_of(mt: MigrateType) -> Stall {
    if mt == MigrateType::Movable {
        Stall::Movable
    } else {
        Stall::Unmovable
    }
}
