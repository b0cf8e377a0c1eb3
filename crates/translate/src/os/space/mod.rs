// SPDX-License-Identifier: MIT OR Apache-2.0
//! An address space as the operating system keeps it: page table, segment, hole bitmaps, and the
//! events that change them. Each change leaves the invalidations it needs in `pending`; whoever
//! owns translation hardware applies them before the next access.

mod huge;
mod mirror;
mod perforated;
mod segments;

use crate::error::MapError;
use crate::os::frames::FrameSource;
use crate::os::segment::Segment;
use crate::table::entry::{PageSize, bits};
use crate::table::holes::{HoleBitmaps, HoleMap, filter_of, is_hole};
use crate::table::page_table::{LeafEntry, PageTable};
use std::collections::HashSet;

/// Rights of an ordinary read-write user page.
pub const USER_RW: u64 = bits::WRITE | bits::USER | bits::ACCESSED | bits::DIRTY | bits::NO_EXECUTE;

/// The address-space identifier of entries that all spaces share: those of global pages.
pub const GLOBAL_ASID: u16 = 0xfff;

/// What must leave the translation hardware after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inval {
    /// INVLPG of one page of the given size, and all paging-structure caches (Intel SDM 3A 4.10).
    Page {
        /// Any address inside.
        va: u64,
        /// Size of the page that was mapped.
        size: PageSize,
    },
    /// Holes of a perforated 2 MB page changed: its perforated entry, bitmap entries and the one
    /// 4 KB translation go.
    Holes {
        /// The 4 KB page punched or patched.
        va: u64,
    },
    /// Everything of this address space.
    Space,
    /// The segment registers changed.
    Segment,
}

/// A translation as software finds it; the reference every scheme is tested against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageMapping {
    /// Physical address, bytes.
    pub pa: u64,
    /// Largest page this translation is part of; a hole and its neighbours are 4 KB.
    pub size: PageSize,
    /// Rights and state bits of the entry.
    pub flags: u64,
}

/// One address space.
#[derive(Clone, Debug)]
pub struct Space {
    /// Process-context identifier, 12 bits; 0xfff is kept for global pages.
    pub asid: u16,
    /// Its page table.
    pub table: PageTable,
    /// Its direct segment; disabled: None.
    pub segment: Option<Segment>,
    /// The segment of the kernel half of addresses, with registers of its own that the sign bit
    /// of an address selects (Direct Segments, section 3.3).
    pub kernel_segment: Option<Segment>,
    /// Hole bitmaps of perforated pages.
    holes: HoleBitmaps,
    /// Its page table mirrors a guest's, whose frames hold what they hold.
    mirrors: bool,
    /// Changes since, for caches of derived data (ranges).
    pub generation: u64,
    /// Invalidations still to be applied.
    pub pending: Vec<Inval>,
}

impl Space {
    /// An empty address space.
    ///
    /// # Errors
    /// If no frame is left for the root of the page table.
    pub fn new(asid: u16, levels: u8, frames: &mut dyn FrameSource) -> Result<Self, MapError> {
        assert!(asid < GLOBAL_ASID, "address-space identifiers end at 4094");
        Ok(Space::with_table(asid, PageTable::new(levels, frames)?))
    }

    /// The kernel half that all spaces share; its root's entries lie in `root_frame`.
    pub(crate) fn kernel(levels: u8, root_frame: u64) -> Self {
        Space::with_table(GLOBAL_ASID, PageTable::rooted(levels, root_frame))
    }

    fn with_table(asid: u16, table: PageTable) -> Self {
        Space {
            asid,
            table,
            segment: None,
            kernel_segment: None,
            holes: HoleBitmaps::default(),
            mirrors: false,
            generation: 0,
            pending: Vec::new(),
        }
    }

    /// Whether a segment maps part of the page at `va`.
    fn meets_segment(&self, va: u64, bytes: u64) -> bool {
        self.segment_for(va)
            .is_some_and(|s| va < s.limit && va.saturating_add(bytes) > s.base)
    }

    fn changed(&mut self, inval: Inval) {
        self.generation += 1;
        self.pending.push(inval);
    }

    /// The hole bitmap of a 2 MB frame.
    #[inline]
    pub fn hole_map(&self, frame_2m: u64) -> HoleMap {
        self.holes.get(frame_2m)
    }

    /// Physical address of the 8-byte group of the bitmap that holds frame `index` of a block (on
    /// a virtual machine a guest's is guest-physical); None if no page makes it perforated.
    #[inline]
    pub fn bitmap_pa(&self, frame_2m: u64, index: u64) -> Option<u64> {
        self.holes.group_pa(frame_2m, index)
    }

    /// Frames that translation hardware reads: page-table nodes, shadow nodes and hole bitmaps.
    pub fn structure_frames(&self) -> Vec<u64> {
        let bitmaps = self.holes.frames();
        self.table.node_frames().chain(bitmaps).collect()
    }

    /// The segment registers that serve `va`: its sign bit chooses.
    #[inline(always)]
    pub fn segment_for(&self, va: u64) -> Option<Segment> {
        if (va as i64) < 0 {
            self.kernel_segment
        } else {
            self.segment
        }
    }

    fn set_registers(&mut self, va: u64, segment: Option<Segment>) {
        if (va as i64) < 0 {
            self.kernel_segment = segment;
        } else {
            self.segment = segment;
        }
    }

    /// What the page table and the segments say about `va`.
    pub fn lookup(&self, va: u64) -> Option<PageMapping> {
        if let Some(pa) = self.segment_for(va).and_then(|s| s.translate(va)) {
            return Some(PageMapping {
                pa,
                size: PageSize::K4,
                flags: USER_RW,
            });
        }
        let leaf = self.table.find(va)?;
        if leaf.entry & bits::PERFORATED != 0 {
            let frame = (leaf.entry & bits::FRAME) >> 21;
            let index = va >> 12 & 511;
            if is_hole(&self.hole_map(frame), index) {
                let entry = self.table.hole_entry(leaf.place, va);
                return (entry & bits::PRESENT != 0).then(|| mapping(entry, va, PageSize::K4));
            }
            return Some(PageMapping {
                size: PageSize::M2,
                ..mapping(leaf.entry, va, PageSize::M2)
            });
        }
        Some(mapping(leaf.entry, va, leaf.size))
    }

    /// Maps a page.
    ///
    /// # Errors
    /// As [`PageTable::map`]; also if the page overlaps the segment.
    pub fn map(
        &mut self,
        va: u64,
        size: PageSize,
        pfn: u64,
        flags: u64,
        frames: &mut dyn FrameSource,
    ) -> Result<(), MapError> {
        if self.meets_segment(va, size.bytes()) {
            return Err(MapError::Occupied { va });
        }
        self.generation += 1;
        self.table.map(va, size, pfn, flags, frames)
    }

    /// Unmaps the page at `va`; the frames go back to `frames` if `release`.
    ///
    /// # Errors
    /// If nothing is mapped there.
    pub fn unmap(
        &mut self,
        va: u64,
        release: bool,
        frames: &mut dyn FrameSource,
    ) -> Result<LeafEntry, MapError> {
        let (leaf, hole_entries) = self.table.unmap(va, frames)?;
        let pfn = (leaf.entry & bits::FRAME) >> 12;
        let mut missing = None;
        if leaf.entry & bits::PERFORATED != 0 {
            missing = self.holes.release(pfn >> 9, frames);
        }
        if release {
            match missing {
                None => frames.free(pfn, leaf.size.order()),
                Some(map) => (0..512u64)
                    .filter(|&index| !is_hole(&map, index))
                    .for_each(|i| frames.free(pfn + i, 0)),
            }
            for entry in hole_entries {
                frames.free((entry & bits::FRAME) >> 12, 0);
            }
        }
        self.changed(Inval::Page {
            va,
            size: leaf.size,
        });
        if leaf.entry & bits::PERFORATED != 0 {
            self.pending.push(Inval::Space);
        }
        Ok(leaf)
    }

    /// Changes rights: `clear` and `set` are entry bits of the page (or hole) that maps `va`. A
    /// 4 KB part of a perforated page must be a hole to have rights of its own.
    ///
    /// # Errors
    /// If nothing is mapped there.
    pub fn protect(&mut self, va: u64, clear: u64, set: u64) -> Result<(), MapError> {
        let leaf = self.table.find(va).ok_or(MapError::Unmapped { va })?;
        if leaf.entry & bits::PERFORATED != 0 && self.is_hole(leaf, va) {
            let entry = self.table.hole_entry(leaf.place, va);
            if entry & bits::PRESENT == 0 {
                return Err(MapError::Unmapped { va });
            }
            self.table.set_hole(leaf.place, va, entry & !clear | set);
            self.changed(Inval::Holes { va });
            return Ok(());
        }
        self.table.update(leaf.place, leaf.entry & !clear | set);
        self.changed(Inval::Page {
            va,
            size: leaf.size,
        });
        if leaf.entry & bits::PERFORATED != 0 {
            // Its generated 4 KB entries carry the old rights.
            self.pending.push(Inval::Space);
        }
        Ok(())
    }

    fn is_hole(&self, leaf: LeafEntry, va: u64) -> bool {
        let map = self.hole_map((leaf.entry & bits::FRAME) >> 21);
        is_hole(&map, va >> 12 & 511)
    }

    /// Sets the dirty and accessed bits of the entry that maps `va`.
    pub fn mark_dirty(&mut self, va: u64) {
        let Some(leaf) = self.table.find(va) else {
            return;
        };
        let set = bits::DIRTY | bits::ACCESSED;
        if leaf.entry & bits::PERFORATED != 0 && self.is_hole(leaf, va) {
            let entry = self.table.hole_entry(leaf.place, va);
            self.table.set_hole(leaf.place, va, entry | set);
        } else {
            self.table.update(leaf.place, leaf.entry | set);
        }
    }

    /// Checks what holds between any two changes: the page table is sound, every perforated page
    /// has the filter of its hole bitmap and no entry for a page that is no hole, no page lies in a
    /// segment, and nodes and bitmaps have frames of their own that no page maps. The last is not
    /// asked of a mirror: a guest maps its own page tables, and may hang one into two places.
    ///
    /// # Panics
    /// If something of it does not hold.
    pub fn assert_sound(&self) {
        self.table.assert_sound();
        let mut structures = HashSet::new();
        let own = self.structure_frames().into_iter();
        for frame in own.filter(|_| !self.mirrors) {
            assert!(
                structures.insert(frame),
                "two structures in frame {frame:#x}"
            );
        }
        let mut perforated = 0;
        self.table.for_each_leaf(|va, leaf| {
            let first = (leaf.entry & bits::FRAME) >> 12;
            let within = first..first + (leaf.size.bytes() >> 12);
            let inside = structures.iter().find(|&frame| within.contains(frame));
            assert_eq!(inside, None, "a structure in the page at {va:#x}");
            let inside = |s: Segment| s.translate(va).is_some();
            assert!(!self.segment_for(va).is_some_and(inside), "{va:#x} twice");
            if leaf.entry & bits::PERFORATED == 0 {
                return;
            }
            perforated += 1;
            let map = self.hole_map((leaf.entry & bits::FRAME) >> 21);
            let filter = (leaf.entry >> bits::FILTER_SHIFT) as u8;
            assert_eq!(filter, filter_of(&map), "filter at {va:#x}");
            for index in (0..512).filter(|&index| !is_hole(&map, index)) {
                let entry = self.table.hole_entry(leaf.place, va + (index << 12));
                assert_eq!(entry, 0, "page {index} at {va:#x} is no hole");
            }
        });
        assert_eq!(perforated, self.holes.len(), "bitmaps without a page");
    }
}

fn mapping(entry: u64, va: u64, size: PageSize) -> PageMapping {
    let offset = va & (size.bytes() - 1);
    PageMapping {
        pa: (entry & bits::FRAME & !(size.bytes() - 1)) + offset,
        size,
        flags: entry,
    }
}
