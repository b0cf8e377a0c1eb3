// SPDX-License-Identifier: MIT OR Apache-2.0
//! An address space whose page table mirrors a guest's.

use super::{GLOBAL_ASID, Inval, Space};
use crate::error::MapError;
use crate::table::entry::PageSize;
use crate::table::page_table::{Dropped, Mirrored, PageTable};

impl Space {
    /// An empty address space whose page table has `levels` levels and its root in `root_frame`,
    /// as a guest has it. `asid`: 12 bits, [`GLOBAL_ASID`] for the half that all spaces share.
    pub fn mirrored(asid: u16, levels: u8, root_frame: u64) -> Self {
        assert!(
            asid <= GLOBAL_ASID,
            "address-space identifiers have 12 bits"
        );
        let mut space = Space::with_table(asid, PageTable::rooted(levels, root_frame));
        space.mirrors = true;
        space
    }

    /// Takes over what a guest's page tables say of `va`, as [`PageTable::mirror`] does. Each page
    /// that is no longer what it was leaves an invalidation with its old size; a path that says
    /// nothing new, or no more than accessed and dirty bits, leaves none.
    ///
    /// # Errors
    /// As [`PageTable::mirror`]; [`MapError::Occupied`] if a segment maps the page.
    pub fn mirror(&mut self, va: u64, path: &[(u64, u64)]) -> Result<Mirrored, MapError> {
        let mut dropped = Dropped::default();
        let found = self.mirror_into(va, path, &mut dropped)?;
        self.leave(&dropped);
        Ok(found)
    }

    /// As [`mirror`](Self::mirror), but `dropped` has what is to be forgotten.
    pub(crate) fn mirror_into(
        &mut self,
        va: u64,
        path: &[(u64, u64)],
        dropped: &mut Dropped,
    ) -> Result<Mirrored, MapError> {
        let up = usize::from(self.table.levels()).saturating_sub(path.len());
        let bytes = PageSize::ALL.get(up).map_or(0, |size| size.bytes());
        if bytes > 0 && self.meets_segment(va & !(bytes - 1), bytes) {
            return Err(MapError::Occupied { va });
        }
        let found = self.table.mirror_into(va, path, dropped)?;
        self.generation += u64::from(found.is_change());
        Ok(found)
    }

    /// Takes over the seven other entries of the 64-byte line that holds the leaf of `va`, as
    /// [`PageTable::mirror_line`] does; leaves invalidations as [`mirror`](Self::mirror) does.
    ///
    /// # Errors
    /// If nothing is mapped at `va`.
    pub fn mirror_line(&mut self, va: u64, entries: &[u64; 8]) -> Result<bool, MapError> {
        let mut dropped = Dropped::default();
        let changed = self.mirror_line_into(va, entries, &mut dropped)?;
        self.leave(&dropped);
        Ok(changed)
    }

    /// As [`mirror_line`](Self::mirror_line), but `dropped` has what is to be forgotten.
    pub(crate) fn mirror_line_into(
        &mut self,
        va: u64,
        entries: &[u64; 8],
        dropped: &mut Dropped,
    ) -> Result<bool, MapError> {
        let changed = self.table.mirror_line_into(va, entries, dropped)?;
        self.generation += u64::from(changed);
        Ok(changed)
    }

    /// Forgets the page at `va`, whatever its size, and leaves its invalidation; false if it was
    /// not there.
    pub fn forget(&mut self, va: u64) -> bool {
        let Some(leaf) = self.table.find(va) else {
            return false;
        };
        let gone = self.table.forget(va);
        if gone {
            let size = leaf.size;
            self.changed(Inval::Page { va, size });
        }
        gone
    }

    fn leave(&mut self, dropped: &Dropped) {
        if dropped.more {
            self.pending.push(Inval::Space);
            return;
        }
        let pages = dropped.leaves.iter();
        self.pending
            .extend(pages.map(|&(va, size)| Inval::Page { va, size }));
    }
}
