// SPDX-License-Identifier: MIT OR Apache-2.0
//! The frames behind a range, and how each policy maps the range on them. Every policy gets the
//! same frames: what differs between two of them is translation alone, not where data lies in
//! caches, in DRAM or in the pages of a host.

use super::holes::{Fragmentation, M2, MappingPolicy};
use crate::stop::checkpoint;
use ample_translate::{FrameSource, HoleMap, PageSize, Space};
use anyhow::Result;

/// Frames of a range: one block for each 2 MB of addresses, and one frame for each hole that is
/// used. They are taken before any page table, in an order that hangs on no policy.
pub(super) struct Layout {
    /// First frame of each block.
    blocks: Vec<u64>,
    /// Frames of the used holes, in order of address.
    holes: Vec<u64>,
}

impl Layout {
    /// Takes the frames.
    fn take(
        frames: &mut dyn FrameSource,
        fragmentation: &Fragmentation,
        policy: MappingPolicy,
    ) -> Result<Self> {
        let mut one = |order: u32| frames.alloc(order).ok_or_else(|| frames.exhausted(order));
        let blocks = fragmentation.blocks.iter().map(|_| one(9));
        let blocks = blocks.collect::<Result<Vec<u64>, _>>()?;
        let count: u32 = match policy {
            // Nothing is fragmented for these two.
            MappingPolicy::Small | MappingPolicy::Ideal => 0,
            _ if !fragmentation.used => 0,
            _ => fragmentation
                .blocks
                .iter()
                .flatten()
                .map(|g| g.count_ones())
                .sum(),
        };
        let holes = (0..count)
            .map(|_| one(0))
            .collect::<Result<Vec<u64>, _>>()?;
        Ok(Layout { blocks, holes })
    }
}

/// How one block of addresses is mapped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// One 2 MB page.
    Large,
    /// One 2 MB page with holes.
    Perforated,
    /// 4 KB pages on the frames of the block, holes elsewhere.
    Small,
    /// 4 KB pages on the frames of the block, holes too.
    SmallWhole,
}

/// Whether GTSM has a 2 MB page for the even block of a pair: 32 of the 64 chunks of 64 KB sound.
fn gtsm_pair(fragmentation: &Fragmentation, even: usize) -> bool {
    let chunks = |map: &HoleMap| -> u32 {
        map.iter()
            .map(|g| (0..4).filter(|c| g >> (16 * c) & 0xffff == 0).count() as u32)
            .sum()
    };
    let odd = fragmentation.blocks.get(even + 1);
    chunks(&fragmentation.blocks[even]) + odd.map_or(0, chunks) >= 32
}

/// Groups of 64 pages of a block without a hole.
fn clear_groups(fragmentation: &Fragmentation, block: usize) -> usize {
    let groups = fragmentation.blocks[block].iter();
    groups.filter(|&&group| group == 0).count()
}

/// What a policy makes of a block.
fn shape(fragmentation: &Fragmentation, block: usize, policy: MappingPolicy) -> Shape {
    let sound = fragmentation.blocks[block] == [0; 8];
    match policy {
        MappingPolicy::Small => Shape::SmallWhole,
        MappingPolicy::Ideal => Shape::Large,
        _ if sound => Shape::Large,
        MappingPolicy::Perforated => Shape::Perforated,
        MappingPolicy::PerforatedWhereClear if clear_groups(fragmentation, block) >= 4 => {
            Shape::Perforated
        }
        MappingPolicy::Gtsm if block.is_multiple_of(2) && gtsm_pair(fragmentation, block) => {
            Shape::Large
        }
        MappingPolicy::Conventional
        | MappingPolicy::Gtsm
        | MappingPolicy::PerforatedWhereClear
        | MappingPolicy::Coalesced
        | MappingPolicy::Ranges => Shape::Small,
    }
}

/// Maps a range under a policy, with the given rights.
pub(crate) fn map_range(
    space: &mut Space,
    frames: &mut dyn FrameSource,
    start: u64,
    fragmentation: &Fragmentation,
    policy: MappingPolicy,
    rights: u64,
) -> Result<()> {
    let layout = Layout::take(frames, fragmentation, policy)?;
    let mut others = layout.holes.iter().copied();
    for (block, &first) in layout.blocks.iter().enumerate() {
        checkpoint();
        let va = start + block as u64 * M2;
        let map = fragmentation.blocks[block];
        let shape = shape(fragmentation, block, policy);
        match shape {
            Shape::Large => space.map(va, PageSize::M2, first, rights, frames)?,
            Shape::Perforated => space.map_perforated(va, first, map, rights, frames)?,
            Shape::Small | Shape::SmallWhole => {}
        }
        for page in 0..512 {
            let va = va + (page << 12);
            let hole = shape != Shape::SmallWhole && fragmentation.is_hole(block, page as usize);
            // The frame of a hole is taken whatever is made of it.
            let other = if hole { others.next() } else { None };
            match (shape, hole, other) {
                (Shape::Perforated, true, Some(pfn)) => {
                    space.punch(va, Some((pfn, rights)))?;
                }
                (Shape::Small, true, Some(pfn)) => {
                    space.map(va, PageSize::K4, pfn, rights, frames)?;
                }
                (Shape::Small | Shape::SmallWhole, false, _) => {
                    space.map(va, PageSize::K4, first + page, rights, frames)?;
                }
                _ => {}
            }
        }
    }
    space.pending.clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ample_translate::{IdealFrames, USER_RW};

    const BASE: u64 = 1 << 40;

    fn mapped(fragmentation: &Fragmentation, policy: MappingPolicy) -> Space {
        let mut frames = IdealFrames::new(1 << 30);
        let mut space = Space::new(1, 4, &mut frames).unwrap();
        map_range(
            &mut space,
            &mut frames,
            BASE,
            fragmentation,
            policy,
            USER_RW,
        )
        .unwrap();
        space.assert_sound();
        space
    }

    /// What is compared must touch the same frames: a program's hot pages otherwise lie in other
    /// cache sets, DRAM rows and pages of the host, which was worth up to 8 % on graph500.
    #[test]
    fn every_policy_has_the_same_frame_for_every_page() {
        for (clustered, used) in [(true, true), (false, true), (true, false), (false, false)] {
            let state = Fragmentation::random(24, 0.6, 64, clustered, used, 7);
            let conventional = mapped(&state, MappingPolicy::Conventional);
            let perforated = mapped(&state, MappingPolicy::Perforated);
            let ideal = mapped(&state, MappingPolicy::Ideal);
            let others = [
                MappingPolicy::PerforatedWhereClear,
                MappingPolicy::Coalesced,
                MappingPolicy::Ranges,
            ]
            .map(|policy| mapped(&state, policy));
            let small = mapped(&state, MappingPolicy::Small);
            let gtsm = mapped(&state, MappingPolicy::Gtsm);
            let frame = |space: &Space, va| space.lookup(va).map(|page| page.pa);
            for page in 0..24 * 512 {
                let va = BASE + (page << 12);
                let at = frame(&conventional, va);
                assert_eq!(frame(&perforated, va), at, "page {page}");
                assert!(others.iter().all(|other| frame(other, va) == at));
                let whole = frame(&ideal, va);
                assert_eq!(frame(&small, va), whole, "page {page}");
                let hole = state.is_hole(page as usize / 512, page as usize % 512);
                assert_eq!(at == whole, !hole, "page {page}");
                assert_eq!(at.is_none(), hole && !used, "page {page}");
                // Its 2 MB pages take the frames of holes too; that is what they are for.
                let packed = frame(&gtsm, va);
                assert!(packed == at || packed == whole, "page {page}");
            }
        }
    }
}
