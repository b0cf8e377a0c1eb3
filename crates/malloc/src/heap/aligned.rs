// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans with an alignment, and spans that grow or shrink where they lie or move without a copy.

use super::{Owner, PageHeap, SMALL_PAGES};
use crate::os::vm::Vm;
use crate::units::{Density, HUGE_PAGES_SHIFT, HugeRange, PAGES_PER_HUGE};

impl<V: Vm> PageHeap<V> {
    /// A span of `len` pages whose address is a multiple of `align` pages (a power of two).
    pub fn allocate_aligned(
        &mut self,
        len: usize,
        align: usize,
        density: Density,
    ) -> Option<usize> {
        if align <= 1 {
            return self.allocate(len, density);
        }
        self.last_is_zero = false;
        self.last_with_gaps = None;
        if len < PAGES_PER_HUGE && align <= PAGES_PER_HUGE {
            let placed = self.on_filler(|filler, trackers| {
                filler.allocate_aligned(trackers, len, align, density)
            });
            if placed.is_some() {
                self.note_used(len as isize);
                return placed;
            }
        }
        let tail = len % PAGES_PER_HUGE;
        // What the gaps between such spans, or behind one, take of a hugepage.
        let gaps = tail * 8 <= align.min(PAGES_PER_HUGE) * 7;
        let hugepages = len.div_ceil(PAGES_PER_HUGE);
        let align = align.div_ceil(PAGES_PER_HUGE);
        let range = self.take_hugepages(hugepages.checked_add(align - 1)?)?;
        let start = range.start.next_multiple_of(align);
        let before = HugeRange {
            start: range.start,
            len: start - range.start,
        };
        let after = HugeRange {
            start: start + hugepages,
            len: align - 1 - before.len,
        };
        for rest in [before, after].into_iter().filter(|rest| rest.len > 0) {
            if self.last_is_zero {
                let now_ns = self.vm.now_ns();
                self.cache.put_unbacked(now_ns, rest.len);
                self.allocator.free(&mut self.nodes, rest);
            } else {
                self.give_back(rest);
            }
        }
        let range = HugeRange {
            start,
            len: hugepages,
        };
        if len > SMALL_PAGES {
            self.span_on(range, len, true);
        } else if self.contribute(start, len, false, density).is_none() {
            self.give_back(range);
            return None;
        }
        let last = start + hugepages - 1;
        if gaps
            && self.last_is_zero
            && let Owner::Filler(id) = self.map.get(last)
        {
            self.filler.leave_gaps(&mut self.trackers, id);
            self.last_with_gaps = Some(last);
        }
        self.note_used(len as isize);
        Some(start << HUGE_PAGES_SHIFT)
    }

    /// The hugepage that is to be made of native pages for the span that was handed out last.
    pub const fn last_with_gaps(&mut self) -> Option<usize> {
        self.last_with_gaps.take()
    }

    /// Grows the span of `len` pages at `page` to `new_len` pages where it lies; false if the pages
    /// behind it are not free.
    pub fn grow(&mut self, page: usize, len: usize, new_len: usize) -> bool {
        let more = new_len - len;
        let grown = match self.map.get(page >> HUGE_PAGES_SHIFT) {
            Owner::Filler(id) => {
                new_len <= SMALL_PAGES
                    && self
                        .filler
                        .resize(&mut self.trackers, id, page + len, more, true)
            }
            Owner::Region(id) => match self.regions[id].extend(&mut self.nodes, page + len, more) {
                Some(backed) => {
                    self.region_used_pages += more;
                    self.region_backed += backed;
                    let now_ns = self.vm.now_ns();
                    self.cache.adopt(now_ns, backed);
                    true
                }
                None => false,
            },
            Owner::None => false,
        };
        if grown {
            self.note_used(more as isize);
        }
        grown
    }

    /// Shrinks the span of `len` pages at `page` to its first `new_len` pages; false, with nothing
    /// changed, where it has to stay as it is.
    pub fn shrink(&mut self, page: usize, len: usize, new_len: usize) -> bool {
        debug_assert!(0 < new_len && new_len < len);
        let start = page >> HUGE_PAGES_SHIFT;
        match self.map.get(start) {
            // A donated hugepage remembers the length of the span that donated it.
            Owner::Filler(id) if !self.trackers[id].donated => {
                let rest = len - new_len;
                self.filler
                    .resize(&mut self.trackers, id, page + new_len, rest, false);
            }
            Owner::None => {
                let kept = new_len.div_ceil(PAGES_PER_HUGE);
                let whole = self.whole_hugepages(page, len);
                if kept > whole {
                    return false;
                }
                self.free_tail(page, len);
                self.large_pages -= (whole - kept) << HUGE_PAGES_SHIFT;
                if whole > kept {
                    self.give_back(HugeRange {
                        start: start + kept,
                        len: whole - kept,
                    });
                }
            }
            _ => return false,
        }
        self.note_used(-((len - new_len) as isize));
        true
    }

    /// Whether the span at `page` begins with hugepages of its own.
    pub fn is_whole(&self, page: usize, len: usize) -> bool {
        page.is_multiple_of(PAGES_PER_HUGE)
            && len >= PAGES_PER_HUGE
            && self.map.get(page >> HUGE_PAGES_SHIFT) == Owner::None
    }

    /// Frees a span for which [`PageHeap::is_whole`] holds and whose first `len / 256` hugepages
    /// have no memory any more: it was moved.
    pub fn free_moved(&mut self, page: usize, len: usize) {
        let start = page >> HUGE_PAGES_SHIFT;
        let (moved, whole) = (len / PAGES_PER_HUGE, self.whole_hugepages(page, len));
        self.free_tail(page, len);
        self.large_pages -= whole << HUGE_PAGES_SHIFT;
        let now_ns = self.vm.now_ns();
        self.cache.put_unbacked(now_ns, moved);
        let range = HugeRange { start, len: moved };
        self.allocator.free(&mut self.nodes, range);
        if whole > moved {
            self.give_back(HugeRange {
                start: start + moved,
                len: whole - moved,
            });
        }
        self.note_used(-(len as isize));
    }
}
