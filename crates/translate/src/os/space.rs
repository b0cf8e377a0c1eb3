// SPDX-License-Identifier: MIT OR Apache-2.0
//! An address space as the operating system keeps it: page table, segment, hole bitmaps, and the
//! events that change them. Each change leaves the invalidations it needs in `pending`; whoever
//! owns translation hardware applies them before the next access.

use crate::error::MapError;
use crate::frames::FrameSource;
use crate::pagetable::{Leaf, PageSize, PageTable, bits};
use serde::Serialize;
use std::collections::HashMap;

/// Rights of an ordinary read-write user page.
pub const USER_RW: u64 = bits::WRITE | bits::USER | bits::ACCESSED | bits::DIRTY | bits::NO_EXECUTE;

/// Frames of one 2 MB block that are holes, one bit each.
pub type HoleMap = [u64; 8];

/// A direct segment: virtual `base..limit` lies at `address + offset` (Direct Segments, 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Segment {
    /// First virtual address; a multiple of 4 KB.
    pub base: u64,
    /// First virtual address after the segment.
    pub limit: u64,
    /// Physical start minus `base`, wrapping.
    pub offset: u64,
}

impl Segment {
    /// Physical address, if `va` lies inside.
    #[inline(always)]
    pub fn translate(&self, va: u64) -> Option<u64> {
        // One comparison: limit - base is 0 when disabled.
        (va.wrapping_sub(self.base) < self.limit - self.base).then(|| va.wrapping_add(self.offset))
    }

    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        self.limit - self.base
    }
}

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
pub struct Mapping {
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
    /// Hole bitmaps by 2 MB frame number.
    holes: HashMap<u64, HoleMap>,
    /// Where the array of bitmaps starts in physical memory (the base register of the paper).
    pub bitmap_base: u64,
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
        assert!(asid < 0xfff, "address-space identifiers end at 4094");
        Ok(Space {
            asid,
            table: PageTable::new(levels, frames)?,
            segment: None,
            kernel_segment: None,
            holes: HashMap::new(),
            bitmap_base: 1 << 45,
            generation: 0,
            pending: Vec::new(),
        })
    }

    fn changed(&mut self, inval: Inval) {
        self.generation += 1;
        self.pending.push(inval);
    }

    /// The hole bitmap of a 2 MB frame.
    #[inline]
    pub fn hole_map(&self, frame_2m: u64) -> HoleMap {
        self.holes.get(&frame_2m).copied().unwrap_or([0; 8])
    }

    /// Physical address of the 8-byte group of the bitmap that holds frame `index` of a block.
    #[inline]
    pub fn bitmap_pa(&self, frame_2m: u64, index: u64) -> u64 {
        self.bitmap_base + frame_2m * 64 + index / 64 * 8
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
    pub fn lookup(&self, va: u64) -> Option<Mapping> {
        if let Some(pa) = self.segment_for(va).and_then(|s| s.translate(va)) {
            return Some(Mapping {
                pa,
                size: PageSize::K4,
                flags: USER_RW,
            });
        }
        let leaf = self.table.find(va)?;
        if leaf.entry & bits::PERFORATED != 0 {
            let frame = (leaf.entry & bits::FRAME) >> 21;
            let index = va >> 12 & 511;
            if self.hole_map(frame)[index as usize / 64] >> (index % 64) & 1 != 0 {
                let entry = self.table.hole_entry(leaf.place, va);
                return (entry & bits::PRESENT != 0).then(|| mapping(entry, va, PageSize::K4));
            }
            return Some(Mapping {
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
        if let Some(segment) = self.segment_for(va)
            && va < segment.limit
            && va.saturating_add(size.bytes()) > segment.base
        {
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
    ) -> Result<Leaf, MapError> {
        let (leaf, hole_entries) = self.table.unmap(va, frames)?;
        let pfn = (leaf.entry & bits::FRAME) >> 12;
        let mut missing = None;
        if leaf.entry & bits::PERFORATED != 0 {
            missing = self.holes.remove(&(pfn >> 9));
        }
        if release {
            match missing {
                None => frames.free(pfn, leaf.size.order()),
                Some(map) => (0..512u64)
                    .filter(|i| map[*i as usize / 64] >> (i % 64) & 1 == 0)
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

    fn is_hole(&self, leaf: Leaf, va: u64) -> bool {
        let index = (va >> 12 & 511) as usize;
        self.hole_map((leaf.entry & bits::FRAME) >> 21)[index / 64] >> (index % 64) & 1 != 0
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

    /// Makes the plain 2 MB page at `va` perforated, without holes as yet.
    ///
    /// # Errors
    /// If no 2 MB page maps `va` or no frame is left for the shadow node.
    pub fn perforate(&mut self, va: u64, frames: &mut dyn FrameSource) -> Result<(), MapError> {
        let leaf = self.table.find(va).ok_or(MapError::Unmapped { va })?;
        if leaf.size != PageSize::M2 {
            return Err(MapError::NotPerforated { va });
        }
        self.table.perforate(leaf, frames)?;
        self.changed(Inval::Page {
            va,
            size: PageSize::M2,
        });
        Ok(())
    }

    /// Maps a perforated page in one go: block `pfn`, holes as given; the holes start unallocated.
    ///
    /// # Errors
    /// As [`map`](Self::map).
    pub fn map_perforated(
        &mut self,
        va: u64,
        pfn: u64,
        holes: HoleMap,
        flags: u64,
        frames: &mut dyn FrameSource,
    ) -> Result<(), MapError> {
        self.map(va, PageSize::M2, pfn, flags, frames)?;
        let leaf = self.table.find(va).ok_or(MapError::Unmapped { va })?;
        self.table.perforate(leaf, frames)?;
        self.table.set_filter(leaf.place, filter_of(&holes));
        self.holes.insert(pfn >> 9, holes);
        Ok(())
    }

    /// Punches a hole at the 4 KB page `va`: from now on `replacement` (frame number and rights)
    /// maps it, or nothing. Returns the frame that the block has lost, if it had it.
    ///
    /// # Errors
    /// If `va` does not lie in a perforated page.
    pub fn punch(
        &mut self,
        va: u64,
        replacement: Option<(u64, u64)>,
    ) -> Result<Option<u64>, MapError> {
        let leaf = self.perforated(va)?;
        let frame = (leaf.entry & bits::FRAME) >> 21;
        let index = (va >> 12 & 511) as usize;
        let map = self.holes.entry(frame).or_default();
        let was_hole = map[index / 64] >> (index % 64) & 1 != 0;
        map[index / 64] |= 1 << (index % 64);
        let filter = filter_of(map);
        self.table.set_filter(leaf.place, filter);
        let entry = replacement.map_or(0, |(pfn, flags)| pfn << 12 | flags | bits::PRESENT);
        self.table.set_hole(leaf.place, va, entry);
        self.changed(Inval::Holes { va });
        Ok((!was_hole).then_some((frame << 9) + index as u64))
    }

    /// Patches the hole at `va`: the frame of the block takes over again. Returns the frame that
    /// mapped the hole, if one did.
    ///
    /// # Errors
    /// If `va` does not lie in a perforated page.
    pub fn patch(&mut self, va: u64) -> Result<Option<u64>, MapError> {
        let leaf = self.perforated(va)?;
        let frame = (leaf.entry & bits::FRAME) >> 21;
        let index = (va >> 12 & 511) as usize;
        let map = self.holes.entry(frame).or_default();
        map[index / 64] &= !(1 << (index % 64));
        let filter = filter_of(map);
        self.table.set_filter(leaf.place, filter);
        let old = self.table.set_hole(leaf.place, va, 0);
        self.changed(Inval::Holes { va });
        Ok((old & bits::PRESENT != 0).then_some((old & bits::FRAME) >> 12))
    }

    /// Turns a perforated page without holes into a plain 2 MB page.
    ///
    /// # Errors
    /// If it is not perforated; a page with holes is left as it is and false returned.
    pub fn close_perforated(
        &mut self,
        va: u64,
        frames: &mut dyn FrameSource,
    ) -> Result<bool, MapError> {
        let leaf = self.perforated(va)?;
        let frame = (leaf.entry & bits::FRAME) >> 21;
        if self.hole_map(frame) != [0; 8] {
            return Ok(false);
        }
        self.holes.remove(&frame);
        self.table.make_plain(leaf, frames);
        self.changed(Inval::Page {
            va,
            size: PageSize::M2,
        });
        self.pending.push(Inval::Space);
        Ok(true)
    }

    fn perforated(&self, va: u64) -> Result<Leaf, MapError> {
        let leaf = self.table.find(va).ok_or(MapError::Unmapped { va })?;
        if leaf.entry & bits::PERFORATED == 0 {
            return Err(MapError::NotPerforated { va });
        }
        Ok(leaf)
    }

    /// Splits the plain 2 MB page at `va` into 512 pages of 4 KB on the same frames.
    ///
    /// # Errors
    /// If no plain 2 MB page maps `va`.
    pub fn split(&mut self, va: u64, frames: &mut dyn FrameSource) -> Result<(), MapError> {
        let leaf = self.table.find(va).ok_or(MapError::Unmapped { va })?;
        if leaf.size != PageSize::M2 || leaf.entry & bits::PERFORATED != 0 {
            return Err(MapError::Unaligned {
                va,
                page_bytes: PageSize::M2.bytes(),
            });
        }
        let base = va & !(PageSize::M2.bytes() - 1);
        self.unmap(base, false, frames)?;
        let pfn = (leaf.entry & bits::FRAME) >> 12;
        let flags = leaf.entry & !bits::FRAME & !bits::LARGE;
        for i in 0..512 {
            self.map(base + i * 4096, PageSize::K4, pfn + i, flags, frames)?;
        }
        Ok(())
    }

    /// Promotes the 4 KB pages around `va` into one 2 MB page on a fresh block; all 512 must be
    /// mapped with the same rights. Returns false, and changes nothing, if they are not or no
    /// block is free.
    ///
    /// # Errors
    /// Only if the page table runs out of frames.
    pub fn promote(&mut self, va: u64, frames: &mut dyn FrameSource) -> Result<bool, MapError> {
        let base = va & !(PageSize::M2.bytes() - 1);
        let ignore = bits::FRAME | bits::ACCESSED | bits::DIRTY;
        let first = self.table.find(base);
        let Some(first) = first.filter(|l| l.size == PageSize::K4) else {
            return Ok(false);
        };
        let uniform = (0..512).all(|i| {
            self.table.find(base + i * 4096).is_some_and(|leaf| {
                leaf.size == PageSize::K4 && (leaf.entry ^ first.entry) & !ignore == 0
            })
        });
        if !uniform || first.entry & bits::COW != 0 {
            return Ok(false);
        }
        let Some(block) = frames.alloc(9) else {
            return Ok(false);
        };
        let mut state = 0;
        for i in 0..512 {
            state |= self.unmap(base + i * 4096, true, frames)?.entry;
        }
        let flags = first.entry & !bits::FRAME | state & (bits::ACCESSED | bits::DIRTY);
        self.map(base, PageSize::M2, block, flags, frames)?;
        Ok(true)
    }

    /// Maps `base..base + bytes` by a direct segment onto the run of frames from `pfn`; pages
    /// mapped in the range are deleted and their frames released. A base in the upper half of
    /// addresses sets the kernel's segment.
    ///
    /// # Errors
    /// If the range is empty, unaligned, reaches from one half of addresses into the other, or
    /// cuts through a larger page.
    pub fn set_segment(
        &mut self,
        base: u64,
        bytes: u64,
        pfn: u64,
        frames: &mut dyn FrameSource,
    ) -> Result<(), MapError> {
        let bad = |why: &str| MapError::Segment {
            base,
            bytes,
            why: why.to_owned(),
        };
        if bytes == 0 || !base.is_multiple_of(4096) || !bytes.is_multiple_of(4096) {
            return Err(bad(
                "base and length must be multiples of 4096 and not empty",
            ));
        }
        let limit = base
            .checked_add(bytes)
            .ok_or_else(|| bad("it wraps around"))?;
        if ((base ^ (limit - 1)) as i64) < 0 {
            return Err(bad("it reaches from user into kernel addresses"));
        }
        let mut va = base;
        while va < limit {
            let Some(leaf) = self.table.find(va) else {
                va += 4096;
                continue;
            };
            let start = va & !(leaf.size.bytes() - 1);
            if start < base || start + leaf.size.bytes() > limit {
                return Err(bad(
                    "a larger page crosses its border; split that page first",
                ));
            }
            self.unmap(va, true, frames)?;
            va = start + leaf.size.bytes();
        }
        let offset = (pfn << 12).wrapping_sub(base);
        let segment = Segment {
            base,
            limit,
            offset,
        };
        self.set_registers(base, Some(segment));
        self.changed(Inval::Segment);
        Ok(())
    }

    /// Reverts the part of the segment from `new_limit` on to 4 KB paging on the same frames
    /// (section 3.2.2, shrinking); `new_limit` = base disables the segment.
    ///
    /// # Errors
    /// If there is no segment or `new_limit` does not lie in it.
    pub fn shrink_segment(
        &mut self,
        new_limit: u64,
        frames: &mut dyn FrameSource,
    ) -> Result<(), MapError> {
        let Some(old) = self.segment_for(new_limit) else {
            return Err(MapError::Unmapped { va: new_limit });
        };
        if new_limit < old.base || new_limit > old.limit || !new_limit.is_multiple_of(4096) {
            return Err(MapError::Segment {
                base: old.base,
                bytes: old.bytes(),
                why: format!("it cannot shrink to end at {new_limit:#x}"),
            });
        }
        let rest = Segment {
            limit: new_limit,
            ..old
        };
        self.set_registers(old.base, (new_limit > old.base).then_some(rest));
        for va in (new_limit..old.limit).step_by(4096) {
            let pfn = va.wrapping_add(old.offset) >> 12;
            self.map(va, PageSize::K4, pfn, USER_RW, frames)?;
        }
        self.changed(Inval::Segment);
        Ok(())
    }
}

fn mapping(entry: u64, va: u64, size: PageSize) -> Mapping {
    let offset = va & (size.bytes() - 1);
    Mapping {
        pa: (entry & bits::FRAME & !(size.bytes() - 1)) + offset,
        size,
        flags: entry,
    }
}

/// Filter bit `i` is set if any of the 64 pages of group `i` is a hole.
pub fn filter_of(holes: &HoleMap) -> u8 {
    holes
        .iter()
        .enumerate()
        .fold(0, |filter, (i, &group)| filter | u8::from(group != 0) << i)
}
