// SPDX-License-Identifier: MIT OR Apache-2.0
//! One hugepage of the filler: bitmap, statistics and list links (paper section 4.4).

use crate::heap::bits::PageBits;
use crate::os::meta::{Linked, Pool, Zeroed};
use crate::units::{Density, HUGE_PAGES_SHIFT, NATIVES, PAGES_PER_HUGE};

/// Chunks of emptiness by allocation count: `Cmax` of the paper.
pub const CHUNKS: usize = 8;
/// Lists of one kind: a longest free range of 0..=256 pages times the chunks.
pub const LISTS: usize = (PAGES_PER_HUGE + 1) * CHUNKS;

/// What the filler knows of a hugepage.
pub struct Tracker {
    pub(super) used: PageBits,
    /// Pages whose memory went back to the system; always free pages.
    pub(super) released: PageBits,
    pub(super) hugepage: usize,
    pub(super) next: u32,
    pub(super) previous: u32,
    pub(super) used_pages: u16,
    pub(super) allocations: u16,
    pub(super) longest: u16,
    pub(super) released_pages: u16,
    /// Native pages inside spans in use that went back, and how often it was rebuilt.
    pub(super) holes: u16,
    pub(super) epoch: u16,
    /// Where it is linked: kind and index.
    pub(super) kind: u8,
    pub(super) density: u8,
    pub(super) donated: bool,
    /// The kernel maps it with native pages, as far as we know.
    pub(super) broken: bool,
    /// It is so by the system, which had no hugepage when it was touched; nothing was released.
    pub(super) native: bool,
    /// For spans of large alignment, with nothing behind the gaps between them: broken from the
    /// beginning, and for no other spans.
    pub(super) gaps: bool,
    /// A release or a collapse is under way without the lock: not on any list.
    pub(super) busy: bool,
    pub(super) live: bool,
    pub(super) index: u16,
    /// When it was last looked at for a collapse, in seconds.
    pub(super) looked_at_s: u32,
}

// SAFETY: integers and booleans, for which zero is valid.
unsafe impl Zeroed for Tracker {}
impl Linked for Tracker {
    fn free_link(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// All trackers of a heap: up to 8 M hugepages, 16 TiB.
pub type Trackers = Pool<Tracker, 16384>;

impl Tracker {
    pub(super) fn new(hugepage: usize, density: Density) -> Self {
        Tracker {
            used: PageBits::EMPTY,
            released: PageBits::EMPTY,
            hugepage,
            next: 0,
            previous: 0,
            used_pages: 0,
            allocations: 0,
            longest: PAGES_PER_HUGE as u16,
            released_pages: 0,
            holes: 0,
            epoch: 0,
            kind: 0,
            density: density.index() as u8,
            donated: false,
            broken: false,
            native: false,
            gaps: false,
            busy: false,
            live: true,
            index: 0,
            looked_at_s: 0,
        }
    }

    /// Number of the hugepage.
    pub const fn hugepage(&self) -> usize {
        self.hugepage
    }

    /// The first page number.
    pub const fn first_page(&self) -> usize {
        self.hugepage << HUGE_PAGES_SHIFT
    }

    /// Pages in use.
    pub const fn used_pages(&self) -> usize {
        self.used_pages as usize
    }

    /// Native pages with memory that spans in use have.
    pub(super) const fn native_pages(&self) -> usize {
        self.used_pages as usize * NATIVES - self.holes as usize
    }

    /// Free pages that still have memory.
    pub const fn free_backed_pages(&self) -> usize {
        PAGES_PER_HUGE - self.used_pages as usize - self.released_pages as usize
    }

    /// Length of the longest free range in pages (`L` of the paper).
    pub const fn longest(&self) -> usize {
        self.longest as usize
    }

    /// Spans on the hugepage (`A` of the paper).
    pub const fn allocations(&self) -> usize {
        self.allocations as usize
    }

    /// The chunk of the allocation count: 0 for the most, 7 for at most one. The paper prints
    /// `min(0, Cmax - log2 A)`, which can only mean the clamped form.
    pub(super) const fn chunk(&self) -> usize {
        let log2 = if self.allocations == 0 {
            0
        } else {
            self.allocations.ilog2() as usize
        };
        if log2 >= CHUNKS { 0 } else { CHUNKS - 1 - log2 }
    }

    /// Index in an array of lists: the longest free range, then the chunk.
    pub(super) const fn list_index(&self) -> usize {
        self.longest as usize * CHUNKS + self.chunk()
    }

    /// Whether its pages in use count as lost to native pages.
    pub(super) const fn counts_broken(&self) -> bool {
        self.broken && !self.gaps && !self.native
    }

    /// Whether only the system can tell if it is mapped with native pages.
    pub(super) const fn may_be_native(&self) -> bool {
        self.live && !self.busy && self.used_pages > 0 && self.broken == self.native
    }

    /// Marks `len` pages used from the best fitting free range; the page offset, and how many of
    /// the pages had been released.
    pub(super) fn allocate(&mut self, len: usize) -> Option<(usize, usize)> {
        let (offset, run) = self.used.best_fit(len)?;
        let rebacked = self.mark_used(offset, len);
        if run == self.longest() {
            self.longest = self.used.longest_clear() as u16;
        }
        Some((offset, rebacked))
    }

    /// Marks a given free range used; how many of its pages had been released.
    pub(super) fn allocate_at(&mut self, offset: usize, len: usize) -> usize {
        let rebacked = self.mark_used(offset, len);
        self.longest = self.used.longest_clear() as u16;
        rebacked
    }

    fn mark_used(&mut self, offset: usize, len: usize) -> usize {
        debug_assert_eq!(self.used.count_in(offset, len), 0);
        self.used.set(offset, len);
        let rebacked = if self.released_pages == 0 {
            0
        } else {
            let count = self.released.count_in(offset, len);
            self.released.clear(offset, len);
            count
        };
        self.released_pages -= rebacked as u16;
        self.used_pages += len as u16;
        self.allocations += 1;
        rebacked
    }

    /// Marks a used range free again.
    pub(super) fn free(&mut self, offset: usize, len: usize) {
        debug_assert_eq!(self.used.count_in(offset, len), len);
        self.used.clear(offset, len);
        self.used_pages -= len as u16;
        self.allocations -= 1;
        let run = self.used.run_around(offset, offset + len) as u16;
        self.longest = self.longest.max(run);
        debug_assert_eq!(self.longest(), self.used.longest_clear());
    }
}
