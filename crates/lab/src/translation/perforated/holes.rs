// SPDX-License-Identifier: MIT OR Apache-2.0
//! States of fragmentation, random or of real memory, and what a policy makes of them.

use ample_kit::random::SplitMix64;
use ample_translate::{FrameUse, HoleMap};
use anyhow::{Result, ensure};

pub(super) const M2: u64 = 2 << 20;

/// How memory is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingPolicy {
    /// 4 KB pages only.
    Small,
    /// 2 MB where a whole block is to be had, 4 KB elsewhere: on the frames of the block that are
    /// no holes, which every policy gets.
    Conventional,
    /// Gap-tolerant sequential mapping: a 2 MB page over 32 sound 64 KB chunks of a 4 MB block.
    Gtsm,
    /// Perforated pages.
    Perforated,
    /// Perforated pages where at least half of the filter's eight groups have no hole, 4 KB pages
    /// elsewhere: a system that promotes only what the filter serves.
    PerforatedWhereClear,
    /// The memory of conventional paging under coalesced TLB entries (CoLT), which take its 4 KB
    /// pages eight at a time.
    Coalesced,
    /// The same memory under redundant mappings (RMM), which take the runs between holes whole.
    Ranges,
    /// 2 MB pages as if nothing were fragmented.
    Ideal,
}

/// A state of fragmentation: holes of each 2 MB block of a range, and whether the pages at holes
/// are used.
#[derive(Clone, Debug)]
pub struct Fragmentation {
    /// Holes by block.
    pub blocks: Vec<HoleMap>,
    /// Holes are mapped elsewhere.
    pub used: bool,
}

impl Fragmentation {
    /// Random fragmentation of `blocks` blocks.
    pub fn random(
        blocks: usize,
        fragmented_share: f64,
        holes: u32,
        clustered: bool,
        used: bool,
        seed: u64,
    ) -> Self {
        let mut rng = SplitMix64::scattered(seed ^ 0x0f4a6);
        let blocks = (0..blocks)
            .map(|_| {
                let mut map = [0u64; 8];
                if rng.unit() >= fragmented_share {
                    return map;
                }
                let holes = u64::from(holes.min(512));
                let mut set = |page: u64| map[page as usize / 64] |= 1 << (page % 64);
                if clustered {
                    let start = rng.below(513 - holes);
                    (start..start + holes).for_each(&mut set);
                } else {
                    let mut pages: Vec<u64> = (0..512).collect();
                    for i in 0..holes as usize {
                        let j = i + rng.below(512 - i as u64) as usize;
                        pages.swap(i, j);
                        set(pages[i]);
                    }
                }
                map
            })
            .collect();
        Fragmentation { blocks, used }
    }

    /// The fragmentation of real memory that programs fill to `filled_share` with the soundest
    /// 2 MB blocks first, movable frames out of the way: `blocks` of those blocks, anywhere.
    ///
    /// # Errors
    /// If that share of memory has too few blocks.
    pub fn of_filled(
        frames: &[FrameUse],
        filled_share: f64,
        blocks: usize,
        seed: u64,
    ) -> Result<Self> {
        let mut maps: Vec<HoleMap> = frames
            .chunks_exact(512)
            .map(|block| {
                let mut map = [0u64; 8];
                for (page, &frame) in block.iter().enumerate() {
                    let missing = frame == FrameUse::Unmovable;
                    map[page / 64] |= u64::from(missing) << (page % 64);
                }
                map
            })
            .collect();
        let filled = (maps.len() as f64 * filled_share) as usize;
        ensure!(
            filled >= blocks,
            "{filled_share} of {} blocks of 2 MB cannot back {blocks}; use a smaller program",
            maps.len()
        );
        maps.sort_by_key(|map| map.iter().map(|g| g.count_ones()).sum::<u32>());
        maps.truncate(filled);
        let mut rng = SplitMix64::scattered(seed ^ 0xf111);
        for at in 0..blocks {
            let other = at + rng.below((filled - at) as u64) as usize;
            maps.swap(at, other);
        }
        maps.truncate(blocks);
        Ok(Fragmentation {
            blocks: maps,
            used: true,
        })
    }

    /// Share of blocks with a hole.
    pub fn holed_share(&self) -> f64 {
        let holed = self.blocks.iter().filter(|map| **map != [0; 8]);
        holed.count() as f64 / self.blocks.len().max(1) as f64
    }

    pub(super) fn is_hole(&self, block: usize, page: usize) -> bool {
        self.blocks[block][page / 64] >> (page % 64) & 1 != 0
    }

    /// Moves an address at an unallocated hole to the next page that is none, so that such pages
    /// are never touched, whatever the mapping.
    pub fn avoid(&self, start: u64, va: u64) -> u64 {
        let block = (va.wrapping_sub(start) / M2) as usize;
        if va < start || block >= self.blocks.len() {
            return va;
        }
        let page = (va >> 12 & 511) as usize;
        let found = (0..512)
            .map(|i| (page + i) % 512)
            .find(|&p| !self.is_hole(block, p));
        found.map_or(va, |p| va & !(M2 - 1) | (p as u64) << 12 | va & 0xfff)
    }
}
