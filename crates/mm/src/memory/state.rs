// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of one frame, packed in a word: a random access to a frame misses the cache once.

use super::units::GIGA_ORDER;
use ample_pfn::{MigrateType, PageClass};

/// What the block that starts at a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Not the head of a block.
    Interior = 0,
    /// No memory, firmware, or a page that was never the allocator's: does not move.
    Fixed = 1,
    /// On a buddy free list.
    Free = 2,
    /// On a per-CPU list.
    Pcp = 3,
    /// Held by a pool or on an LRU list.
    Used = 4,
    /// Free, taken off the lists while its range is being emptied.
    Isolated = 5,
}

/// The type by its number, for those that allocations ask for.
#[inline]
pub(crate) fn requested_type(number: u32) -> MigrateType {
    match number & 3 {
        0 => MigrateType::Unmovable,
        1 => MigrateType::Movable,
        _ => MigrateType::Reclaimable,
    }
}

/// Packed state of a block head: 16 bits of what it is, 48 bits of where its holder keeps it.
///
/// | bits | |
/// |---|---|
/// | 0–2 | kind |
/// | 3–6 | order; 15 stands for a 1 GB page |
/// | 7–11 | class |
/// | 12–13 | migratetype of a free block |
/// | 12–15 | active, referenced, pinned, LRU of a used one |
/// | 16–63 | place: position on a list, or pool (20 bits) and index in it (28 bits) |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameState(u64);

const ORDER_SHIFT: u32 = 3;
const ORDER_MASK: u64 = 15 << ORDER_SHIFT;
const CLASS_SHIFT: u32 = 7;
const CLASS_MASK: u64 = 31 << CLASS_SHIFT;
const MT_SHIFT: u32 = 12;
const PLACE_SHIFT: u32 = 16;
const INDEX_BITS: u32 = 28;
/// Order field of a 1 GB page.
const GIGA_CODE: u64 = 15;
/// Frames of the largest server: 1 TB.
pub(crate) const MAX_FRAMES: u64 = 1 << INDEX_BITS;
const _: () = assert!(MAX_FRAMES == ample_trace::pages::MAX_PFN);
/// Pools that fit a state.
pub(crate) const MAX_POOLS: usize = 1 << (64 - PLACE_SHIFT - INDEX_BITS);

#[inline]
fn order_bits(order: u32) -> u64 {
    let code = if order == GIGA_ORDER {
        GIGA_CODE
    } else {
        u64::from(order)
    };
    code << ORDER_SHIFT
}

impl FrameState {
    /// The state of a frame inside a block.
    pub const INTERIOR: FrameState = FrameState(0);
    const ACTIVE: u64 = 1 << 12;
    const REFERENCED: u64 = 1 << 13;
    const PINNED: u64 = 1 << 14;
    const LRU: u64 = 1 << 15;

    /// A free block of `order` for the list of `mt`.
    #[inline]
    pub fn free(kind: FrameKind, order: u32, mt: MigrateType) -> FrameState {
        let class = (PageClass::Free as u64) << CLASS_SHIFT;
        FrameState(kind as u64 | order_bits(order) | class | (mt as u64) << MT_SHIFT)
    }

    /// An allocated block.
    #[inline]
    pub fn used(order: u32, class: PageClass) -> FrameState {
        FrameState(FrameKind::Used as u64 | order_bits(order) | (class as u64) << CLASS_SHIFT)
    }

    /// A frame the allocator never owned.
    pub fn fixed(class: PageClass) -> FrameState {
        FrameState(FrameKind::Fixed as u64 | (class as u64) << CLASS_SHIFT)
    }

    /// The same block at another place: its position on a list.
    #[inline]
    pub(crate) fn at(self, place: u64) -> FrameState {
        FrameState(self.0 & ((1 << PLACE_SHIFT) - 1) | place << PLACE_SHIFT)
    }

    /// Where its holder keeps it, as [`FrameState::at`] was told.
    #[inline]
    pub(crate) fn place(self) -> u64 {
        self.0 >> PLACE_SHIFT
    }

    /// The same block as the entry at `index` of `pool`.
    #[inline]
    pub(crate) fn in_pool(self, pool: u32, index: u32) -> FrameState {
        self.at(u64::from(pool) << INDEX_BITS | u64::from(index))
    }

    /// The pool and the index in it, as [`FrameState::in_pool`] was told.
    #[inline]
    pub(crate) fn pool_entry(self) -> (u32, u32) {
        let place = self.place();
        let index = place & ((1 << INDEX_BITS) - 1);
        ((place >> INDEX_BITS) as u32, index as u32)
    }

    /// The packed word.
    #[inline]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// Whether this is the head of a block on a buddy list.
    #[inline]
    pub(crate) fn is_free_head(self) -> bool {
        self.0 & 7 == FrameKind::Free as u64
    }

    /// What the block is.
    #[inline]
    pub fn kind(self) -> FrameKind {
        match self.0 & 7 {
            0 => FrameKind::Interior,
            1 => FrameKind::Fixed,
            2 => FrameKind::Free,
            3 => FrameKind::Pcp,
            4 => FrameKind::Used,
            _ => FrameKind::Isolated,
        }
    }

    /// Order of the block.
    #[inline]
    pub fn order(self) -> u32 {
        match (self.0 & ORDER_MASK) >> ORDER_SHIFT {
            GIGA_CODE => GIGA_ORDER,
            order => order as u32,
        }
    }

    /// Whether the block is a single page.
    #[inline]
    pub(crate) fn is_single(self) -> bool {
        self.0 & ORDER_MASK == 0
    }

    /// Pages of the block, of one that is not a 1 GB page.
    #[inline]
    pub(crate) fn pages(self) -> u32 {
        1 << ((self.0 & ORDER_MASK) >> ORDER_SHIFT)
    }

    /// The frame behind the block that starts at `pfn`.
    #[inline]
    pub(crate) fn next_head(self, pfn: u32) -> u32 {
        // A branch and not a shift: most blocks are single pages, and a walk whose next step is
        // predicted need not wait for each state to arrive.
        if self.is_single() {
            return pfn + 1;
        }
        self.far_head(pfn)
    }

    #[cold]
    fn far_head(self, pfn: u32) -> u32 {
        pfn + self.pages()
    }

    /// Use of its pages.
    #[inline]
    pub fn class(self) -> PageClass {
        PageClass::from_u8(((self.0 & CLASS_MASK) >> CLASS_SHIFT) as u8).unwrap_or(PageClass::Hole)
    }

    /// Number of different [`FrameState::use_key`]s.
    pub(crate) const USES: usize = 1 << 8;

    /// Kind and class as one small number: what the metrics want to know.
    #[inline]
    pub(crate) fn use_key(self) -> usize {
        (self.0 & 7 | (self.0 & CLASS_MASK) >> (CLASS_SHIFT - 3)) as usize
    }

    /// A state with that kind and class.
    pub(crate) fn of_use(key: usize) -> FrameState {
        FrameState(key as u64 & 7 | (key as u64 >> 3) << CLASS_SHIFT)
    }

    /// Migratetype of the free list it is on (free blocks only).
    #[inline]
    pub fn mt(self) -> MigrateType {
        requested_type((self.0 >> MT_SHIFT) as u32)
    }

    /// Whether this is a free buddy of exactly `order`.
    #[inline]
    pub fn is_free_of(self, order: u32) -> bool {
        self.0 & (ORDER_MASK | 7) == FrameKind::Free as u64 | order_bits(order)
    }

    /// The same block with another class.
    pub fn with_class(self, class: PageClass) -> FrameState {
        FrameState(self.0 & !CLASS_MASK | (class as u64) << CLASS_SHIFT)
    }

    /// The same block with another order.
    pub fn with_order(self, order: u32) -> FrameState {
        FrameState(self.0 & !ORDER_MASK | order_bits(order))
    }

    fn flag(self, bit: u64, on: bool) -> FrameState {
        FrameState(if on { self.0 | bit } else { self.0 & !bit })
    }

    /// Whether it is on an LRU list.
    #[inline]
    pub fn on_lru(self) -> bool {
        self.0 & FrameState::LRU != 0
    }

    /// Marks it as on an LRU list (or not).
    pub fn with_lru(self, on: bool) -> FrameState {
        self.flag(FrameState::LRU, on)
    }

    /// Whether it is on the active LRU list.
    #[inline]
    pub fn active(self) -> bool {
        self.0 & FrameState::ACTIVE != 0
    }

    /// Marks it active (or not).
    pub fn with_active(self, on: bool) -> FrameState {
        self.flag(FrameState::ACTIVE, on)
    }

    /// Whether it was used since the last look.
    #[inline]
    pub fn referenced(self) -> bool {
        self.0 & FrameState::REFERENCED != 0
    }

    /// Marks it referenced (or not).
    pub fn with_referenced(self, on: bool) -> FrameState {
        self.flag(FrameState::REFERENCED, on)
    }

    /// Whether a short pin (direct I/O) keeps it in place for now.
    #[inline]
    pub fn short_pinned(self) -> bool {
        self.0 & FrameState::PINNED != 0
    }

    /// Takes or drops a short pin.
    pub fn with_short_pin(self, on: bool) -> FrameState {
        self.flag(FrameState::PINNED, on)
    }
}
