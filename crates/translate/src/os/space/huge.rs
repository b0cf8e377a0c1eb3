// SPDX-License-Identifier: MIT OR Apache-2.0
//! 2 MB pages made of 4 KB pages, and split into them.

use super::Space;
use crate::error::MapError;
use crate::os::frames::FrameSource;
use crate::table::entry::{PageSize, bits};

impl Space {
    /// Splits the plain 2 MB page at `va` into 512 pages of 4 KB on the same frames.
    ///
    /// # Errors
    /// If no plain 2 MB page maps `va`, or no frame is left for the node of the small pages; the
    /// page then stays as it is.
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
            let mapped = self.map(base + i * 4096, PageSize::K4, pfn + i, flags, frames);
            if let Err(error) = mapped {
                // Only the first page needs a frame; the nodes above it are there again.
                debug_assert_eq!(i, 0, "{error}");
                self.map(base, PageSize::M2, pfn, flags, frames)?;
                return Err(error);
            }
        }
        debug_assert!(self.table.find(va).is_some_and(|l| l.size == PageSize::K4));
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
        debug_assert!(self.table.find(va).is_some_and(|l| l.size == PageSize::M2));
        Ok(true)
    }
}
