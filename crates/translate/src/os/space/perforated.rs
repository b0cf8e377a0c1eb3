// SPDX-License-Identifier: MIT OR Apache-2.0
//! Perforated pages of an address space: made, punched, patched and closed.

use super::{Inval, Space};
use crate::error::MapError;
use crate::os::frames::FrameSource;
use crate::table::entry::{PageSize, bits};
use crate::table::holes::{HoleMap, filter_of, is_hole};
use crate::table::page_table::LeafEntry;

impl Space {
    /// Makes the plain 2 MB page at `va` perforated, without holes as yet.
    ///
    /// # Errors
    /// If no 2 MB page maps `va` or no frame is left for the shadow node.
    pub fn perforate(&mut self, va: u64, frames: &mut dyn FrameSource) -> Result<(), MapError> {
        let leaf = self.table.find(va).ok_or(MapError::Unmapped { va })?;
        if leaf.size != PageSize::M2 {
            return Err(MapError::NotPerforated { va });
        }
        self.give_bitmap(leaf, frames)?;
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
        if let Err(error) = self.give_bitmap(leaf, frames) {
            self.table.unmap(va, frames)?;
            return Err(error);
        }
        self.table.set_filter(leaf.place, filter_of(&holes));
        if let Some(map) = self.holes.get_mut(pfn >> 9) {
            *map = holes;
        }
        Ok(())
    }

    /// Gives a 2 MB page what a perforated one has: a bitmap and a shadow node, both or neither.
    fn give_bitmap(
        &mut self,
        leaf: LeafEntry,
        frames: &mut dyn FrameSource,
    ) -> Result<(), MapError> {
        let block = (leaf.entry & bits::FRAME) >> 21;
        let new = self.holes.reserve(block, frames)?;
        let made = self.table.perforate(leaf, frames);
        if made.is_err() && new {
            self.holes.release(block, frames);
        }
        made
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
        let index = va >> 12 & 511;
        let map = self.holes.get_mut(frame);
        let map = map.ok_or(MapError::NotPerforated { va })?;
        let was_hole = is_hole(map, index);
        map[index as usize / 64] |= 1 << (index % 64);
        let filter = filter_of(map);
        self.table.set_filter(leaf.place, filter);
        let entry = replacement.map_or(0, |(pfn, flags)| pfn << 12 | flags | bits::PRESENT);
        self.table.set_hole(leaf.place, va, entry);
        self.changed(Inval::Holes { va });
        Ok((!was_hole).then_some((frame << 9) + index))
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
        let map = self.holes.get_mut(frame);
        let map = map.ok_or(MapError::NotPerforated { va })?;
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
        self.holes.release(frame, frames);
        self.table.make_plain(leaf, frames);
        self.changed(Inval::Page {
            va,
            size: PageSize::M2,
        });
        self.pending.push(Inval::Space);
        Ok(true)
    }

    fn perforated(&self, va: u64) -> Result<LeafEntry, MapError> {
        let leaf = self.table.find(va).ok_or(MapError::Unmapped { va })?;
        if leaf.entry & bits::PERFORATED == 0 {
            return Err(MapError::NotPerforated { va });
        }
        Ok(leaf)
    }
}
