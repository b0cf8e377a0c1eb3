// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hugepages of the filler that are broken or rebuilt: which, and what changes by it.

use super::{Filler, KINDS, PARTLY_RELEASED, REGULAR, RELEASED};
use crate::heap::bits::PageBits;
use crate::heap::tracker::{Tracker, Trackers};
use crate::units::{NATIVES, PAGES_PER_HUGE};
use core::ops::Range;

/// Hugepages of one kind looked at to find the emptiest or the fullest, those with the longest free
/// ranges first. The heap is locked meanwhile, and each is a cache miss or two.
const SCAN: usize = 16;

impl Filler {
    /// The emptiest hugepage with at least `min_free` free pages that have memory, among the
    /// broken ones or among the whole ones.
    pub fn emptiest(&self, trackers: &Trackers, broken: bool, min_free: usize) -> Option<u32> {
        let kinds = if broken {
            PARTLY_RELEASED..RELEASED
        } else {
            REGULAR..PARTLY_RELEASED
        };
        self.best_of(trackers, kinds, true, |tracker| {
            let emptiness = PAGES_PER_HUGE - tracker.used_pages();
            (tracker.free_backed_pages() >= min_free).then_some(emptiness)
        })
    }

    /// The hugepage of some kinds with the highest rank, among the first [`SCAN`] of each kind from
    /// the one with the longest free range down, or else up.
    fn best_of(
        &self,
        trackers: &Trackers,
        kinds: Range<usize>,
        down: bool,
        rank: impl Fn(&Tracker) -> Option<usize>,
    ) -> Option<u32> {
        let mut best: Option<(usize, u32)> = None;
        for kind in kinds {
            let mut left = SCAN;
            self.lists.visit(trackers, kind, down, |id| {
                if let Some(rank) = rank(&trackers[id])
                    && best.is_none_or(|(highest, _)| rank > highest)
                {
                    best = Some((rank, id));
                }
                left -= 1;
                left > 0
            });
        }
        best.map(|(_, id)| id)
    }

    /// Takes a hugepage off the lists while it is released or collapsed without the lock; returns
    /// its free pages that have memory.
    pub fn begin_busy(&mut self, trackers: &mut Trackers, id: u32) -> PageBits {
        self.unlink(trackers, id);
        let tracker = &mut trackers[id];
        tracker.busy = true;
        tracker.used.or(tracker.released).inverted()
    }

    /// Ends a release that gave `pages` back, and so many native pages inside spans in use; true
    /// when the hugepage became empty meanwhile and is to be retired.
    #[must_use]
    pub fn end_release(
        &mut self,
        trackers: &mut Trackers,
        id: u32,
        pages: PageBits,
        natives: usize,
    ) -> bool {
        let tracker = &mut trackers[id];
        debug_assert!(tracker.busy);
        tracker.busy = false;
        tracker.released = tracker.released.or(pages);
        let count = pages.count();
        tracker.released_pages += count as u16;
        tracker.holes += natives as u16;
        let newly_broken = count + natives > 0 && (!tracker.broken || tracker.native);
        if newly_broken {
            self.sizes.native_hugepages -= usize::from(tracker.native);
            tracker.native = false;
            tracker.broken = true;
        }
        let used = tracker.used_pages as usize;
        self.sizes.released_pages += count;
        self.sizes.hole_natives += natives;
        if newly_broken {
            self.sizes.broken_hugepages += 1;
            self.sizes.broken_used_pages += used;
        }
        self.relink_unless_empty(trackers, id)
    }

    /// Ends a collapse; on success the hugepage is whole again and all of its pages have memory.
    #[must_use]
    pub fn end_collapse(&mut self, trackers: &mut Trackers, id: u32, succeeded: bool) -> bool {
        let tracker = &mut trackers[id];
        debug_assert!(tracker.busy && tracker.broken);
        tracker.busy = false;
        if succeeded {
            let released = core::mem::take(&mut tracker.released_pages) as usize;
            if tracker.counts_broken() {
                self.sizes.broken_used_pages -= tracker.used_pages as usize;
            }
            if tracker.native {
                self.sizes.native_hugepages -= 1;
            } else {
                self.sizes.broken_hugepages -= 1;
            }
            self.sizes.hole_natives -= usize::from(core::mem::take(&mut tracker.holes));
            tracker.epoch = tracker.epoch.wrapping_add(1);
            tracker.released = PageBits::EMPTY;
            tracker.broken = false;
            tracker.native = false;
            tracker.gaps = false;
            self.sizes.released_pages -= released;
        }
        self.relink_unless_empty(trackers, id)
    }

    /// Takes note that so many of the holes that were made in an epoch of the hugepage are none any
    /// more; how many of them there were by then.
    pub fn fill_holes(
        &mut self,
        trackers: &mut Trackers,
        id: u32,
        natives: usize,
        epoch: u16,
    ) -> usize {
        let tracker = &mut trackers[id];
        if tracker.epoch != epoch {
            return 0;
        }
        tracker.holes -= natives as u16;
        self.sizes.hole_natives -= natives;
        natives
    }

    fn relink_unless_empty(&mut self, trackers: &mut Trackers, id: u32) -> bool {
        if trackers[id].used_pages == 0 {
            return true;
        }
        self.link(trackers, id);
        false
    }

    /// Notes that the system maps a hugepage of which nothing was released with native pages, or
    /// does so no longer.
    pub fn set_native(&mut self, trackers: &mut Trackers, id: u32, native: bool) {
        debug_assert!(trackers[id].may_be_native() && trackers[id].native != native);
        self.unlink(trackers, id);
        trackers[id].native = native;
        trackers[id].broken = native;
        self.link(trackers, id);
        if native {
            self.sizes.native_hugepages += 1;
        } else {
            self.sizes.native_hugepages -= 1;
        }
    }

    /// The fullest broken hugepage that is native by itself or at least `min_used` pages full, and
    /// was last tried before `before_s`; it is marked as tried at `now_s`.
    pub fn collapse_candidate(
        &self,
        trackers: &mut Trackers,
        min_used: usize,
        before_s: u32,
        now_s: u32,
    ) -> Option<u32> {
        let id = self.best_of(trackers, PARTLY_RELEASED..KINDS, false, |tracker| {
            let due = tracker.looked_at_s == 0 || tracker.looked_at_s < before_s;
            let used = tracker.native_pages() / NATIVES;
            (due && (tracker.native || used >= min_used)).then_some(used)
        })?;
        trackers[id].looked_at_s = now_s.max(1);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{DENSITIES, Density};
    use core::cell::Cell;

    /// 4,096 hugepages of each kind were looked at: at this size the lock was held for 1.7 ms.
    #[test]
    fn the_emptiest_of_64_gib_is_found_in_a_few_looks() {
        let (mut filler, mut trackers) = (Box::new(Filler::new()), Box::new(Trackers::new()));
        for hugepage in 0..32 << 10 {
            // Most are a quarter to three quarters full, one in 1,000 nearly empty.
            let used = if hugepage % 1000 == 7 {
                3
            } else {
                64 + hugepage * 37 % 128
            };
            let density = Density::of(1 + hugepage % 20);
            filler.contribute(&mut trackers, hugepage, used, false, density);
        }
        let looks = Cell::new(0);
        let id = filler.best_of(&trackers, REGULAR..PARTLY_RELEASED, true, |tracker| {
            looks.set(looks.get() + 1);
            Some(PAGES_PER_HUGE - tracker.used_pages())
        });
        assert_eq!(trackers[id.expect("one of them")].used_pages(), 3);
        assert!(
            looks.get() <= SCAN * (DENSITIES + 1),
            "{} looks",
            looks.get()
        );
    }
}
