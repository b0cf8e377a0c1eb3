// SPDX-License-Identifier: MIT OR Apache-2.0
//! The physical memory of the server: frames, pageblocks and the buddy lists of up to two regions
//! (`mm/page_alloc.c`, 6.12: `__free_one_page`, `expand`, `move_freepages_block`).

use super::area::Area;
use super::block::Block;
use super::frames::Frames;
use super::state::{FrameKind, FrameState};
use super::units::{BLOCK_ORDER, BLOCK_PAGES, FreeList, HIGH, LOW, MAX_ORDER};
use ample_pfn::{MigrateType, PageClass, is_movable};

/// Frames, pageblocks and free lists.
///
/// Invariants: every frame is in exactly one block; free buddies of one region are merged; the
/// counts of a pageblock are those of its pages; a free block is on the list of its pageblock's
/// type; the border lies between two pageblocks. [`super::check`] verifies them.
#[derive(Debug)]
pub(crate) struct Zone {
    pub(super) frames: Frames,
    pub(super) blocks: Vec<Block>,
    pub(super) areas: [Area; 2],
    /// First frame above the border; 0 without one.
    pub(super) border: u32,
    pub(super) isolated_pages: u64,
}

impl Zone {
    /// Memory of `count` frames, all still in no block; [`Zone::release`] hands them over.
    /// `banded`: the low region has lists for each 32 MB of addresses.
    pub(crate) fn new(count: u32, banded: bool) -> Zone {
        assert!(count > 0, "a zone without frames");
        Zone {
            frames: Frames::new(count),
            blocks: vec![Block::EMPTY; count.div_ceil(BLOCK_PAGES) as usize],
            areas: [Area::new(count, banded), Area::new(count, false)],
            border: 0,
            isolated_pages: 0,
        }
    }

    /// The frame table.
    #[inline]
    pub(crate) fn frames(&self) -> &Frames {
        &self.frames
    }

    /// The frame table, for the holders of used and per-CPU pages.
    #[inline]
    pub(crate) fn frames_mut(&mut self) -> &mut Frames {
        &mut self.frames
    }

    /// State of a frame.
    #[inline]
    pub(crate) fn state(&self, pfn: u32) -> FrameState {
        self.frames.get(pfn)
    }

    /// Pageblock `b`.
    #[inline]
    pub(crate) fn block(&self, b: u32) -> Block {
        self.blocks[b as usize]
    }

    /// The pageblock of a frame.
    #[inline]
    pub(crate) fn block_of(&self, pfn: u32) -> Block {
        self.blocks[(pfn >> BLOCK_ORDER) as usize]
    }

    /// Number of pageblocks.
    pub(crate) fn block_count(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// First frame above the border; 0 without one.
    pub(crate) fn border(&self) -> u32 {
        self.border
    }

    /// First pageblock above the border.
    pub(crate) fn border_block(&self) -> u32 {
        self.border >> BLOCK_ORDER
    }

    /// Moves the border. The blocks that change sides must hold no free page.
    pub(crate) fn set_border(&mut self, pfn: u32) {
        assert_eq!(pfn % BLOCK_PAGES, 0, "the border is inside a block");
        assert!(pfn <= self.frames.len(), "the border is beyond memory");
        let changed = self.border.min(pfn)..self.border.max(pfn);
        let mut blocks = changed.step_by(BLOCK_PAGES as usize);
        debug_assert!(blocks.all(|pfn| self.block_of(pfn).free == 0));
        self.border = pfn;
    }

    /// The region of a frame.
    #[inline]
    pub(crate) fn region(&self, pfn: u32) -> usize {
        usize::from(pfn >= self.border)
    }

    /// Frames of a region.
    pub(crate) fn region_pages(&self, region: usize) -> u64 {
        let border = u64::from(self.border);
        [border, u64::from(self.frames.len()) - border][region]
    }

    /// The buddy lists of a region.
    #[inline]
    pub(crate) fn area(&self, region: usize) -> &Area {
        &self.areas[region]
    }

    /// Free pages of a region, per-CPU lists left out.
    #[inline]
    pub(crate) fn free_pages(&self, region: usize) -> u64 {
        self.areas[region].free_pages()
    }

    /// Visits the pageblocks of a block with the pages it has in each.
    #[inline]
    fn in_blocks(&mut self, pfn: u32, order: u32, mut visit: impl FnMut(&mut Block, u16)) {
        let first = (pfn >> BLOCK_ORDER) as usize;
        if order <= BLOCK_ORDER {
            visit(&mut self.blocks[first], 1 << order);
            return;
        }
        for block in &mut self.blocks[first..first + (1 << (order - BLOCK_ORDER))] {
            visit(block, BLOCK_PAGES as u16);
        }
    }

    /// Puts a free block on its list.
    #[inline]
    pub(super) fn insert(&mut self, pfn: u32, order: u32, mt: MigrateType, tail: bool) {
        let area = &mut self.areas[usize::from(pfn >= self.border)];
        area.insert(&mut self.frames, pfn, order, mt, tail);
        self.in_blocks(pfn, order, |block, pages| block.count_free(pages, true));
    }

    /// Takes a given free block off its list.
    #[inline]
    pub(super) fn remove(&mut self, pfn: u32) {
        let area = &mut self.areas[usize::from(pfn >= self.border)];
        let order = area.remove(&mut self.frames, pfn);
        self.in_blocks(pfn, order, |block, pages| block.count_free(pages, false));
    }

    /// Frees a block into the buddy lists, merging as far as it goes.
    pub(crate) fn free_block(&mut self, mut pfn: u32, mut order: u32) {
        let block = self.block_of(pfn);
        if block.isolated {
            self.isolated_pages += 1 << order;
            self.frames
                .set(pfn, FrameState::free(FrameKind::Isolated, order, block.mt));
            return;
        }
        let mt = block.mt;
        let region = self.region(pfn);
        while order < MAX_ORDER {
            let buddy = pfn ^ 1 << order;
            if buddy >= self.frames.len() || !self.frames.get(buddy).is_free_of(order) {
                break;
            }
            // A buddy never reaches over the border.
            if order >= BLOCK_ORDER && self.region(buddy) != region {
                break;
            }
            self.remove(buddy);
            pfn &= !(1 << order);
            order += 1;
        }
        if order > BLOCK_ORDER {
            let first = (pfn >> BLOCK_ORDER) as usize;
            self.blocks[first].mt = mt;
            self.blocks[first + 1].mt = mt;
        }
        // A block whose neighbour may soon be free too goes to the tail, to be taken late.
        let tail = order + 1 < MAX_ORDER && {
            let above = (pfn & !(1 << order)) ^ 1 << (order + 1);
            above < self.frames.len() && self.frames.get(above).is_free_of(order + 1)
        };
        self.insert(pfn, order, mt, tail);
    }

    /// Takes a block off `list`, or a part of one of a larger order; the frame is left as the
    /// interior of nothing, the caller gives it a state.
    #[inline]
    pub(crate) fn take(&mut self, list: FreeList) -> Option<u32> {
        self.take_from(list, false)
    }

    /// As [`Zone::take`], from the band nearest to the border if `near_border`.
    pub(crate) fn take_from(&mut self, list: FreeList, near_border: bool) -> Option<u32> {
        let FreeList { region, order, mt } = list;
        let (pfn, found) = self.areas[region].next(order, mt, near_border)?;
        self.remove(pfn);
        self.split(pfn, found, order, mt);
        Some(pfn)
    }

    /// Takes up to `most` neighbouring blocks for `list`: all from the smallest block that holds
    /// one, as that many calls of [`Zone::take`] would. The first of them and how many.
    #[inline]
    pub(crate) fn take_run(&mut self, list: FreeList, most: u32) -> Option<(u32, u32)> {
        let FreeList { region, order, mt } = list;
        let (pfn, found) = self.areas[region].next(order, mt, false)?;
        self.remove(pfn);
        let count = most.min(1 << (found - order));
        let end = pfn + (1 << found);
        let mut rest = pfn + (count << order);
        while rest < end {
            let order = rest.trailing_zeros();
            self.insert(rest, order, mt, false);
            rest += 1 << order;
        }
        Some((pfn, count))
    }

    /// Takes a block of `order` out of the free block of order `found` at `pfn`, whose pageblocks
    /// become of type `mt`.
    pub(crate) fn claim(&mut self, pfn: u32, found: u32, order: u32, mt: MigrateType) {
        debug_assert!(found >= BLOCK_ORDER && found >= order);
        self.remove(pfn);
        self.in_blocks(pfn, found, |block, _| block.mt = mt);
        self.split(pfn, found, order, mt);
    }

    /// Returns the upper halves of a block of order `from` until `to` is left at `pfn`.
    fn split(&mut self, pfn: u32, from: u32, to: u32, mt: MigrateType) {
        for order in (to..from).rev() {
            self.insert(pfn + (1 << order), order, mt, false);
        }
    }

    /// Counts the pages of a block as used by a class, or as not used any more.
    #[inline]
    pub(crate) fn count_used(&mut self, pfn: u32, order: u32, class: PageClass, add: bool) {
        let movable = is_movable(class);
        self.in_blocks(pfn, order, |block, pages| {
            block.count_used(pages, movable, add);
        });
    }

    /// Makes a taken block a used one.
    #[inline]
    pub(crate) fn set_used(&mut self, pfn: u32, order: u32, class: PageClass) {
        self.frames.set(pfn, FrameState::used(order, class));
        self.count_used(pfn, order, class, true);
    }

    /// Gives a used block another class.
    pub(crate) fn set_class(&mut self, pfn: u32, class: PageClass) {
        let state = self.frames.get(pfn);
        debug_assert_eq!(state.kind(), FrameKind::Used, "frame {pfn:#x}");
        self.count_used(pfn, state.order(), state.class(), false);
        self.frames.set(pfn, state.with_class(class));
        self.count_used(pfn, state.order(), class, true);
    }

    /// Marks a frame as one that the allocator never owns.
    pub(crate) fn set_fixed(&mut self, pfn: u32, class: PageClass) {
        self.frames.set(pfn, FrameState::fixed(class));
        self.blocks[(pfn >> BLOCK_ORDER) as usize].fixed += 1;
    }

    /// Gives a pageblock without free pages a type.
    pub(crate) fn set_type(&mut self, b: u32, mt: MigrateType) {
        debug_assert_eq!(self.blocks[b as usize].free, 0, "its pages are on lists");
        self.blocks[b as usize].mt = mt;
    }

    /// Hands frames `[from, to)` that are in no block yet to the buddy lists.
    pub(crate) fn release(&mut self, mut from: u32, to: u32) {
        while from < to {
            let fit = (to - from).ilog2().min(MAX_ORDER);
            let order = from.trailing_zeros().min(fit);
            self.free_block(from, order);
            from += 1 << order;
        }
    }

    /// The head of the order-10 block that covers pageblock `b` from the pageblock before it.
    pub(crate) fn cover(&self, b: u32) -> Option<u32> {
        if b & 1 == 1 {
            let below = self.frames.get((b - 1) << BLOCK_ORDER);
            let whole = below.kind() != FrameKind::Interior && below.order() == MAX_ORDER;
            if whole && !self.blocks[b as usize - 1].giga {
                return Some((b - 1) << BLOCK_ORDER);
            }
        }
        None
    }

    /// Calls `visit` with each block head of pageblock `b` (an order-10 block is visited from
    /// its first pageblock only; pageblocks of a 1 GB page are skipped).
    pub(crate) fn heads(&self, b: u32, mut visit: impl FnMut(u32, FrameState)) {
        if self.blocks[b as usize].giga || self.cover(b).is_some() {
            return;
        }
        let start = b << BLOCK_ORDER;
        let end = (start + BLOCK_PAGES).min(self.frames.len());
        let mut pfn = start;
        while pfn < end {
            let state = self.frames.get(pfn);
            visit(pfn, state);
            pfn = state.next_head(pfn);
        }
    }

    /// As [`Zone::heads`], without saying where; `visit` is told the place of each head in its
    /// cache line and may sum up for each place apart, so that no sum waits for another.
    pub(crate) fn heads_by_lane(&self, b: u32, mut visit: impl FnMut(usize, FrameState)) {
        if self.blocks[b as usize].giga || self.cover(b).is_some() {
            return;
        }
        let start = b << BLOCK_ORDER;
        let end = (start + BLOCK_PAGES).min(self.frames.len());
        let mut pfn = start;
        while pfn < end {
            if let Some(line) = self.frames.singles(pfn) {
                for (lane, &state) in line.iter().enumerate() {
                    visit(lane, state);
                }
                pfn += line.len() as u32;
            } else {
                let state = self.frames.get(pfn);
                visit(0, state);
                pfn = state.next_head(pfn);
            }
        }
    }

    /// The heads of pageblock `b` that `keep` chooses, with their orders.
    pub(crate) fn heads_where(&self, b: u32, keep: impl Fn(FrameState) -> bool) -> Vec<(u32, u32)> {
        let mut found = Vec::new();
        self.heads(b, |pfn, state| {
            if keep(state) {
                found.push((pfn, state.order()));
            }
        });
        found
    }

    /// The free blocks that begin in pageblock `b`, with their orders. Stops where the count of
    /// the pageblock says that no more follow.
    pub(crate) fn free_in(&self, b: u32) -> Vec<(u32, u32)> {
        let mut found = Vec::new();
        let mut left = u32::from(self.blocks[b as usize].free);
        if self.cover(b).is_some() {
            return found;
        }
        let mut pfn = b << BLOCK_ORDER;
        while left > 0 {
            pfn = self.frames.skip_to_free(pfn);
            let state = self.frames.get(pfn);
            if state.kind() == FrameKind::Free {
                found.push((pfn, state.order()));
                left -= state.pages().min(left);
            }
            pfn = state.next_head(pfn);
        }
        found
    }

    /// Moves the free pages of block `b` to the lists of `mt` and retypes it
    /// (`move_freepages_block`).
    pub(crate) fn retype_block(&mut self, b: u32, mt: MigrateType) {
        for (pfn, order) in self.free_in(b) {
            if self.frames.get(pfn).mt() == mt {
                continue;
            }
            self.remove(pfn);
            self.insert(pfn, order, mt, false);
            if order > BLOCK_ORDER {
                self.blocks[b as usize + 1].mt = mt;
            }
        }
        self.blocks[b as usize].mt = mt;
    }

    /// Pageblocks of a region.
    pub(crate) fn region_blocks(&self, region: usize) -> std::ops::Range<u32> {
        debug_assert!(region == LOW || region == HIGH);
        match region {
            HIGH => self.border_block()..self.block_count(),
            _ => 0..self.border_block(),
        }
    }

    /// Reads the frames that the next `count` blocks of `order` are taken from.
    #[inline]
    pub(crate) fn touch_free(&self, region: usize, order: u32, mt: MigrateType, count: u32) {
        let next = self.areas[region].next_blocks(order, mt, count);
        self.frames.touch(next.take(count as usize));
    }
}
