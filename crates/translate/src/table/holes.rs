// SPDX-License-Identifier: MIT OR Apache-2.0
//! The holes of a perforated page: a bitmap of its 512 frames, and the filter over it.

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

#[cfg(test)]
mod tests {
    use super::*;

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
