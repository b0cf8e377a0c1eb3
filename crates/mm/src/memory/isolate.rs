// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages taken off the free lists while their range is emptied (`mm/page_isolation.c`, 6.12), and
//! 1 GB pages, which are made of emptied ranges.

use super::state::{FrameKind, FrameState};
use super::units::{BLOCK_ORDER, BLOCK_PAGES, GIGA_BLOCKS, GIGA_ORDER};
use super::zone::Zone;
use ample_pfn::{MigrateType, PageClass};

impl Zone {
    /// Takes the free pages of block `b` off the lists and keeps later frees off them.
    pub(crate) fn isolate_block(&mut self, b: u32) {
        debug_assert!(!self.block(b).isolated && !self.block(b).giga);
        if let Some(head) = self.cover(b) {
            self.uncover(head);
        }
        let start = b << BLOCK_ORDER;
        let state = self.frames.get(start);
        if state.kind() == FrameKind::Free && state.order() > BLOCK_ORDER {
            self.uncover(start);
        }
        self.blocks[b as usize].isolated = true;
        let mt = self.blocks[b as usize].mt;
        for (pfn, order) in self.free_in(b) {
            self.remove(pfn);
            self.frames
                .set(pfn, FrameState::free(FrameKind::Isolated, order, mt));
            self.isolated_pages += 1 << order;
        }
    }

    /// Splits a free order-10 block into its two pageblocks.
    fn uncover(&mut self, head: u32) {
        let state = self.frames.get(head);
        if state.kind() == FrameKind::Free {
            let mt = state.mt();
            self.remove(head);
            self.insert(head, BLOCK_ORDER, mt, false);
            self.insert(head + BLOCK_PAGES, BLOCK_ORDER, mt, false);
        }
    }

    /// Ends the isolation of block `b`: its isolated pages become free pages of type `mt`.
    pub(crate) fn unisolate_block(&mut self, b: u32, mt: MigrateType) {
        debug_assert!(self.block(b).isolated);
        self.blocks[b as usize].isolated = false;
        self.blocks[b as usize].mt = mt;
        for (pfn, order) in self.heads_where(b, |state| state.kind() == FrameKind::Isolated) {
            self.return_isolated(pfn, order);
        }
    }

    /// Frees an isolated block into the buddy lists.
    fn return_isolated(&mut self, pfn: u32, order: u32) {
        self.isolated_pages -= 1 << order;
        self.frames.set(pfn, FrameState::INTERIOR);
        self.free_block(pfn, order);
    }

    /// Takes a free block off its list as single pages, to migrate to: `keep` is given each.
    pub(crate) fn isolate_pages(&mut self, pfn: u32, order: u32, mut keep: impl FnMut(u32)) {
        self.remove(pfn);
        self.isolated_pages += 1 << order;
        for page in pfn..pfn + (1 << order) {
            let state = FrameState::free(FrameKind::Isolated, 0, MigrateType::Movable);
            self.frames.set(page, state);
            keep(page);
        }
    }

    /// A page of [`Zone::isolate_pages`] is given away: the caller gives it a state.
    pub(crate) fn use_isolated_page(&mut self, pfn: u32) {
        debug_assert_eq!(self.frames.get(pfn).kind(), FrameKind::Isolated);
        self.isolated_pages -= 1;
    }

    /// A page of [`Zone::isolate_pages`] was not needed.
    pub(crate) fn return_page(&mut self, pfn: u32) {
        debug_assert_eq!(self.frames.get(pfn).kind(), FrameKind::Isolated);
        self.return_isolated(pfn, 0);
    }

    /// Turns the emptied, isolated range that begins with block `first` into one used 1 GB page.
    pub(crate) fn make_giga(&mut self, first: u32) {
        assert_eq!(first % GIGA_BLOCKS, 0, "not aligned to 1 GB");
        for block in &mut self.blocks[first as usize..(first + GIGA_BLOCKS) as usize] {
            debug_assert!(block.isolated && block.movable == 0 && block.fixed == 0);
            block.isolated = false;
            block.giga = true;
            block.movable = BLOCK_PAGES as u16;
        }
        self.isolated_pages -= u64::from(GIGA_BLOCKS * BLOCK_PAGES);
        let state = FrameState::used(GIGA_ORDER, PageClass::HugeTlb);
        self.frames.set(first << BLOCK_ORDER, state);
    }

    /// Gives the 1 GB page at `pfn` back to the buddy lists.
    pub(crate) fn free_giga(&mut self, pfn: u32) {
        let first = pfn >> BLOCK_ORDER;
        for b in first..first + GIGA_BLOCKS {
            let block = &mut self.blocks[b as usize];
            debug_assert!(block.giga);
            block.giga = false;
            block.movable = 0;
            self.frames.set(b << BLOCK_ORDER, FrameState::INTERIOR);
        }
        for b in first..first + GIGA_BLOCKS {
            self.free_block(b << BLOCK_ORDER, BLOCK_ORDER);
        }
    }
}
