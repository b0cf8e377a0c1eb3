// SPDX-License-Identifier: MIT OR Apache-2.0
//! The HugeFiller (paper section 4.4): spans smaller than a hugepage, packed so that some
//! hugepages stay full and the others become empty.
//!
//! A request goes to the hugepage with the lowest sufficient longest free range and, among those,
//! the most allocations. Donated tails come after all other hugepages, broken ones last.

use super::FillerSizes;
use super::lists::Lists;
use super::tracker::{CHUNKS, Tracker, Trackers};
use crate::heap::bits::PageBits;
use crate::units::{DENSITIES, Density, PAGES_PER_HUGE};

/// Kinds of lists, in the order of preference for one density: each kind has one array of lists per
/// density, except for donated tails, which take sparse spans only.
const REGULAR: usize = 0;
const DONATED: usize = REGULAR + DENSITIES;
const PARTLY_RELEASED: usize = DONATED + 1;
const RELEASED: usize = PARTLY_RELEASED + DENSITIES;
const KINDS: usize = RELEASED + DENSITIES;

/// Below this many hugepages, densities share them: 32 MiB.
const SHARED_HUGEPAGES: usize = 16;
/// Hugepages of one kind looked at to find the emptiest or the fullest.
const SCAN: usize = 4096;

/// Where a span was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The hugepage's tracker.
    pub tracker: u32,
    /// The first page number of the span.
    pub page: usize,
}

/// Partly filled hugepages.
pub struct Filler {
    lists: Lists<KINDS>,
    sizes: FillerSizes,
    /// Whether sparse and dense spans share hugepages. (False is zero: the heap is zero memory.)
    mix_densities: bool,
}

impl Default for Filler {
    fn default() -> Self {
        Self::new()
    }
}

impl Filler {
    /// No hugepages.
    pub const fn new() -> Self {
        Filler {
            lists: Lists::new(),
            sizes: FillerSizes {
                hugepages: 0,
                used_pages: [0; DENSITIES],
                released_pages: 0,
                broken_hugepages: 0,
                broken_used_pages: 0,
                regular: [0; DENSITIES],
                donated: 0,
                partly_released: 0,
                released: 0,
            },
            mix_densities: false,
        }
    }

    /// Keeps sparse and dense spans on separate hugepages (the default), or not (the paper).
    pub fn set_split_by_density(&mut self, split: bool) {
        self.mix_densities = !split;
    }

    /// Sizes, at no cost.
    pub fn sizes(&self) -> FillerSizes {
        let mut sizes = self.sizes;
        for (density, count) in sizes.regular.iter_mut().enumerate() {
            *count = self.lists.count(REGULAR + density);
        }
        let count = |from: usize, len: usize| -> usize {
            (from..from + len).map(|kind| self.lists.count(kind)).sum()
        };
        sizes.donated = count(DONATED, 1);
        sizes.partly_released = count(PARTLY_RELEASED, DENSITIES);
        sizes.released = count(RELEASED, DENSITIES);
        sizes
    }

    /// Free pages that were given back to the system.
    pub const fn released_pages(&self) -> usize {
        self.sizes.released_pages
    }

    /// Pages that have memory.
    pub const fn backed_pages(&self) -> usize {
        self.sizes.hugepages * PAGES_PER_HUGE - self.sizes.released_pages
    }

    fn density(&self, density: Density) -> Density {
        if self.mix_densities {
            Density::SPARSE
        } else {
            density
        }
    }

    fn kind_of(tracker: &Tracker) -> usize {
        let density = usize::from(tracker.density);
        if tracker.released_pages > 0 && tracker.free_backed_pages() == 0 {
            RELEASED + density
        } else if tracker.broken {
            PARTLY_RELEASED + density
        } else if tracker.donated {
            DONATED
        } else {
            REGULAR + density
        }
    }

    fn link(&mut self, trackers: &mut Trackers, id: u32) {
        let tracker = &trackers[id];
        let (kind, index) = (Self::kind_of(tracker), tracker.list_index());
        self.lists.push(trackers, kind, id, index);
    }

    fn unlink(&mut self, trackers: &mut Trackers, id: u32) {
        self.lists.remove(trackers, id);
    }

    /// Places a span of `len` pages on a hugepage that the filler has; `None` if no hugepage has
    /// such a free range.
    pub fn allocate(
        &mut self,
        trackers: &mut Trackers,
        len: usize,
        density: Density,
    ) -> Option<Placement> {
        let density = self.density(density).index();
        let from = len * CHUNKS;
        let mut id = self.lists.least(REGULAR + density, from);
        if id == 0 && density == Density::SPARSE.index() {
            id = self.lists.least(DONATED, from);
        }
        if id == 0 && self.sizes.hugepages < SHARED_HUGEPAGES {
            id = self.least_of_any(from);
        }
        for kind in [PARTLY_RELEASED + density, RELEASED + density] {
            if id == 0 {
                id = self.lists.least(kind, from);
            }
        }
        if id == 0 {
            return None;
        }
        Some(self.place(trackers, id, len))
    }

    /// A hugepage of another density: in a small heap an own hugepage for each costs too much.
    fn least_of_any(&self, from: usize) -> u32 {
        (REGULAR..=DONATED)
            .map(|kind| self.lists.least(kind, from))
            .find(|&id| id != 0)
            .unwrap_or(0)
    }

    fn place(&mut self, trackers: &mut Trackers, id: u32, len: usize) -> Placement {
        self.unlink(trackers, id);
        let tracker = &mut trackers[id];
        let (offset, rebacked) = tracker.allocate(len).expect("the list says that it fits");
        let page = tracker.first_page() + offset;
        let (density, broken) = (tracker.density, tracker.broken);
        self.sizes.released_pages -= rebacked;
        self.count_used(density, broken, len as isize);
        self.link(trackers, id);
        Placement { tracker: id, page }
    }

    fn count_used(&mut self, density: u8, broken: bool, pages: isize) {
        let used = &mut self.sizes.used_pages[usize::from(density)];
        *used = used.wrapping_add_signed(pages);
        if broken {
            let used = &mut self.sizes.broken_used_pages;
            *used = used.wrapping_add_signed(pages);
        }
    }

    /// Adds a backed hugepage whose first `len` pages are in use: a new one for a span that fitted
    /// nowhere, or the donated tail of a large span. `None` if there is no memory for its tracker.
    pub fn contribute(
        &mut self,
        trackers: &mut Trackers,
        hugepage: usize,
        len: usize,
        donated: bool,
        density: Density,
    ) -> Option<Placement> {
        let density = self.density(density);
        let id = trackers.allocate()?;
        let mut tracker = Tracker::new(hugepage, density);
        tracker.donated = donated;
        tracker.allocate_at(0, len);
        let page = tracker.first_page();
        trackers[id] = tracker;
        self.sizes.hugepages += 1;
        self.count_used(density.index() as u8, false, len as isize);
        self.link(trackers, id);
        Some(Placement { tracker: id, page })
    }

    /// Frees `len` pages from page number `page`; true when the hugepage is now empty, has left the
    /// filler and is to be given back by [`Filler::retire`].
    #[must_use]
    pub fn free(&mut self, trackers: &mut Trackers, id: u32, page: usize, len: usize) -> bool {
        if !trackers[id].busy {
            self.unlink(trackers, id);
        }
        let tracker = &mut trackers[id];
        tracker.free(page - tracker.first_page(), len);
        let (density, broken, busy) = (tracker.density, tracker.broken, tracker.busy);
        let empty = tracker.used_pages == 0;
        self.count_used(density, broken, -(len as isize));
        if busy {
            return false;
        }
        if empty {
            return true;
        }
        self.link(trackers, id);
        false
    }

    /// Grows or trims the span at `page` in place: marks `len` pages after it used (`grow`) or
    /// free, without changing the number of allocations. False if the pages are not free.
    pub fn resize(
        &mut self,
        trackers: &mut Trackers,
        id: u32,
        page: usize,
        len: usize,
        grow: bool,
    ) -> bool {
        if trackers[id].busy && grow {
            return false;
        }
        let offset = page - trackers[id].first_page();
        let fits = offset + len <= PAGES_PER_HUGE;
        if grow && !(fits && trackers[id].used.count_in(offset, len) == 0) {
            return false;
        }
        let linked = !trackers[id].busy;
        if linked {
            self.unlink(trackers, id);
        }
        let tracker = &mut trackers[id];
        let mut rebacked = 0;
        if grow {
            rebacked = tracker.allocate_at(offset, len);
            tracker.allocations -= 1;
        } else {
            tracker.allocations += 1;
            tracker.free(offset, len);
        }
        let (density, broken) = (tracker.density, tracker.broken);
        self.sizes.released_pages -= rebacked;
        self.count_used(
            density,
            broken,
            if grow { len as isize } else { -(len as isize) },
        );
        if linked {
            self.link(trackers, id);
        }
        true
    }

    /// Drops the tracker of an empty hugepage. Returns the hugepage and whether it is whole: one
    /// that was broken is to be released at once (paper section 4.6), the other goes to the cache.
    pub fn retire(&mut self, trackers: &mut Trackers, id: u32) -> (usize, bool) {
        let tracker = &mut trackers[id];
        debug_assert!(tracker.used_pages == 0 && !tracker.busy && tracker.live);
        tracker.live = false;
        let (hugepage, broken) = (tracker.hugepage, tracker.broken);
        self.sizes.hugepages -= 1;
        self.sizes.broken_hugepages -= broken as usize;
        self.sizes.released_pages -= tracker.released_pages as usize;
        trackers.free(id);
        (hugepage, !broken)
    }

    /// The emptiest hugepage with at least `min_free` free pages that have memory, among the
    /// broken ones or among the whole ones.
    pub fn emptiest(&self, trackers: &Trackers, broken: bool, min_free: usize) -> Option<u32> {
        let kinds = if broken {
            PARTLY_RELEASED..PARTLY_RELEASED + DENSITIES
        } else {
            REGULAR..DONATED + 1
        };
        let mut best: Option<(u16, u32)> = None;
        for kind in kinds {
            let mut left = SCAN;
            self.lists.visit_down(trackers, kind, |id| {
                let tracker = &trackers[id];
                if tracker.free_backed_pages() >= min_free
                    && best.is_none_or(|(used, _)| tracker.used_pages < used)
                {
                    best = Some((tracker.used_pages, id));
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

    /// Ends a release that gave `pages` back; true when the hugepage became empty meanwhile and is
    /// to be retired.
    #[must_use]
    pub fn end_release(&mut self, trackers: &mut Trackers, id: u32, pages: PageBits) -> bool {
        let tracker = &mut trackers[id];
        debug_assert!(tracker.busy);
        tracker.busy = false;
        tracker.released = tracker.released.or(pages);
        let count = pages.count();
        tracker.released_pages += count as u16;
        let newly_broken = count > 0 && !tracker.broken;
        tracker.broken |= newly_broken;
        let used = tracker.used_pages as usize;
        self.sizes.released_pages += count;
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
            let used = tracker.used_pages as usize;
            tracker.released = PageBits::EMPTY;
            tracker.broken = false;
            self.sizes.released_pages -= released;
            self.sizes.broken_hugepages -= 1;
            self.sizes.broken_used_pages -= used;
        }
        self.relink_unless_empty(trackers, id)
    }

    fn relink_unless_empty(&mut self, trackers: &mut Trackers, id: u32) -> bool {
        if trackers[id].used_pages == 0 {
            return true;
        }
        self.link(trackers, id);
        false
    }

    /// The fullest broken hugepage that is at least `min_used` pages full and was last looked at
    /// before `before_s`; it is marked as looked at `now_s`.
    pub fn collapse_candidate(
        &self,
        trackers: &mut Trackers,
        min_used: usize,
        before_s: u32,
        now_s: u32,
    ) -> Option<u32> {
        let mut best: Option<(u16, u32)> = None;
        for kind in PARTLY_RELEASED..KINDS {
            let mut left = SCAN;
            self.lists.visit_down(trackers, kind, |id| {
                let tracker = &trackers[id];
                let due = tracker.looked_at_s == 0 || tracker.looked_at_s < before_s;
                if due
                    && tracker.used_pages as usize >= min_used
                    && best.is_none_or(|(used, _)| tracker.used_pages > used)
                {
                    best = Some((tracker.used_pages, id));
                }
                left -= 1;
                left > 0
            });
        }
        let (_, id) = best?;
        trackers[id].looked_at_s = now_s.max(1);
        Some(id)
    }
}
