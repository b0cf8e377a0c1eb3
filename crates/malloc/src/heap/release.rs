// SPDX-License-Identifier: MIT OR Apache-2.0
//! Giving memory back.
//!
//! No system call on memory is made under the heap's lock: a step is begun under the lock, which
//! takes the memory out of every structure that could hand it out; the caller makes the call
//! without the lock; a second locked call ends the step. Several threads may have steps under way.

use super::{Owner, PageHeap};
use crate::heap::bits::PageBits;
use crate::os::vm::Vm;
use crate::units::{HUGE_BYTES, HUGE_PAGES_SHIFT, HugeRange, PAGE_BYTES, PAGES_PER_HUGE};

/// A hugepage is broken only for at least this many free pages: an eighth of it.
const MIN_SUBRELEASE_PAGES: usize = PAGES_PER_HUGE / 8;
/// So many pages may lie on broken hugepages whatever the floor says: in a heap of a few hugepages
/// a share means nothing, and native pages of 4 MiB together fit into a second-level TLB.
const MIN_BROKEN_PAGES: usize = 2 * PAGES_PER_HUGE;
/// So many broken hugepages are marked as such to the kernel: each may cost two of the 65,530
/// mappings that a process may have.
pub(super) const MOST_MARKED: usize = 16384;
/// A program that uses less than three quarters of the most it ever used has had its burst: memory
/// goes back from this share of the peak on. Before, a share near it is how a busy heap breathes.
const START_AFTER_BURST_PERCENT: u32 = 50;
/// What no peak of so many seconds needed is not needed soon: the price that a release may have
/// rises.
pub(super) const LASTING_S: u32 = 16;
/// Of what stays backed then, this part at least stays on whole hugepages: half.
pub(super) const LASTING_FLOOR_PERCENT: u32 = 50;
/// How much may be released, and at what price.
#[derive(Clone, Copy, Debug)]
pub struct ReleasePolicy {
    /// Free backed memory that is kept beyond the recent peak of use: a share of that peak.
    pub keep_share_percent: u32,
    /// And at least this many pages, or as many as that peak if it is lower.
    pub keep_pages: usize,
    /// Hugepages are broken only when more than this share of the peak is free, and then until
    /// `keep_share_percent` is left: what a steady program leaves unused is not worth a hugepage.
    pub start_share_percent: u32,
    /// Of the memory that stays backed, the part on unbroken hugepages may not fall below this, or
    /// below half once so much was free for 16 s or less than an eighth of the most ever used is in
    /// use. 0 allows any subrelease, 100 none.
    pub huge_floor_percent: u32,
}

impl Default for ReleasePolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl ReleasePolicy {
    /// What holds without options.
    pub const DEFAULT: ReleasePolicy = ReleasePolicy {
        keep_share_percent: 10,
        keep_pages: (8 << 20) / PAGE_BYTES,
        start_share_percent: 75,
        huge_floor_percent: 92,
    };
}

/// A release under way.
#[derive(Clone, Copy, Debug)]
pub enum Release {
    /// Empty hugepages that are whole.
    Hugepages(HugeRange),
    /// Empty hugepages that were broken.
    Broken(HugeRange),
    /// Empty hugepages of a region.
    Region(u32, HugeRange),
    /// Free pages of a partly used hugepage: its tracker, its number, the pages, and whether the
    /// hugepage is to be marked as one that stays broken.
    Part(u32, usize, PageBits, bool),
}

impl Release {
    const fn of(range: HugeRange, whole: bool) -> Release {
        if whole {
            Release::Hugepages(range)
        } else {
            Release::Broken(range)
        }
    }

    /// Makes the system calls of the step; true if all succeeded.
    pub fn run(&self, vm: &impl Vm) -> bool {
        match self {
            Release::Hugepages(range) | Release::Region(_, range) => {
                vm.unback(range.address(), range.bytes())
            }
            Release::Broken(range) => {
                vm.set_huge(*range, true);
                vm.unback(range.address(), range.bytes())
            }
            Release::Part(_, hugepage, pages, mark) => {
                if *mark {
                    // Or khugepaged would fill it up again.
                    let (start, len) = (*hugepage, 1);
                    vm.set_huge(HugeRange { start, len }, false);
                }
                let free = pages.inverted();
                let mut from = 0;
                vm.unback_all(&mut core::iter::from_fn(|| {
                    let (start, len) = free.clear_run(from)?;
                    from = start + len;
                    Some((hugepage * HUGE_BYTES + start * PAGE_BYTES, len * PAGE_BYTES))
                }))
            }
        }
    }

    /// The bytes that the step gives back.
    pub fn bytes(&self) -> usize {
        match self {
            Release::Hugepages(range) | Release::Broken(range) | Release::Region(_, range) => {
                range.bytes()
            }
            Release::Part(_, _, pages, _) => pages.count() * PAGE_BYTES,
        }
    }
}

impl<V: Vm> PageHeap<V> {
    /// Remembers empty hugepages, whole or broken ones, for release as soon as the lock is free.
    pub(super) fn queue_unback(&mut self, range: HugeRange, whole: bool) {
        let queue = &mut self.unbacking[usize::from(whole)];
        if !queue.insert(&mut self.nodes, range.start, range.len) {
            // Without memory to remember them the call cannot wait.
            let release = Release::of(range, whole);
            let succeeded = release.run(&self.vm);
            self.end_unback(range, succeeded);
        }
    }

    /// Whether [`PageHeap::begin_queued`] has something to do.
    pub fn has_queued(&self) -> bool {
        self.unbacking.iter().any(|queue| queue.count() > 0)
    }

    /// Begins the release of hugepages that became superfluous.
    pub fn begin_queued(&mut self) -> Option<Release> {
        [true, false].into_iter().find_map(|whole| {
            let queue = &mut self.unbacking[usize::from(whole)];
            let (start, len) = queue.take_last(&mut self.nodes, usize::MAX)?;
            Some(Release::of(HugeRange { start, len }, whole))
        })
    }

    /// Lets the cache's limit follow the demand as time passes.
    pub fn age(&mut self) {
        self.trim_cache();
    }

    /// Pages that the policy wants released now.
    pub fn excess_pages(&mut self, policy: &ReleasePolicy) -> usize {
        let now_ns = self.vm.now_ns();
        let peak = self.used_peak.highest(now_ns);
        let least = policy.keep_pages.min(peak.max(PAGES_PER_HUGE));
        let keep = |percent: u32| peak + (peak * percent as usize / 100).max(least);
        let backed = self.sizes().backed_pages();
        self.lasting_peak.record(now_ns, peak);
        let start_percent = if peak < self.used_most / 4 * 3 {
            policy.start_share_percent.min(START_AFTER_BURST_PERCENT)
        } else {
            policy.start_share_percent
        };
        if backed <= keep(start_percent) {
            return 0;
        }
        backed - keep(policy.keep_share_percent).min(backed)
    }

    /// Whether so much is free beside what is in use now that the policy will want some of it back
    /// once the peak of the last seconds has passed: use has dropped.
    pub fn has_dropped(&self, policy: &ReleasePolicy) -> bool {
        let backed = self.sizes().backed_pages();
        let used = self.in_use_pages();
        let share = used * policy.start_share_percent as usize / 100;
        backed > used + share.max(policy.keep_pages)
    }

    /// Begins one step of `Release(N)`: from the cache, then from regions, then from the emptiest
    /// hugepages. `None` if nothing more may be released. At most `pages` pages are released,
    /// rounded up to a hugepage.
    pub fn begin_release(&mut self, pages: usize, policy: &ReleasePolicy) -> Option<Release> {
        if pages == 0 {
            return None;
        }
        let now_ns = self.vm.now_ns();
        let hugepages = pages.div_ceil(PAGES_PER_HUGE);
        if let Some(range) = self.cache.release(&mut self.nodes, now_ns, hugepages) {
            return Some(Release::Hugepages(range));
        }
        for id in 1..=self.regions.last_id() {
            if let Some(range) = self.regions[id].begin_release(&mut self.nodes, hugepages) {
                return Some(Release::Region(id, range));
            }
        }
        self.begin_subrelease(policy)
    }

    fn begin_subrelease(&mut self, policy: &ReleasePolicy) -> Option<Release> {
        if let Some(id) = self.filler.emptiest(&self.trackers, true, 1) {
            return Some(self.begin_part(id));
        }
        let id = self
            .filler
            .emptiest(&self.trackers, false, MIN_SUBRELEASE_PAGES)?;
        let tracker = &self.trackers[id];
        let sizes = self.sizes();
        // What stays backed if this hugepage is broken, and how much of it is on broken ones.
        let stays = sizes.backed_pages() - tracker.free_backed_pages();
        let filler = &sizes.filler;
        let broken = filler.broken_used_pages - filler.hole_pages() + tracker.used_pages();
        let allowed = match self.floor_percent(policy, sizes.backed_pages()) {
            100.. => 0,
            floor => (stays * (100 - floor as usize) / 100).max(MIN_BROKEN_PAGES),
        };
        (broken <= allowed).then(|| self.begin_part(id))
    }

    /// The floor that holds now: [`ReleasePolicy::huge_floor_percent`], or less for what has been
    /// free for long or is left of a burst.
    fn floor_percent(&mut self, policy: &ReleasePolicy, backed: usize) -> u32 {
        let now_ns = self.vm.now_ns();
        // Rounds may have been rare.
        let recent = self.used_peak.highest(now_ns);
        let lasting = self.lasting_peak.highest(now_ns).max(recent);
        let kept = lasting + lasting * policy.keep_share_percent as usize / 100;
        match policy.huge_floor_percent {
            floor @ 0..100 if backed > kept || self.is_after_burst() => {
                floor.min(LASTING_FLOOR_PERCENT)
            }
            floor => floor,
        }
    }

    fn begin_part(&mut self, id: u32) -> Release {
        let pages = self.filler.begin_busy(&mut self.trackers, id);
        let tracker = &self.trackers[id];
        let mark =
            (!tracker.broken || tracker.native) && self.filler.broken_hugepages() < MOST_MARKED;
        Release::Part(id, tracker.hugepage(), pages, mark)
    }

    /// Ends a step.
    pub fn end_release(&mut self, release: Release, succeeded: bool) {
        if succeeded {
            self.released_bytes += release.bytes() as u64;
        }
        match release {
            Release::Hugepages(range) | Release::Broken(range) => self.end_unback(range, succeeded),
            Release::Region(id, range) => {
                if succeeded {
                    self.region_backed -= range.len;
                    let now_ns = self.vm.now_ns();
                    self.cache.put_unbacked(now_ns, range.len);
                }
                self.regions[id].end_release(&mut self.nodes, range, succeeded);
            }
            Release::Part(id, _, pages, _) => {
                let pages = if succeeded { pages } else { PageBits::EMPTY };
                self.subreleased_bytes += (pages.count() * PAGE_BYTES) as u64;
                if self.filler.end_release(&mut self.trackers, id, pages, 0) {
                    self.retire(id);
                }
            }
        }
    }

    /// Hugepages that were given back are address space again. Refused ones (locked memory, say)
    /// still hold what was written to them: they are the cache's, or lost if that has no room.
    fn end_unback(&mut self, range: HugeRange, succeeded: bool) {
        if succeeded {
            self.allocator.free(&mut self.nodes, range);
        } else if !self.cache.put_failed(&mut self.nodes, range) {
            self.allocator.leak(range);
        }
    }

    /// Does everything that is queued, with the calls made at once: for heaps without threads.
    pub fn run_queued(&mut self) {
        while let Some(release) = self.begin_queued() {
            let succeeded = release.run(&self.vm);
            self.end_release(release, succeeded);
        }
    }

    /// `Release(N)` with the calls made at once: for heaps without threads. Pages released.
    pub fn release(&mut self, pages: usize, policy: &ReleasePolicy) -> usize {
        let mut released = 0;
        while released < pages {
            let Some(release) = self.begin_release(pages - released, policy) else {
                break;
            };
            let succeeded = release.run(&self.vm);
            self.end_release(release, succeeded);
            if !succeeded {
                break;
            }
            released += release.bytes() / PAGE_BYTES;
        }
        released
    }

    /// Whether a page lies on a hugepage that the filler knows to be broken.
    pub fn is_broken(&self, page: usize) -> bool {
        match self.map.get(page >> HUGE_PAGES_SHIFT) {
            Owner::Filler(id) => self.trackers[id].broken,
            _ => false,
        }
    }
}
