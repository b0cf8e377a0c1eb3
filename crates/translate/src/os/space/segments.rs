// SPDX-License-Identifier: MIT OR Apache-2.0
//! The segment registers of an address space: set and shrunk.

use super::{Inval, Space, USER_RW};
use crate::error::MapError;
use crate::os::frames::FrameSource;
use crate::os::segment::Segment;
use crate::table::entry::PageSize;

impl Space {
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
        // Looked at before anything is unmapped, so that a refusal changes nothing.
        for border in [base, limit - 1] {
            let page = self.table.find(border).map(|leaf| leaf.size.bytes());
            let crosses = |bytes: u64| {
                let start = border & !(bytes - 1);
                start < base || start + bytes > limit
            };
            if page.is_some_and(crosses) {
                return Err(bad(
                    "a larger page crosses its border; split that page first",
                ));
            }
        }
        let mut va = base;
        while va < limit {
            let Some(leaf) = self.table.find(va) else {
                va += 4096;
                continue;
            };
            let start = va & !(leaf.size.bytes() - 1);
            debug_assert!(start >= base && start + leaf.size.bytes() <= limit);
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
