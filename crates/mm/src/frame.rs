// SPDX-License-Identifier: MIT OR Apache-2.0
//! The frame table: 12 bytes a frame, plus 4 for each allocated page that a pool owns.
//!
//! Only the first frame of a block (free, per-CPU or used) carries a meaningful state; the
//! frames behind it keep whatever they had. That is sound because a buddy position is always
//! the head of some block (an aligned block that holds the buddy but not its partner would have
//! to be smaller), and it makes a huge page as cheap to allocate as a small one.

use ample_pfn::PageClass;

/// No frame: the end of a list.
pub const NIL: u32 = u32::MAX;

/// What the block that starts at a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Not the head of a block.
    Interior = 0,
    /// No memory, firmware, or a page that was never the allocator's: does not move.
    Fixed = 1,
    /// On a buddy free list.
    Free = 2,
    /// On a per-CPU list.
    Pcp = 3,
    /// Allocated.
    Used = 4,
    /// Free, taken off the lists while its range is being emptied.
    Isolated = 5,
}

/// Migratetype of a pageblock and of a free list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum MigrateType {
    /// Kernel memory that stays.
    Unmovable = 0,
    /// User memory and page cache.
    Movable = 1,
    /// Kernel memory that a shrinker may free.
    Reclaimable = 2,
}

impl MigrateType {
    /// All types, by value.
    pub const ALL: [MigrateType; 3] = [
        MigrateType::Unmovable,
        MigrateType::Movable,
        MigrateType::Reclaimable,
    ];

    /// The type that an allocation for `class` asks for.
    #[inline]
    pub fn of(class: PageClass) -> MigrateType {
        match class {
            PageClass::SlabReclaimable => MigrateType::Reclaimable,
            class if is_movable(class) => MigrateType::Movable,
            _ => MigrateType::Unmovable,
        }
    }

    #[inline]
    pub(crate) fn from_bits(bits: u32) -> MigrateType {
        match bits & 3 {
            0 => MigrateType::Unmovable,
            1 => MigrateType::Movable,
            _ => MigrateType::Reclaimable,
        }
    }
}

/// Whether software can move a page of this class (and allocates it as movable).
#[inline]
pub fn is_movable(class: PageClass) -> bool {
    const MOVABLE: u32 = 1 << PageClass::Anon as u8
        | 1 << PageClass::File as u8
        | 1 << PageClass::Shmem as u8
        | 1 << PageClass::HugeTlb as u8
        | 1 << PageClass::Mlocked as u8
        | 1 << PageClass::LruOther as u8
        | 1 << PageClass::MovableOps as u8;
    MOVABLE >> class as u8 & 1 == 1
}

/// Packed state of a block head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(u32);

impl State {
    /// The state of a frame inside a block.
    pub const INTERIOR: State = State(0);
    const ACTIVE: u32 = 1 << 16;
    const REFERENCED: u32 = 1 << 17;
    const PINNED: u32 = 1 << 18;
    const LRU: u32 = 1 << 19;

    /// A free block of `order` for the list of `mt`.
    #[inline]
    pub fn free(kind: Kind, order: u32, mt: MigrateType) -> State {
        State(kind as u32 | order << 3 | (PageClass::Free as u32) << 8 | (mt as u32) << 13)
    }

    /// An allocated block.
    #[inline]
    pub fn used(order: u32, class: PageClass) -> State {
        State(Kind::Used as u32 | order << 3 | (class as u32) << 8)
    }

    /// A frame the allocator never owned.
    pub fn fixed(class: PageClass) -> State {
        State(Kind::Fixed as u32 | (class as u32) << 8)
    }

    /// What the block is.
    #[inline]
    pub fn kind(self) -> Kind {
        match self.0 & 7 {
            0 => Kind::Interior,
            1 => Kind::Fixed,
            2 => Kind::Free,
            3 => Kind::Pcp,
            4 => Kind::Used,
            _ => Kind::Isolated,
        }
    }

    /// Order of the block.
    #[inline]
    pub fn order(self) -> u32 {
        self.0 >> 3 & 31
    }

    /// Use of its pages.
    #[inline]
    pub fn class(self) -> PageClass {
        PageClass::from_u8((self.0 >> 8 & 31) as u8).unwrap_or(PageClass::Hole)
    }

    /// Migratetype of the free list it is on (free blocks only).
    #[inline]
    pub fn mt(self) -> MigrateType {
        MigrateType::from_bits(self.0 >> 13)
    }

    /// Whether this is a free buddy of exactly `order`.
    #[inline]
    pub fn is_free_of(self, order: u32) -> bool {
        self.0 & 0xff == (Kind::Free as u32 | order << 3)
    }

    /// The same block with another class.
    pub fn with_class(self, class: PageClass) -> State {
        State(self.0 & !(31 << 8) | (class as u32) << 8)
    }

    /// The same block with another order.
    pub fn with_order(self, order: u32) -> State {
        State(self.0 & !(31 << 3) | order << 3)
    }

    fn flag(self, bit: u32, on: bool) -> State {
        State(if on { self.0 | bit } else { self.0 & !bit })
    }

    /// Whether it is on an LRU list.
    #[inline]
    pub fn on_lru(self) -> bool {
        self.0 & State::LRU != 0
    }

    /// Marks it as on an LRU list (or not).
    pub fn with_lru(self, on: bool) -> State {
        self.flag(State::LRU, on)
    }

    /// Whether it is on the active LRU list.
    #[inline]
    pub fn active(self) -> bool {
        self.0 & State::ACTIVE != 0
    }

    /// Marks it active (or not).
    pub fn with_active(self, on: bool) -> State {
        self.flag(State::ACTIVE, on)
    }

    /// Whether it was used since the last look.
    #[inline]
    pub fn referenced(self) -> bool {
        self.0 & State::REFERENCED != 0
    }

    /// Marks it referenced (or not).
    pub fn with_referenced(self, on: bool) -> State {
        self.flag(State::REFERENCED, on)
    }

    /// Whether a short pin (direct I/O) keeps it in place for now.
    #[inline]
    pub fn short_pinned(self) -> bool {
        self.0 & State::PINNED != 0
    }

    /// Takes or drops a short pin.
    pub fn with_short_pin(self, on: bool) -> State {
        self.flag(State::PINNED, on)
    }
}

/// State and links of every frame. `link` is next/previous on a free or LRU list, or owner pool
/// and position in it.
#[derive(Clone, Debug)]
pub struct Frames {
    pub(crate) state: Vec<State>,
    pub(crate) link: Vec<[u32; 2]>,
}

impl Frames {
    /// A table of `count` frames, all inside nothing yet.
    pub fn new(count: u32) -> Frames {
        Frames {
            state: vec![State::INTERIOR; count as usize],
            link: vec![[NIL, NIL]; count as usize],
        }
    }

    /// Number of frames.
    pub fn len(&self) -> u32 {
        self.state.len() as u32
    }

    #[inline]
    pub(crate) fn get(&self, pfn: u32) -> State {
        self.state[pfn as usize]
    }

    #[inline]
    pub(crate) fn set(&mut self, pfn: u32, state: State) {
        self.state[pfn as usize] = state;
    }
}

/// Head and length of an intrusive doubly linked list through [`Frames::link`].
#[derive(Clone, Copy, Debug)]
pub struct List {
    pub(crate) head: u32,
    pub(crate) tail: u32,
    pub(crate) count: u32,
}

impl List {
    /// An empty list.
    pub const EMPTY: List = List {
        head: NIL,
        tail: NIL,
        count: 0,
    };

    /// Adds a frame at the head.
    #[inline]
    pub(crate) fn push_head(&mut self, link: &mut [[u32; 2]], pfn: u32) {
        link[pfn as usize] = [self.head, NIL];
        match self.head {
            NIL => self.tail = pfn,
            head => link[head as usize][1] = pfn,
        }
        self.head = pfn;
        self.count += 1;
    }

    /// Adds a frame at the tail.
    #[inline]
    pub(crate) fn push_tail(&mut self, link: &mut [[u32; 2]], pfn: u32) {
        link[pfn as usize] = [NIL, self.tail];
        match self.tail {
            NIL => self.head = pfn,
            tail => link[tail as usize][0] = pfn,
        }
        self.tail = pfn;
        self.count += 1;
    }

    /// Takes a frame out.
    #[inline]
    pub(crate) fn remove(&mut self, link: &mut [[u32; 2]], pfn: u32) {
        let [next, prev] = link[pfn as usize];
        match prev {
            NIL => self.head = next,
            prev => link[prev as usize][0] = next,
        }
        match next {
            NIL => self.tail = prev,
            next => link[next as usize][1] = prev,
        }
        self.count -= 1;
    }

    /// Puts `new` in the place of `old`.
    pub(crate) fn replace(&mut self, link: &mut [[u32; 2]], old: u32, new: u32) {
        let [next, prev] = link[old as usize];
        link[new as usize] = [next, prev];
        match prev {
            NIL => self.head = new,
            prev => link[prev as usize][0] = new,
        }
        match next {
            NIL => self.tail = new,
            next => link[next as usize][1] = new,
        }
    }
}
