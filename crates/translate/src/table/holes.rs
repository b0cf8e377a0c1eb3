// SPDX-License-Identifier: MIT OR Apache-2.0
//! The holes of a perforated page: a bitmap of its 512 frames, the filter over it, and where in
//! memory the bitmaps lie.

use crate::error::MapError;
use crate::os::frames::FrameSource;
use std::collections::HashMap;

/// Frames of one 2 MB block that are holes, one bit each, the lowest frame in the lowest bit of
/// the first word.
pub type HoleMap = [u64; 8];

/// Whether frame `index` (0 to 511) of a block is a hole.
#[inline]
pub fn is_hole(holes: &HoleMap, index: u64) -> bool {
    holes[index as usize / 64] >> (index % 64) & 1 != 0
}

/// Filter bit `i` is set if any of the 64 pages of group `i` is a hole.
pub fn filter_of(holes: &HoleMap) -> u8 {
    holes
        .iter()
        .enumerate()
        .fold(0, |filter, (i, &group)| filter | u8::from(group != 0) << i)
}

/// Blocks whose bitmaps share a frame: 64 of 64 bytes each, for 128 MB of memory.
const BLOCKS_A_PAGE: u64 = 64;

/// The hole bitmaps of one address space's perforated blocks. They lie in frames of its memory, as
/// page-table nodes do, so that no other structure has the same address.
#[derive(Clone, Debug, Default)]
pub(crate) struct HoleBitmaps {
    /// By 2 MB frame number.
    maps: HashMap<u64, HoleMap>,
    /// Frame of the bitmaps of 64 blocks and how many of them are in use, by the number of the
    /// first block over 64.
    pages: HashMap<u64, (u64, u16)>,
}

impl HoleBitmaps {
    /// Gives a block a bitmap without holes, unless it has one already; true if it had none.
    ///
    /// # Errors
    /// If it needs a frame and none is left.
    pub(crate) fn reserve(
        &mut self,
        block: u64,
        frames: &mut dyn FrameSource,
    ) -> Result<bool, MapError> {
        if self.maps.contains_key(&block) {
            return Ok(false);
        }
        let page = block / BLOCKS_A_PAGE;
        if let Some((_, used)) = self.pages.get_mut(&page) {
            *used += 1;
        } else {
            let frame = frames.alloc_table().ok_or_else(|| frames.exhausted(0))?;
            self.pages.insert(page, (frame, 1));
        }
        self.maps.insert(block, [0; 8]);
        Ok(true)
    }

    /// Takes the bitmap of a block away; its frame is freed with the last one in it.
    pub(crate) fn release(&mut self, block: u64, frames: &mut dyn FrameSource) -> Option<HoleMap> {
        let map = self.maps.remove(&block)?;
        let page = block / BLOCKS_A_PAGE;
        if let Some((frame, used)) = self.pages.get_mut(&page) {
            *used -= 1;
            if *used == 0 {
                frames.free(*frame, 0);
                self.pages.remove(&page);
            }
        }
        Some(map)
    }

    /// The bitmap of a block; one without holes if it has none.
    #[inline]
    pub(crate) fn get(&self, block: u64) -> HoleMap {
        self.maps.get(&block).copied().unwrap_or_default()
    }

    /// The bitmap of a block, to be changed.
    pub(crate) fn get_mut(&mut self, block: u64) -> Option<&mut HoleMap> {
        self.maps.get_mut(&block)
    }

    /// Physical address of the 8 bytes that hold frame `index` of a block; None if the block has
    /// no bitmap.
    #[inline]
    pub(crate) fn group_pa(&self, block: u64, index: u64) -> Option<u64> {
        let (frame, _) = self.pages.get(&(block / BLOCKS_A_PAGE))?;
        Some((frame << 12) + block % BLOCKS_A_PAGE * 64 + index / 64 * 8)
    }

    /// Frames that hold bitmaps.
    pub(crate) fn frames(&self) -> impl Iterator<Item = u64> {
        self.pages.values().map(|&(frame, _)| frame)
    }

    /// Bitmaps in use.
    pub(crate) fn len(&self) -> usize {
        debug_assert_eq!(
            self.maps.len(),
            self.pages
                .values()
                .map(|&(_, used)| usize::from(used))
                .sum()
        );
        self.maps.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::frames::IdealFrames;

    #[test]
    fn bitmaps_of_128_mb_share_a_frame_until_the_last_is_gone() {
        let mut memory = IdealFrames::new(64 << 20);
        let mut bitmaps = HoleBitmaps::default();
        let free = memory.free_frames();
        let mut lines = std::collections::HashSet::new();
        for block in (0..200).rev() {
            assert!(bitmaps.reserve(block, &mut memory).unwrap());
            assert!(!bitmaps.reserve(block, &mut memory).unwrap());
        }
        for block in 0..200 {
            let pa = bitmaps.group_pa(block, 0).unwrap();
            assert_eq!(pa % 64, 0);
            assert!(lines.insert(pa), "the line of block {block} twice");
            assert_eq!(bitmaps.group_pa(block, 511), Some(pa + 56));
        }
        assert_eq!((bitmaps.frames().count(), bitmaps.len()), (4, 200));
        for block in 0..200 {
            assert_eq!(bitmaps.release(block, &mut memory), Some([0; 8]));
            assert_eq!(bitmaps.release(block, &mut memory), None);
        }
        assert_eq!(bitmaps.frames().count(), 0);
        // A chunk of frames is set aside for tables; the four of bitmaps are back.
        assert_eq!(memory.free_frames() + 1024 - 4, free);
    }

    #[test]
    fn the_filter_has_a_bit_for_each_group_with_a_hole() {
        for index in 0..512u64 {
            let mut holes = [0; 8];
            holes[index as usize / 64] = 1 << (index % 64);
            assert_eq!(filter_of(&holes), 1 << (index / 64));
            assert!((0..512).all(|other| is_hole(&holes, other) == (other == index)));
        }
        assert_eq!(filter_of(&[0; 8]), 0);
    }
}
