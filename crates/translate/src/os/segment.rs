// SPDX-License-Identifier: MIT OR Apache-2.0
//! A direct segment.

use serde::Serialize;

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
