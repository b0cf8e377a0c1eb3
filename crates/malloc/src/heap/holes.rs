// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holes: native pages inside spans in use on which no live object lies, given back to the system.
//!
//! A span that holds one live object keeps all of its pages, so that a program that freed most of
//! its small objects keeps nearly all of its memory. What no peak of the last
//! `release::LASTING_S` seconds needed goes back by native pages: hugepages that are
//! broken first, then whole ones, the emptiest first, as far as the policy lets them be broken.
//! Hugepages are looked at in turn; what objects lie where the layer above knows.

pub use super::turns::{HoleRelease, HugeSpans};
use super::{Owner, PageHeap, ReleasePolicy};
use crate::heap::bits::PageBits;
use crate::os::vm::Vm;
use crate::units::{HUGE_PAGES_SHIFT, NATIVE_BYTES, NATIVES, PAGE_BYTES, PAGES_PER_HUGE};

/// Native pages in a hugepage.
const NATIVES_PER_HUGE: usize = NATIVES * PAGES_PER_HUGE;
/// A hugepage is gone through only for at least this many native pages: 128 KiB.
const LEAST: usize = 32;
/// A hugepage of which at most this part would stay is not worth keeping whole, whatever the floor
/// for what has been free for long: a quarter.
const SPARSE: usize = NATIVES_PER_HUGE / 4;
/// Steps from the emptiest hugepages to full ones.
const STEPS: usize = 8;
/// Holes are made from this share of the peak on that is free in spans and beside them.
const START_PERCENT: usize = 50;
/// After a turn in which nothing was found that may go back, the next one waits so long: 16 s.
const REST_NS: u64 = 16_000_000_000;

impl<V: Vm> PageHeap<V> {
    /// Pages that have memory, in use or not: [`super::HeapSizes::backed_pages`] at less cost.
    pub fn backed_pages(&self) -> usize {
        self.filler.backed_pages()
            + self.cache.hugepages() * PAGES_PER_HUGE
            + self.region_backed * PAGES_PER_HUGE
            + self.large_pages
            - self.filler.hole_natives() / NATIVES
    }

    /// Pages in use by spans that have memory.
    pub const fn in_use_pages(&self) -> usize {
        self.used_pages - self.filler.hole_natives() / NATIVES
    }

    /// Takes note of how much is in use now.
    pub(super) fn record_used(&mut self) {
        let (now_ns, used) = (self.vm.now_ns(), self.in_use_pages());
        self.used_peak.record(now_ns, used);
        self.used_most = self.used_most.max(used);
    }

    /// Pages that are to go back by holes, if `free_bytes` of the spans are free objects; 0 for
    /// none. To be called in each round.
    pub fn wanted_holes(&mut self, policy: &ReleasePolicy, free_bytes: usize) -> usize {
        let now_ns = self.vm.now_ns();
        let holes = self.filler.hole_natives() * NATIVE_BYTES;
        let free = free_bytes.saturating_sub(holes) / PAGE_BYTES;
        let live = self.in_use_pages().saturating_sub(free);
        self.holes.live_peak.record(now_ns, live);
        let peak = self.holes.live_peak.highest(now_ns);
        let least = policy.keep_pages.min(peak.max(PAGES_PER_HUGE));
        let keep = |percent: usize| peak + (peak * percent / 100).max(least);
        let backed = self.backed_pages();
        let start_percent = if self.holes.begun {
            policy.keep_share_percent as usize
        } else {
            START_PERCENT.min(policy.start_share_percent as usize)
        };
        if backed <= keep(start_percent) {
            self.holes.begun = false;
            self.holes.step = 0;
            return 0;
        }
        if now_ns < self.holes.not_before_ns || self.holes.regret.waits(now_ns) {
            return 0;
        }
        self.holes.begun = true;
        backed - keep(policy.keep_share_percent as usize).min(backed)
    }

    /// The next hugepage in turn that has spans; `None`, once, when all have had their turn.
    pub fn next_spans(&mut self) -> Option<HugeSpans> {
        while self.holes.last < self.trackers.last_id() {
            self.holes.last += 1;
            let id = self.holes.last;
            let tracker = &self.trackers[id];
            if tracker.live && !tracker.busy && tracker.used_pages > 0 {
                return Some(HugeSpans {
                    tracker: id,
                    hugepage: tracker.hugepage(),
                    used: tracker.used,
                    epoch: tracker.epoch,
                });
            }
        }
        self.holes.last = 0;
        None
    }

    /// Begins with the first hugepage again.
    pub fn begin_spans(&mut self) {
        self.holes.last = 0;
    }

    /// Begins a turn through all hugepages, of which fuller ones may be broken than in the last;
    /// false, for a while, if there are no fuller ones.
    pub fn begin_turn(&mut self) -> bool {
        self.holes.step += 1;
        if self.holes.step < STEPS {
            return true;
        }
        self.holes.step = 0;
        self.holes.begun = false;
        self.holes.not_before_ns = self.vm.now_ns() + REST_NS;
        false
    }

    /// Begins to make holes in the spans of a hugepage, of which `natives` native pages may go
    /// back; `None` if the policy would rather keep it as it is.
    pub fn begin_holes(
        &mut self,
        spans: &HugeSpans,
        natives: usize,
        policy: &ReleasePolicy,
        all: bool,
    ) -> Option<HoleRelease> {
        let tracker = &self.trackers[spans.tracker];
        let same = tracker.live
            && !tracker.busy
            && tracker.hugepage() == spans.hugepage
            && tracker.epoch == spans.epoch;
        if !same || tracker.used_pages == 0 || natives < if all { 1 } else { LEAST } {
            return None;
        }
        let stays = tracker.native_pages().saturating_sub(natives);
        if !all && !tracker.broken && !self.may_break(stays, natives, policy) {
            return None;
        }
        let mark = !tracker.broken || tracker.native;
        let mark = mark && self.filler.broken_hugepages() < super::release::MOST_MARKED;
        let free = self.filler.begin_busy(&mut self.trackers, spans.tracker);
        Some(HoleRelease {
            tracker: spans.tracker,
            free,
            mark,
        })
    }

    /// Whether a whole hugepage may be broken of which `stays` native pages would stay.
    fn may_break(&self, stays: usize, natives: usize, policy: &ReleasePolicy) -> bool {
        if policy.huge_floor_percent >= 100
            || stays > (self.holes.step + 1) * NATIVES_PER_HUGE / STEPS
        {
            return false;
        }
        let floor = policy
            .huge_floor_percent
            .min(super::release::LASTING_FLOOR_PERCENT) as usize;
        let sizes = self.filler.sizes();
        let broken = sizes.broken_used_pages - sizes.hole_pages() + stays / NATIVES;
        let backed = self.backed_pages().saturating_sub(natives / NATIVES);
        stays <= SPARSE || broken <= backed * (100 - floor) / 100
    }

    /// Ends a step that made so many holes, or none.
    pub fn end_holes(&mut self, release: &HoleRelease, natives: usize, succeeded: bool) {
        let (pages, natives) = match succeeded {
            true => (release.free, natives),
            false => (PageBits::EMPTY, 0),
        };
        let bytes = (pages.count() * PAGE_BYTES + natives * NATIVE_BYTES) as u64;
        self.released_bytes += bytes;
        self.subreleased_bytes += bytes;
        let id = release.tracker;
        if natives > 0 {
            let now_ns = self.vm.now_ns();
            self.holes.regret.begin(now_ns, natives);
        }
        let empty = self
            .filler
            .end_release(&mut self.trackers, id, pages, natives);
        if empty {
            self.retire(id);
        }
        self.record_used();
    }

    /// Takes note that so many of the holes of the span at `page` are none any more.
    pub fn fill_holes(&mut self, page: usize, natives: u32, epoch: u16) {
        let Owner::Filler(id) = self.map.get(page >> HUGE_PAGES_SHIFT) else {
            debug_assert!(false, "spans with holes lie on hugepages of the filler");
            return;
        };
        let trackers = &mut self.trackers;
        self.filler
            .fill_holes(trackers, id, natives as usize, epoch);
    }

    /// Takes note that objects are handed out on so many holes of the span at `page`.
    pub fn refill(&mut self, page: usize, natives: u32, epoch: u16) {
        self.fill_holes(page, natives, epoch);
        let now_ns = self.vm.now_ns();
        self.holes.regret.note_taken(now_ns, natives as usize);
        self.record_used();
    }
}
