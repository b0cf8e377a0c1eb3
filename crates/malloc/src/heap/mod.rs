// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page heap: spans of 8 KiB pages from hugepages that stay full or become empty.
//!
//! [`PageHeap`] routes a request as figure 7 of the paper does. At most 1 MiB goes to the filler;
//! below 2 MiB the filler is asked first; then a region, if the program uses regions; then whole
//! hugepages, whose unused tail is donated to the filler. From 1 GiB on slack does not matter.

mod aligned;
mod back_off;
pub mod bits;
pub mod eager;
mod filler;
pub mod holes;
mod huge_allocator;
mod huge_cache;
mod huge_map;
pub mod limit;
mod lists;
pub mod pageheap;
pub mod pagemap;
mod ranges;
mod rebuild;
mod region;
mod regret;
mod release;
mod sizes;
pub mod span;
#[cfg(test)]
mod tests;
pub mod trace;
mod tracker;
mod turns;

pub use back_off::BackOff;
pub use filler::{Filler, Placement};
pub use huge_allocator::HugeAllocator;
pub use huge_cache::{CacheCounters, HugeCache, MinMax, WINDOW_NS};
pub use huge_map::{HugeMap, Owner};
pub use ranges::{Nodes, RangeSet};
pub use rebuild::{Collapse, LOOKS, LookStep};
pub use region::{REGION_HUGEPAGES, Region};
pub use release::{Release, ReleasePolicy};
pub use sizes::{FillerSizes, HeapOptions, HeapSizes, Rebuilds, Sum};
pub use tracker::{Tracker, Trackers};

use crate::os::meta::Pool;
use crate::os::vm::Vm;
use crate::units::{Density, GIB, HUGE_PAGES_SHIFT, HugeRange, PAGE_BYTES, PAGES_PER_HUGE};

/// Requests up to this many pages are the filler's alone: 1 MiB.
const SMALL_PAGES: usize = PAGES_PER_HUGE / 2;
/// From this many pages on, the slack of a span does not matter: 1 GiB.
const HUGE_SPAN_PAGES: usize = GIB / PAGE_BYTES;
/// No region is made before this much slack has gathered: 64 MiB.
const REGION_SLACK_PAGES: usize = (64 << 20) / PAGE_BYTES;
/// Regions serve requests up to this many pages: larger ones lose little on whole hugepages.
const REGION_SPAN_PAGES: usize = GIB / 4 / PAGE_BYTES;

/// Regions a heap may have: 16 TiB.
type Regions = Pool<Region, 32>;

/// The page heap over some virtual memory.
pub struct PageHeap<V> {
    vm: V,
    nodes: Nodes,
    trackers: Trackers,
    regions: Regions,
    map: HugeMap,
    allocator: HugeAllocator,
    cache: HugeCache,
    filler: Filler,
    no_regions: bool,
    /// Pages on whole hugepages of large spans.
    large_pages: usize,
    region_used_pages: usize,
    region_backed: usize,
    /// Pages of the fictitious allocations of donated tails, and the slack behind them.
    tail_pages: usize,
    slack_pages: usize,
    used_pages: usize,
    /// Whether the last span came from memory that the system has zeroed.
    last_is_zero: bool,
    /// The hugepage that was left gaps in by the last span.
    last_with_gaps: Option<usize>,
    /// Empty hugepages on their way to the system: broken ones, whole ones.
    unbacking: [RangeSet; 2],
    used_peak: MinMax,
    /// The highest peak of the last [`release::LASTING_S`], as the rounds of release see it.
    lasting_peak: MinMax,
    /// The most pages that were ever in use.
    used_most: usize,
    released_bytes: u64,
    subreleased_bytes: u64,
    rebuilds: Rebuilds,
    /// The tracker that was looked at last.
    looked: u32,
    eager: regret::Eager,
    holes: turns::Holes,
}

impl<V: Vm> PageHeap<V> {
    /// An empty heap, whose cache keeps nothing until it is configured. It is zero memory but for
    /// `vm`, so that the process's heap costs no space in the library.
    pub const fn new(vm: V) -> Self {
        PageHeap {
            vm,
            nodes: Pool::new(),
            trackers: Pool::new(),
            regions: Pool::new(),
            map: HugeMap::new(),
            allocator: HugeAllocator::new(),
            cache: HugeCache::new(0),
            filler: Filler::new(),
            no_regions: false,
            large_pages: 0,
            region_used_pages: 0,
            region_backed: 0,
            tail_pages: 0,
            slack_pages: 0,
            used_pages: 0,
            last_is_zero: false,
            last_with_gaps: None,
            unbacking: [RangeSet::new(), RangeSet::new()],
            used_peak: MinMax::new(),
            lasting_peak: MinMax::new(),
            used_most: 0,
            released_bytes: 0,
            subreleased_bytes: 0,
            rebuilds: Rebuilds::NONE,
            looked: 0,
            eager: regret::Eager::new(),
            holes: turns::Holes::new(),
        }
    }

    /// Applies options; to be called before the first request.
    pub fn configure(&mut self, options: HeapOptions) {
        self.no_regions = !options.regions;
        self.filler.set_split_by_density(options.split_by_density);
        self.cache.set_min_limit(options.cache_min_hugepages);
        self.used_peak.set_windows(options.window_s / 2);
        self.cache.set_windows(options.window_s / 2);
        let lasting_s = options.window_s.max(release::LASTING_S);
        self.lasting_peak.set_windows(lasting_s / 2);
        self.holes.configure(lasting_s / 2);
    }

    /// The virtual memory.
    pub const fn vm(&self) -> &V {
        &self.vm
    }

    /// The virtual memory, to change it.
    pub const fn vm_mut(&mut self) -> &mut V {
        &mut self.vm
    }

    /// `New(N)` of the paper: the first page number of a span of `len` pages; `None` if the system
    /// refuses memory.
    pub fn allocate(&mut self, len: usize, density: Density) -> Option<usize> {
        debug_assert!(len > 0);
        self.last_is_zero = false;
        let page = self.route(len, density)?;
        self.note_used(len as isize);
        Some(page)
    }

    fn note_used(&mut self, pages: isize) {
        self.used_pages = self.used_pages.wrapping_add_signed(pages);
        self.record_used();
    }

    fn route(&mut self, len: usize, density: Density) -> Option<usize> {
        if len >= HUGE_SPAN_PAGES {
            return self.allocate_large(len, false);
        }
        if len < PAGES_PER_HUGE {
            let placed = self.on_filler(|filler, trackers| filler.allocate(trackers, len, density));
            if placed.is_some() {
                return placed;
            }
        }
        if len <= SMALL_PAGES {
            return self.allocate_small(len, density);
        }
        if !len.is_multiple_of(PAGES_PER_HUGE)
            && len <= REGION_SPAN_PAGES
            && let Some(page) = self.allocate_in_region(len)
        {
            return Some(page);
        }
        self.allocate_large(len, true)
    }

    /// Places a span on a hugepage of the filler, and counts what memory it takes for that.
    fn on_filler(
        &mut self,
        place: impl FnOnce(&mut Filler, &mut Trackers) -> Option<Placement>,
    ) -> Option<usize> {
        let released = self.filler.released_pages();
        let placement = place(&mut self.filler, &mut self.trackers)?;
        let taken = released - self.filler.released_pages();
        if taken > 0 {
            self.eager.note_taken(self.vm.now_ns(), taken);
        }
        Some(placement.page)
    }

    /// A span on a hugepage that is new to the filler.
    fn allocate_small(&mut self, len: usize, density: Density) -> Option<usize> {
        let range = self.take_hugepages(1)?;
        self.contribute(range.start, len, false, density)
            .or_else(|| {
                self.give_back(range);
                None
            })
    }

    fn contribute(
        &mut self,
        hugepage: usize,
        len: usize,
        donated: bool,
        density: Density,
    ) -> Option<usize> {
        if !self.map.prepare(hugepage, 1) {
            return None;
        }
        let placement =
            self.filler
                .contribute(&mut self.trackers, hugepage, len, donated, density)?;
        self.map.set(hugepage, Owner::Filler(placement.tracker));
        Some(placement.page)
    }

    /// Whole hugepages, backed if the cache has them.
    fn take_hugepages(&mut self, len: usize) -> Option<HugeRange> {
        let now_ns = self.vm.now_ns();
        if let Some(range) = self.cache.take(&mut self.nodes, now_ns, len) {
            self.last_is_zero = false;
            return Some(range);
        }
        let range = self.allocator.allocate(&mut self.nodes, &mut self.vm, len);
        self.last_is_zero = range.is_some();
        match range {
            Some(_) => self.eager.note_taken(now_ns, len << HUGE_PAGES_SHIFT),
            None => self.cache.forget(now_ns, len),
        }
        range
    }

    /// Whether the memory of the span that was handed out last is known to be zero.
    pub const fn last_is_zero(&self) -> bool {
        self.last_is_zero
    }

    /// A span of whole hugepages, its tail donated to the filler.
    fn allocate_large(&mut self, len: usize, donate: bool) -> Option<usize> {
        let range = self.take_hugepages(len.div_ceil(PAGES_PER_HUGE))?;
        Some(self.span_on(range, len, donate))
    }

    fn span_on(&mut self, range: HugeRange, len: usize, donate: bool) -> usize {
        let tail = len % PAGES_PER_HUGE;
        let last = range.start + range.len - 1;
        // Without memory for a tracker the tail simply stays with the span.
        if donate && tail > 0 && self.contribute(last, tail, true, Density::SPARSE).is_some() {
            self.slack_pages += PAGES_PER_HUGE - tail;
            self.tail_pages += tail;
            self.large_pages += (range.len - 1) << HUGE_PAGES_SHIFT;
        } else {
            self.large_pages += range.len << HUGE_PAGES_SHIFT;
        }
        range.first_page()
    }

    fn allocate_in_region(&mut self, len: usize) -> Option<usize> {
        if self.regions.live() > 0
            && let Some(page) = self.try_regions(len)
        {
            return Some(page);
        }
        let small = self.filler.sizes().used() - self.tail_pages;
        let wanted = self.slack_pages >= REGION_SLACK_PAGES.max(small) && len < REGION_SPAN_PAGES;
        if self.no_regions || !wanted {
            return None;
        }
        self.add_region()?;
        self.try_regions(len)
    }

    /// The region with the shortest sufficient longest free range.
    fn try_regions(&mut self, len: usize) -> Option<usize> {
        let (_, id) = (1..=self.regions.last_id())
            .map(|id| (self.regions[id].longest(&self.nodes), id))
            .filter(|&(longest, _)| longest >= len)
            .min()?;
        let (page, backed) = self.regions[id].allocate(&mut self.nodes, len)?;
        self.region_used_pages += len;
        self.region_backed += backed;
        let now_ns = self.vm.now_ns();
        self.cache.adopt(now_ns, backed);
        Some(page)
    }

    fn add_region(&mut self) -> Option<u32> {
        let range = self
            .allocator
            .allocate(&mut self.nodes, &mut self.vm, REGION_HUGEPAGES)?;
        let id = if self.map.prepare(range.start, range.len) {
            self.regions.allocate()
        } else {
            None
        };
        let Some(id) = id.filter(|&id| self.regions[id].start(&mut self.nodes, range)) else {
            self.allocator.free(&mut self.nodes, range);
            return None;
        };
        for hugepage in range.start..range.start + range.len {
            self.map.set(hugepage, Owner::Region(id));
        }
        Some(id)
    }

    /// `Delete(S)` of the paper: frees the span of `len` pages at page number `page`.
    pub fn free(&mut self, page: usize, len: usize) {
        match self.map.get(page >> HUGE_PAGES_SHIFT) {
            Owner::Filler(id) => {
                // A donating span below one hugepage is its own fictitious allocation.
                if len > SMALL_PAGES
                    && self.trackers[id].donated
                    && page.is_multiple_of(PAGES_PER_HUGE)
                {
                    self.note_tail_gone(id, len);
                }
                self.free_on_filler(id, page, len);
            }
            Owner::Region(id) => {
                if self.regions[id].free(&mut self.nodes, page, len) {
                    self.region_used_pages -= len;
                }
            }
            Owner::None => self.free_large(page, len),
        }
        self.note_used(-(len as isize));
    }

    /// The span that donated its tail is gone: the hugepage is like any other from now on.
    fn note_tail_gone(&mut self, id: u32, tail: usize) {
        self.trackers[id].donated = false;
        self.slack_pages -= PAGES_PER_HUGE - tail;
        self.tail_pages -= tail;
    }

    fn free_on_filler(&mut self, id: u32, page: usize, len: usize) {
        if self.filler.free(&mut self.trackers, id, page, len) {
            self.retire(id);
        }
    }

    /// Takes an empty hugepage from the filler to the cache, or to the system if it was broken.
    fn retire(&mut self, id: u32) {
        let (hugepage, whole) = self.filler.retire(&mut self.trackers, id);
        self.map.set(hugepage, Owner::None);
        let range = HugeRange {
            start: hugepage,
            len: 1,
        };
        if whole {
            self.give_back(range);
        } else {
            let now_ns = self.vm.now_ns();
            self.cache.put_unbacked(now_ns, 1);
            self.queue_unback(range, false);
        }
    }

    /// Hugepages of a large span's own: all, but for one whose tail was donated.
    fn whole_hugepages(&self, page: usize, len: usize) -> usize {
        let hugepages = len.div_ceil(PAGES_PER_HUGE);
        let last = (page >> HUGE_PAGES_SHIFT) + hugepages - 1;
        let donated = !len.is_multiple_of(PAGES_PER_HUGE) && self.map.get(last) != Owner::None;
        hugepages - usize::from(donated)
    }

    /// Frees the part of a large span that lies on a hugepage whose tail was donated, if any does.
    fn free_tail(&mut self, page: usize, len: usize) {
        let whole = self.whole_hugepages(page, len);
        let tail_page = page + (whole << HUGE_PAGES_SHIFT);
        if tail_page < page + len
            && let Owner::Filler(id) = self.map.get(tail_page >> HUGE_PAGES_SHIFT)
        {
            let tail = len % PAGES_PER_HUGE;
            self.note_tail_gone(id, tail);
            self.free_on_filler(id, tail_page, tail);
        }
    }

    fn free_large(&mut self, page: usize, len: usize) {
        let hugepages = self.whole_hugepages(page, len);
        self.free_tail(page, len);
        self.large_pages -= hugepages << HUGE_PAGES_SHIFT;
        self.give_back(HugeRange {
            start: page >> HUGE_PAGES_SHIFT,
            len: hugepages,
        });
    }

    /// Empty backed hugepages go to the cache, and what exceeds its limit to the system.
    fn give_back(&mut self, range: HugeRange) {
        let now_ns = self.vm.now_ns();
        if let Some(range) = self.cache.put(&mut self.nodes, now_ns, range) {
            self.queue_unback(range, true);
        }
        self.trim_cache();
    }

    fn trim_cache(&mut self) {
        let now_ns = self.vm.now_ns();
        while let Some(range) = self.cache.overflow(&mut self.nodes, now_ns) {
            self.queue_unback(range, true);
        }
    }

    /// Sizes of all parts.
    pub fn sizes(&self) -> HeapSizes {
        HeapSizes {
            filler: self.filler.sizes(),
            cache_hugepages: self.cache.hugepages(),
            cache_limit_hugepages: self.cache.limit_hugepages(),
            cache: self.cache.counters(),
            large_pages: self.large_pages,
            regions: self.regions.live(),
            region_used_pages: self.region_used_pages,
            region_backed_hugepages: self.region_backed,
            slack_pages: self.slack_pages,
            reserved_hugepages: self.allocator.reserved_hugepages(),
            free_hugepages: self.allocator.free_hugepages(),
            leaked_hugepages: self.allocator.leaked_hugepages(),
            used_pages: self.used_pages,
            released_bytes: self.released_bytes,
            subreleased_bytes: self.subreleased_bytes,
            rebuilds: self.rebuilds,
        }
    }
}
