// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every invariant of the memory, checked from scratch in O(frames).

use super::cpus::CpuLists;
use super::lru::Lru;
use super::pools::Pools;
use super::state::{FrameKind, FrameState};
use super::units::{BLOCK_ORDER, BLOCK_PAGES, HIGH, LOW, MAX_ORDER};
use super::zone::Zone;
use ample_pfn::is_movable;

/// Sums over the frames, by what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Census {
    free: [u64; 2],
    pcp: [u64; 2],
    isolated: u64,
    used_heads: u64,
    lru: u64,
    pages: u64,
}

/// Verifies that every frame is in one block, that every block has one holder (a buddy list, a
/// per-CPU list, a pool or an LRU list), that counts equal the sums over lists and that
/// pageblocks agree with their pages.
///
/// # Errors
/// A sentence about the first violation, with the frame.
pub(crate) fn check(zone: &Zone, cpus: &CpuLists, pools: &Pools, lru: &Lru) -> Result<(), String> {
    let census = zone.census()?;
    let frames = zone.frames();
    if census.pages != u64::from(frames.len()) {
        return Err(format!(
            "{} of {} frames are in a block",
            census.pages,
            frames.len()
        ));
    }
    for region in [LOW, HIGH] {
        zone.area(region)
            .check(frames, |pfn| zone.region(pfn) == region)
            .map_err(|why| format!("region {region}: {why}"))?;
        let counted = (census.free[region], census.pcp[region]);
        let kept = (zone.free_pages(region), cpus.pages(region));
        if counted != kept {
            return Err(format!(
                "region {region}: (free, pcp) counted {counted:?}, kept {kept:?}"
            ));
        }
    }
    if census.isolated != zone.isolated_pages {
        return Err(format!("{} isolated pages leaked", census.isolated));
    }
    if !zone.border.is_multiple_of(BLOCK_PAGES) {
        return Err(format!("border {:#x} is inside a block", zone.border));
    }
    cpus.check(frames, |pfn| zone.region(pfn))?;
    let owned = pools.check(frames)?;
    let cached = lru.check(frames)?;
    if cached != census.lru || owned + cached != census.used_heads {
        return Err(format!(
            "{owned} blocks in pools and {cached} on LRU lists, {} used",
            census.used_heads
        ));
    }
    Ok(())
}

impl Zone {
    /// Walks all blocks of frames, checks each pageblock's counts.
    fn census(&self) -> Result<Census, String> {
        let mut census = Census::default();
        for b in 0..self.block_count() {
            let block = self.block(b);
            if block.giga {
                census.pages += u64::from(BLOCK_PAGES);
                let head = self.state(b << BLOCK_ORDER);
                let first = head.order() > MAX_ORDER && head.kind() == FrameKind::Used;
                census.used_heads += u64::from(first);
                continue;
            }
            if self.cover(b).is_some() {
                continue;
            }
            let mut sums = [0u32; 3];
            let mut bad = None;
            self.heads(b, |pfn, state| {
                if bad.is_none() {
                    bad = self.head_error(b, pfn, state);
                }
                let inside = 1u32 << state.order().min(BLOCK_ORDER);
                census.add(&mut sums, self.region(pfn), state, inside);
            });
            if let Some(error) = bad {
                return Err(error);
            }
            let kept = [block.free, block.movable, block.fixed].map(u32::from);
            if kept != sums {
                return Err(format!(
                    "block {b}: (free, movable, fixed) counted {sums:?}, kept {kept:?}"
                ));
            }
        }
        Ok(census)
    }

    fn head_error(&self, b: u32, pfn: u32, state: FrameState) -> Option<String> {
        let order = state.order();
        if state.kind() == FrameKind::Interior {
            return Some(format!("frame {pfn:#x} is in no block"));
        }
        if pfn & ((1 << order) - 1) != 0 {
            return Some(format!(
                "frame {pfn:#x} is not aligned to its order {order}"
            ));
        }
        let free = state.kind() == FrameKind::Free;
        if free && order < MAX_ORDER {
            let buddy = pfn ^ 1 << order;
            let whole = buddy < self.frames.len() && self.region(buddy) == self.region(pfn);
            if whole && self.state(buddy).is_free_of(order) {
                return Some(format!("free buddies {pfn:#x}, {buddy:#x} are not merged"));
            }
        }
        let (listed, mt) = (state.mt(), self.block(b).mt);
        let wrong = free && listed != mt;
        wrong.then(|| format!("frame {pfn:#x} is on the {listed:?} list, its block is {mt:?}"))
    }
}

impl Census {
    /// Adds a block, of which `inside` pages count for its pageblock's `(free, movable, fixed)`.
    fn add(&mut self, sums: &mut [u32; 3], region: usize, state: FrameState, inside: u32) {
        let pages = 1u64 << state.order();
        self.pages += pages;
        match state.kind() {
            FrameKind::Free => {
                self.free[region] += pages;
                sums[0] += inside;
            }
            FrameKind::Pcp => self.pcp[region] += pages,
            FrameKind::Isolated => self.isolated += pages,
            FrameKind::Used => {
                self.used_heads += 1;
                self.lru += u64::from(state.on_lru());
                sums[if is_movable(state.class()) { 1 } else { 2 }] += inside;
            }
            FrameKind::Fixed => sums[2] += inside,
            FrameKind::Interior => {}
        }
    }
}
