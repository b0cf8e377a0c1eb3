// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of every frame that a trace has named, and the unmovable blocks of the traced
//! kernel that follow from it.

use crate::memory::{BLOCK_ORDER, MAX_ORDER};
use ample_trace::pages::MAX_PFN;

/// Block number of a frame at which no live block starts.
pub const NO_BLOCK: u32 = u32::MAX;

/// What the trace has said of a frame last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Known {
    /// Nothing yet.
    Nothing,
    /// First frame of an allocated block.
    Live,
    /// Freed by `mm_page_free`; its `mm_page_free_batched` may follow.
    Freed,
    /// Freed by `mm_page_free_batched`; its `mm_page_free` may follow (older kernels).
    FreedBatched,
    /// Freed, and both events were seen.
    FreedTwice,
}

/// One frame.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Number of the allocated block that starts here.
    pub block: u32,
    /// What is known.
    pub known: Known,
    /// Order of that block.
    pub order: u8,
    /// Whether it is unmovable (definition O).
    pub unmovable: bool,
}

const UNKNOWN: Entry = Entry {
    block: NO_BLOCK,
    known: Known::Nothing,
    order: 0,
    unmovable: false,
};

const CHUNK_ORDER: u32 = 7;
type Chunk = [Entry; 1 << CHUNK_ORDER];

/// All frames named so far.
#[derive(Debug, Default)]
pub struct FrameTable {
    chunks: Vec<Option<Box<Chunk>>>,
    /// Unmovable pages of each 2 MB block.
    unmovable: Vec<u16>,
    /// Live blocks of more than one page that reach into each 2 MB block.
    large: Vec<u16>,
    live_pages: u64,
    unmovable_pages: u64,
}

impl FrameTable {
    /// The entry of a frame.
    #[inline]
    pub fn get(&self, pfn: u64) -> Entry {
        let chunk = self.chunks.get((pfn >> CHUNK_ORDER) as usize);
        match chunk {
            Some(Some(chunk)) => chunk[(pfn & ((1 << CHUNK_ORDER) - 1)) as usize],
            _ => UNKNOWN,
        }
    }

    #[inline]
    fn entry(&mut self, pfn: u64) -> &mut Entry {
        debug_assert!(pfn < MAX_PFN);
        let index = (pfn >> CHUNK_ORDER) as usize;
        if index >= self.chunks.len() {
            self.chunks.resize_with(index + 1, || None);
            let blocks = (pfn >> BLOCK_ORDER) as usize + 2;
            self.unmovable.resize(blocks.max(self.unmovable.len()), 0);
            self.large.resize(blocks.max(self.large.len()), 0);
        }
        let chunk = self.chunks[index].get_or_insert_with(|| Box::new([UNKNOWN; 1 << CHUNK_ORDER]));
        &mut chunk[(pfn & ((1 << CHUNK_ORDER) - 1)) as usize]
    }

    /// Records an allocated block, on frames that no live block holds.
    #[inline]
    pub fn add(&mut self, pfn: u64, order: u8, unmovable: bool, block: u32) {
        *self.entry(pfn) = Entry {
            block,
            known: Known::Live,
            order,
            unmovable,
        };
        self.book(pfn, order, unmovable, true);
    }

    /// Records that the live block at `pfn` is gone; its entry as it was.
    #[inline]
    pub fn drop(&mut self, pfn: u64, known: Known) -> Entry {
        let was = *self.entry(pfn);
        debug_assert_eq!(was.known, Known::Live);
        self.note(pfn, known);
        self.book(pfn, was.order, was.unmovable, false);
        was
    }

    /// Records what is known of a frame at which no live block starts any more.
    #[inline]
    pub fn note(&mut self, pfn: u64, known: Known) {
        let entry = self.entry(pfn);
        entry.known = known;
        entry.block = NO_BLOCK;
    }

    fn book(&mut self, pfn: u64, order: u8, unmovable: bool, add: bool) {
        let pages = 1u64 << order;
        let step = |count: &mut u16, by: u16| {
            *count = if add { *count + by } else { *count - by };
        };
        let first = (pfn >> BLOCK_ORDER) as usize;
        let span = 1usize << u32::from(order).saturating_sub(BLOCK_ORDER);
        for b in first..first + span {
            if unmovable {
                step(&mut self.unmovable[b], pages.min(1 << BLOCK_ORDER) as u16);
            }
            if order > 0 {
                step(&mut self.large[b], 1);
            }
        }
        let unmovable_pages = if unmovable { pages } else { 0 };
        if add {
            self.live_pages += pages;
            self.unmovable_pages += unmovable_pages;
        } else {
            self.live_pages -= pages;
            self.unmovable_pages -= unmovable_pages;
        }
    }

    /// First frame of the live block that covers `pfn` without starting there.
    #[inline]
    pub fn cover(&self, pfn: u64) -> Option<u64> {
        let large = self.large.get((pfn >> BLOCK_ORDER) as usize);
        if large.is_none_or(|&count| count == 0) {
            return None;
        }
        (1..=MAX_ORDER).find_map(|order| {
            let head = pfn & !((1u64 << order) - 1);
            let entry = self.get(head);
            let holds = entry.known == Known::Live && u64::from(entry.order) >= u64::from(order);
            (head != pfn && holds).then_some(head)
        })
    }

    /// Live blocks that start in `[pfn, pfn + 2^order)`.
    pub fn live_in(&self, pfn: u64, order: u8) -> Vec<u64> {
        (pfn..pfn + (1 << order))
            .filter(|&frame| self.get(frame).known == Known::Live)
            .collect()
    }

    /// Pages of all live blocks, and of the unmovable ones.
    pub fn pages(&self) -> (u64, u64) {
        (self.live_pages, self.unmovable_pages)
    }

    /// Aligned blocks of 2^`order` pages (order 9 or more) with an unmovable page.
    pub fn unmovable_blocks(&self, order: u32) -> u64 {
        self.unmovable
            .chunks(1 << (order - BLOCK_ORDER))
            .filter(|blocks| blocks.iter().any(|&pages| pages > 0))
            .count() as u64
    }
}
