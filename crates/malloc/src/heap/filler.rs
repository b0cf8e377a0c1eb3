// SPDX-License-Identifier: MIT OR Apache-2.0
//! The HugeFiller (paper section 4.4): spans smaller than a hugepage, packed so that some
//! hugepages stay full and the others become empty.
//!
//! A request goes to the hugepage with the lowest sufficient longest free range and, among those,
//! the most allocations. Donated tails come after all other hugepages, broken ones last.

mod broken;

use super::FillerSizes;
use super::lists::Lists;
use super::tracker::{CHUNKS, Tracker, Trackers};
use crate::units::{DENSITIES, Density, PAGES_PER_HUGE};

/// Kinds of lists, in the order of preference for one density: each kind has one array of lists per
/// density, except for donated tails, which take sparse spans only, and hugepages with gaps, which
/// take spans of an alignment only.
const REGULAR: usize = 0;
const DONATED: usize = REGULAR + DENSITIES;
const PARTLY_RELEASED: usize = DONATED + 1;
const GAPS: usize = PARTLY_RELEASED + DENSITIES;
const RELEASED: usize = GAPS + 1;
const RELEASED_GAPS: usize = RELEASED + DENSITIES;
const KINDS: usize = RELEASED_GAPS + 1;

/// Below this many hugepages, densities share them: 32 MiB.
const SHARED_HUGEPAGES: usize = 16;
/// Four times as many share them while more than this part of the pages in use is free.
const SHARED_FREE: usize = 4;

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
                hole_natives: 0,
                broken_hugepages: 0,
                broken_used_pages: 0,
                native_hugepages: 0,
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
        sizes.partly_released =
            count(PARTLY_RELEASED, DENSITIES + 1).saturating_sub(sizes.native_hugepages);
        sizes.released = count(RELEASED, DENSITIES + 1);
        sizes
    }

    /// Free pages that were given back to the system.
    pub const fn released_pages(&self) -> usize {
        self.sizes.released_pages
    }

    /// Hugepages mapped with native pages.
    pub const fn broken_hugepages(&self) -> usize {
        self.sizes.broken_hugepages
    }

    /// Native pages that were given back inside spans in use.
    pub const fn hole_natives(&self) -> usize {
        self.sizes.hole_natives
    }

    /// Pages that are not given back as a whole.
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
        let released = tracker.released_pages > 0 && tracker.free_backed_pages() == 0;
        match (tracker.gaps, released) {
            (true, true) => RELEASED_GAPS,
            (true, false) => GAPS,
            (false, true) => RELEASED + density,
            (false, false) if tracker.broken => PARTLY_RELEASED + density,
            (false, false) if tracker.donated => DONATED,
            (false, false) => REGULAR + density,
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
        if id == 0 {
            id = self.least_of_others(density, from);
        }
        for kind in [PARTLY_RELEASED + density, RELEASED + density] {
            if id == 0 {
                id = self.lists.least(kind, from);
            }
        }
        if id == 0 {
            return None;
        }
        Some(self.place(trackers, id, len, None))
    }

    /// A hugepage of another density: an own hugepage for each costs too much in a small heap, the
    /// more so where much is free already. Then only what is cold stays apart.
    fn least_of_others(&self, density: usize, from: usize) -> u32 {
        let used = self.sizes.used();
        let much_free = (self.backed_pages() - used) * SHARED_FREE > used;
        let cold = Density::COLD.index();
        let end = if self.sizes.hugepages < SHARED_HUGEPAGES {
            DONATED + 1
        } else if self.sizes.hugepages < 4 * SHARED_HUGEPAGES && much_free && density != cold {
            REGULAR + cold
        } else {
            return 0;
        };
        (REGULAR..end)
            .map(|kind| self.lists.least(kind, from))
            .find(|&id| id != 0)
            .unwrap_or(0)
    }

    /// Places a span of `len` pages, fewer than a hugepage has, at a multiple of `align` pages on a
    /// hugepage that the filler has; `None` if none was found at once.
    pub fn allocate_aligned(
        &mut self,
        trackers: &mut Trackers,
        len: usize,
        align: usize,
        density: Density,
    ) -> Option<Placement> {
        let density = self.density(density).index();
        // The tightest hugepage may have no gap at the right place, the last one looked for has.
        let padded = (len + align - 1).min(PAGES_PER_HUGE);
        let lengths = [len, len + (padded - len) / 2, padded];
        let whole = [REGULAR + density, DONATED, GAPS, RELEASED_GAPS];
        let broken = [PARTLY_RELEASED + density, RELEASED + density];
        for (kind, longest) in whole
            .into_iter()
            .chain(broken)
            .flat_map(|kind| lengths.map(|longest| (kind, longest)))
        {
            let id = self.lists.least(kind, longest * CHUNKS);
            if id != 0
                && let Some(offset) = trackers[id].used.aligned_fit(len, align)
            {
                return Some(self.place(trackers, id, len, Some(offset)));
            }
        }
        None
    }

    /// Places a span at a page of the hugepage, or where it fits best.
    fn place(
        &mut self,
        trackers: &mut Trackers,
        id: u32,
        len: usize,
        at: Option<usize>,
    ) -> Placement {
        self.unlink(trackers, id);
        let tracker = &mut trackers[id];
        let (offset, rebacked) = match at {
            Some(offset) => (offset, tracker.allocate_at(offset, len)),
            None => tracker.allocate(len).expect("the list says that it fits"),
        };
        self.sizes.released_pages -= rebacked;
        let page = tracker.first_page() + offset;
        let (density, broken) = (tracker.density, tracker.counts_broken());
        self.count_used(density, broken, len as isize);
        self.link(trackers, id);
        Placement { tracker: id, page }
    }

    /// Leaves what is free on a hugepage that has no memory yet to spans of the same alignment.
    pub fn leave_gaps(&mut self, trackers: &mut Trackers, id: u32) {
        self.unlink(trackers, id);
        let tracker = &mut trackers[id];
        tracker.gaps = true;
        tracker.broken = true;
        tracker.released = tracker.used.inverted();
        tracker.released_pages = PAGES_PER_HUGE as u16 - tracker.used_pages;
        self.sizes.released_pages += usize::from(tracker.released_pages);
        self.sizes.broken_hugepages += 1;
        self.link(trackers, id);
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
        let (density, broken, busy) = (tracker.density, tracker.counts_broken(), tracker.busy);
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
        let (density, broken) = (tracker.density, tracker.counts_broken());
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

    /// Drops the tracker of an empty hugepage. Returns the hugepage and whether nothing of it was
    /// released: one that the heap broke is to be released at once (paper section 4.6), the other
    /// goes to the cache, also if it is native by itself, because the next one might be as well.
    pub fn retire(&mut self, trackers: &mut Trackers, id: u32) -> (usize, bool) {
        let tracker = &mut trackers[id];
        debug_assert!(tracker.used_pages == 0 && !tracker.busy && tracker.live);
        debug_assert_eq!(tracker.holes, 0);
        tracker.live = false;
        let (hugepage, broken) = (tracker.hugepage, tracker.broken && !tracker.native);
        self.sizes.hugepages -= 1;
        self.sizes.broken_hugepages -= usize::from(broken);
        self.sizes.native_hugepages -= usize::from(tracker.native);
        self.sizes.released_pages -= tracker.released_pages as usize;
        trackers.free(id);
        (hugepage, !broken)
    }
}
