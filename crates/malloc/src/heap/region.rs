// SPDX-License-Identifier: MIT OR Apache-2.0
//! The HugeRegion (paper section 4.5): a gibibyte tracked by the page, for programs whose spans
//! would leave more slack on their hugepages than small spans can fill.
//!
//! Free pages are a set of ranges with best fit; how many pages of each hugepage are in use tells
//! which hugepages are backed and which may be released.

use super::ranges::{Nodes, RangeSet};
use crate::os::meta::{Linked, Zeroed};
use crate::units::{GIB, HUGE_BYTES, HUGE_PAGES_SHIFT, HugeRange, PAGES_PER_HUGE};

/// Hugepages in a region.
pub const REGION_HUGEPAGES: usize = GIB / HUGE_BYTES;
const WORDS: usize = REGION_HUGEPAGES / 64;

/// One region.
pub struct Region {
    start: usize,
    free: RangeSet,
    used_pages: usize,
    used_in: [u16; REGION_HUGEPAGES],
    backed: [u64; WORDS],
    backed_hugepages: usize,
    link: u32,
}

// SAFETY: integers only; the set is empty when zero.
unsafe impl Zeroed for Region {}
impl Linked for Region {
    fn free_link(&mut self) -> &mut u32 {
        &mut self.link
    }
}

impl Region {
    /// Makes this the region of an unbacked range of 512 hugepages. False without memory.
    pub fn start(&mut self, nodes: &mut Nodes, range: HugeRange) -> bool {
        debug_assert_eq!(range.len, REGION_HUGEPAGES);
        self.start = range.start;
        self.free = RangeSet::new();
        self.used_pages = 0;
        self.used_in = [0; REGION_HUGEPAGES];
        self.backed = [0; WORDS];
        self.backed_hugepages = 0;
        self.free
            .insert(nodes, range.first_page(), REGION_HUGEPAGES * PAGES_PER_HUGE)
    }

    /// Pages in use.
    pub const fn used_pages(&self) -> usize {
        self.used_pages
    }

    /// Hugepages that have memory.
    pub const fn backed_hugepages(&self) -> usize {
        self.backed_hugepages
    }

    /// The longest free range in pages.
    pub fn longest(&self, nodes: &Nodes) -> usize {
        self.free.longest(nodes)
    }

    fn is_backed(&self, index: usize) -> bool {
        self.backed[index / 64] >> (index % 64) & 1 == 1
    }

    /// Hugepage indices that the pages touch.
    fn touched(&self, page: usize, len: usize) -> impl Iterator<Item = (usize, u16)> + use<> {
        let base = self.start << HUGE_PAGES_SHIFT;
        let (from, end) = (page - base, page - base + len);
        (from >> HUGE_PAGES_SHIFT..=(end - 1) >> HUGE_PAGES_SHIFT).map(move |index| {
            let low = from.max(index << HUGE_PAGES_SHIFT);
            let high = end.min((index + 1) << HUGE_PAGES_SHIFT);
            (index, (high - low) as u16)
        })
    }

    /// Places `len` pages; the first page number and how many hugepages became backed by it.
    pub fn allocate(&mut self, nodes: &mut Nodes, len: usize) -> Option<(usize, usize)> {
        let page = self.free.take(nodes, len)?;
        let newly_backed = self.note_used(page, len);
        Some((page, newly_backed))
    }

    /// Counts pages as used; how many hugepages became backed by it.
    fn note_used(&mut self, page: usize, len: usize) -> usize {
        self.used_pages += len;
        let mut newly_backed = 0;
        for (index, pages) in self.touched(page, len) {
            self.used_in[index] += pages;
            if !self.is_backed(index) {
                self.backed[index / 64] |= 1 << (index % 64);
                newly_backed += 1;
            }
        }
        self.backed_hugepages += newly_backed;
        newly_backed
    }

    /// Frees `len` pages from `page`; false if there was no memory to note them as free.
    pub fn free(&mut self, nodes: &mut Nodes, page: usize, len: usize) -> bool {
        if !self.free.insert(nodes, page, len) {
            return false;
        }
        self.used_pages -= len;
        for (index, pages) in self.touched(page, len) {
            self.used_in[index] -= pages;
        }
        true
    }

    /// Takes the pages after a span, if they are free: growing in place.
    pub fn extend(&mut self, nodes: &mut Nodes, page: usize, len: usize) -> Option<usize> {
        if !self.free.take_at(nodes, page, len) {
            return None;
        }
        Some(self.note_used(page, len))
    }

    /// Takes a run of at most `limit` empty backed hugepages out for release: they become unbacked,
    /// and their pages used, until [`Region::end_release`].
    pub fn begin_release(&mut self, nodes: &mut Nodes, limit: usize) -> Option<HugeRange> {
        let empty = |region: &Region, index: usize| {
            index < REGION_HUGEPAGES && region.is_backed(index) && region.used_in[index] == 0
        };
        let first = (0..REGION_HUGEPAGES).find(|&index| empty(self, index))?;
        let mut len = 1;
        while len < limit && empty(self, first + len) {
            len += 1;
        }
        let range = HugeRange {
            start: self.start + first,
            len,
        };
        if !self.take_exactly(nodes, range.first_page(), len << HUGE_PAGES_SHIFT) {
            return None;
        }
        for index in first..first + len {
            self.used_in[index] = PAGES_PER_HUGE as u16;
        }
        self.used_pages += len << HUGE_PAGES_SHIFT;
        Some(range)
    }

    /// Takes pages in the middle of a free range.
    fn take_exactly(&mut self, nodes: &mut Nodes, page: usize, len: usize) -> bool {
        let Some((start, whole)) = self.free.last_before(nodes, page + 1) else {
            return false;
        };
        debug_assert!(start + whole >= page + len);
        if !self.free.take_at(nodes, start, whole) {
            return false;
        }
        let before = page - start;
        let after = start + whole - page - len;
        // The node of the range that was just taken is free again, so one of the two fits.
        let kept = before == 0 || self.free.insert(nodes, start, before);
        debug_assert!(kept);
        if after > 0 && !self.free.insert(nodes, page + len, after) {
            // No memory for the second node: put everything back as it was.
            let restored = self.free.insert(nodes, page, whole - before);
            debug_assert!(restored);
            return false;
        }
        true
    }

    /// Ends a release; the pages are free again, without memory if it succeeded.
    pub fn end_release(&mut self, nodes: &mut Nodes, range: HugeRange, succeeded: bool) -> bool {
        let first = range.start - self.start;
        if succeeded {
            for index in first..first + range.len {
                self.backed[index / 64] &= !(1 << (index % 64));
            }
            self.backed_hugepages -= range.len;
        }
        self.free(nodes, range.first_page(), range.len << HUGE_PAGES_SHIFT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::meta::Pool;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn spans_are_disjoint_and_backing_is_exact(
            steps in prop::collection::vec((0..3u8, 1..900usize, any::<u16>()), 1..120),
        ) {
            let mut nodes = Box::new(Nodes::new());
            let mut pool: Box<Pool<Region, 1>> = Box::default();
            let id = pool.allocate().unwrap();
            let region = &mut pool[id];
            let whole = HugeRange { start: 512, len: REGION_HUGEPAGES };
            prop_assert!(region.start(&mut nodes, whole));
            let mut live: Vec<(usize, usize)> = Vec::new();
            let mut backed = std::collections::BTreeSet::new();
            for (kind, len, pick) in steps {
                if kind == 0 || live.is_empty() {
                    let (page, newly) = region.allocate(&mut nodes, len).unwrap();
                    for &(other, other_len) in &live {
                        prop_assert!(page + len <= other || other + other_len <= page);
                    }
                    let before = backed.len();
                    backed.extend(page / 256..=(page + len - 1) / 256);
                    prop_assert_eq!(newly, backed.len() - before);
                    live.push((page, len));
                } else if kind == 1 {
                    let (page, len) = live.swap_remove(pick as usize % live.len());
                    prop_assert!(region.free(&mut nodes, page, len));
                } else if let Some(range) = region.begin_release(&mut nodes, len) {
                    for hugepage in range.start..range.start + range.len {
                        prop_assert!(backed.remove(&hugepage));
                        for &(page, len) in &live {
                            prop_assert!(
                                (page + len - 1) / 256 < hugepage || page / 256 > hugepage
                            );
                        }
                    }
                    prop_assert!(region.end_release(&mut nodes, range, true));
                }
                let used: usize = live.iter().map(|span| span.1).sum();
                prop_assert_eq!(region.used_pages(), used);
                prop_assert_eq!(region.backed_hugepages(), backed.len());
            }
        }
    }
}
