// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the pages of the measured memory lie in the memory of this machine, for the model to put
//! its pages alike.
//!
//! A guest that has run for a while gives 4 KB pages out of many places, a few at a time. Its host
//! translates each of them: pages that lie in thousands of 2 MB blocks need as many entries of the
//! host's page directories, which no page-walk cache holds.

use crate::setup::{HostPages, host_of};
use ample_kit::random::SplitMix64;
use ample_machine::MachineConfig;
use ample_translate::{Engine, FrameSource, IdealFrames, PageSize, schemes};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// How scattered the pages of a footprint are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameSpread {
    pub footprint_bytes: u64,
    /// Aligned groups of eight frames with pages of it: the host's entries of a group share a line.
    pub groups: u64,
    /// 2 MB blocks with pages of it.
    pub blocks: u64,
}

/// The frames of a range of memory, as far as the model needs them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scatter {
    /// 2 MB blocks up to the highest frame.
    pub span_blocks: u64,
    /// By footprint, each the first pages of the next.
    pub spreads: Vec<FrameSpread>,
}

impl Scatter {
    /// What the frames of a range come to at these footprints.
    pub(super) fn of(frames: &[u64], sizes: &[u64]) -> Scatter {
        let spread = |&footprint_bytes: &u64| {
            let frames = &frames[..(footprint_bytes / 4096) as usize];
            let distinct = |shift: u32| {
                let all: HashSet<u64> = frames.iter().map(|frame| frame >> shift).collect();
                all.len() as u64
            };
            FrameSpread {
                footprint_bytes,
                groups: distinct(3),
                blocks: distinct(9),
            }
        };
        Scatter {
            span_blocks: frames.iter().max().map_or(1, |frame| (frame >> 9) + 1),
            spreads: sizes.iter().map(spread).collect(),
        }
    }

    /// Frames of which each footprint has as many groups and blocks, or hardly more.
    pub(super) fn frames(&self, bytes: u64, seed: u64) -> Vec<u64> {
        let blocks = shuffled(self.span_blocks, seed);
        let mut frames: Vec<u64> = Vec::with_capacity((bytes / 4096) as usize);
        let (mut groups_before, mut blocks_before, mut first_block) = (0, 0, 0);
        for spread in &self.spreads {
            let pages = spread.footprint_bytes.min(bytes) / 4096;
            let new = pages.saturating_sub(frames.len() as u64);
            if new == 0 {
                continue;
            }
            let groups = spread.groups.saturating_sub(groups_before);
            let groups = groups.clamp(new.div_ceil(8), new);
            let fresh = spread.blocks.saturating_sub(blocks_before);
            let fresh = fresh.clamp(groups.div_ceil(64), groups);
            (groups_before, blocks_before) = (spread.groups, spread.blocks);
            for page in 0..new {
                let group = page * groups / new;
                let at = first_block + group % fresh;
                // Beyond the span, where there are fewer blocks than are asked for.
                let beyond = at / self.span_blocks * self.span_blocks;
                let block = blocks[(at % self.span_blocks) as usize] + beyond;
                // 37 is odd: the groups of a block differ.
                let place = (group / fresh * 37 + block) % 64;
                let inside = page - (group * new).div_ceil(groups);
                frames.push(block << 9 | place << 3 | inside);
            }
            first_block += fresh;
        }
        frames
    }
}

/// The numbers below `count` in no order.
fn shuffled(count: u64, seed: u64) -> Vec<u64> {
    let mut random = SplitMix64::scattered(seed);
    let mut all: Vec<u64> = (0..count.max(1)).collect();
    for at in (1..all.len()).rev() {
        all.swap(at, random.below(at as u64 + 1) as usize);
    }
    all
}

/// The first frames of the guest's page tables and of what else it maps: beyond any memory, in
/// blocks that lie as its pages' do.
const TABLES: u64 = 1 << 28;
const REST: u64 = 1 << 29;
/// Frames of what else it maps, and tables beside one for each 512 pages.
const REST_FRAMES: u64 = 1024;
const MORE_TABLES: u64 = 256;

/// A guest's frames: those of the program as they are listed.
struct Listed {
    /// Blocks of the program's page size.
    program: Vec<u64>,
    given: usize,
    order: u32,
    tables: Tables,
    rest: IdealFrames,
}

/// Frames of page tables, one after the other in blocks that lie apart.
#[derive(Clone, Copy)]
struct Tables {
    blocks: u64,
    given: u64,
}

impl Iterator for Tables {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let (block, round) = (self.given % self.blocks, self.given / self.blocks);
        // 37 and 101 are odd: neither neighbours nor rounds share a frame, or a line of entries.
        let frame = (block << 9) + (block * 37 + round * 101) % 512;
        self.given += 1;
        Some(TABLES + frame)
    }
}

impl FrameSource for Listed {
    fn alloc(&mut self, order: u32) -> Option<u64> {
        if order == self.order
            && let Some(&frame) = self.program.get(self.given)
        {
            self.given += 1;
            return Some(frame);
        }
        self.rest.alloc(order).map(|frame| REST + frame)
    }

    fn alloc_table(&mut self) -> Option<u64> {
        self.tables.next()
    }

    fn free(&mut self, _pfn: u64, _order: u32) {
        debug_assert!(false, "nothing is unmapped");
    }

    fn free_frames(&self) -> u64 {
        self.rest.free_frames()
    }

    fn alloc_run(&mut self, _frames: u64) -> Option<u64> {
        None
    }

    fn longest_run(&self) -> u64 {
        0
    }
}

/// Translation hardware whose guest has the program's memory of `bytes` bytes in pages of one size,
/// placed as `scatter` says (single frames of one GB in no order where it says nothing), behind a
/// host with its pages where those lie.
///
/// # Errors
/// If the hardware cannot be built.
pub(super) fn guest(
    machine: &MachineConfig,
    (bytes, size): (u64, PageSize),
    scatter: Option<&Scatter>,
    host: &HostPages,
    seed: u64,
) -> Result<Engine> {
    let bytes = bytes.next_multiple_of(size.bytes());
    let program: Vec<u64> = match (size, scatter) {
        (PageSize::K4, Some(scatter)) => scatter.frames(bytes, seed),
        (PageSize::K4, None) => {
            let mut frames = IdealFrames::new(4 * bytes + (4 << 30)).scattered();
            let all = (0..bytes / 4096).map(|_| frames.alloc(0));
            all.collect::<Option<_>>().context("frames of a guest")?
        }
        _ => (0..bytes / size.bytes())
            .map(|at| at << size.order())
            .collect(),
    };
    let table_count = bytes / (512 * 4096);
    let span_blocks = scatter.map_or(1, |scatter| scatter.span_blocks);
    guest_of(machine, (program, size), (table_count, span_blocks), host)
}

/// As [`guest`], whose program has these blocks of frames in the order in which it maps them, and
/// so many page tables in as many 2 MB blocks as there are, or in enough for them.
///
/// # Errors
/// If the hardware cannot be built.
pub(super) fn guest_of(
    machine: &MachineConfig,
    (program, size): (Vec<u64>, PageSize),
    (table_count, span_blocks): (u64, u64),
    host: &HostPages,
) -> Result<Engine> {
    let table_count = table_count + MORE_TABLES;
    let tables = Tables {
        blocks: span_blocks.max(table_count.div_ceil(128)),
        given: 0,
    };
    let listed = Listed {
        program: program.clone(),
        given: 0,
        order: size.order(),
        tables,
        rest: IdealFrames::new(REST_FRAMES << 12),
    };
    let used = tables
        .take(table_count as usize)
        .chain(REST..REST + REST_FRAMES)
        .map(|frame| (frame, 0))
        .chain(program.iter().map(|&frame| (frame, size.order())));
    let units = u64::from(machine.core.width);
    let scheme = schemes::paging();
    let mut engine = Engine::new(&machine.mmu, scheme, Box::new(listed), units)?;
    // The host's own 4 KB frames lie in no order either: of pages in order all sets of a cache get
    // as many lines, and a footprint of the size of the cache would fit.
    let frames = IdealFrames::new(1 << 50).scattered();
    engine.host = Some(host_of(machine, host, frames, used)?);
    Ok(engine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_frames_are_as_scattered_as_those_they_stand_for() {
        // Runs of two to sixteen pages in blocks all over 8 GB, and single ones.
        let mut random = SplitMix64::new(5);
        let mut real: Vec<u64> = Vec::new();
        let mut seen = HashSet::new();
        while real.len() < 1 << 16 {
            let (first, run) = (random.below(1 << 21) & !1, 1 + random.below(16));
            real.extend((first..first + run).filter(|&frame| seen.insert(frame)));
        }
        let sizes: Vec<u64> = (12..=28).map(|shift| 1 << shift).collect();
        let scatter = Scatter::of(&real, &sizes);
        for shift in [12, 16, 22, 25, 28] {
            let made = scatter.frames(1 << shift, 7);
            assert_eq!(made.len(), 1 << (shift - 12));
            let distinct: HashSet<&u64> = made.iter().collect();
            assert_eq!(distinct.len(), made.len(), "a frame twice, {shift}");
            let again = Scatter::of(&made, &sizes[..=shift as usize - 12]);
            for (made, real) in again.spreads.iter().zip(&scatter.spreads) {
                // Each of the footprints has a group and a block of its own at least.
                let near = |made: u64, real: u64| made >= real && made <= real + real / 10 + 16;
                assert!(near(made.groups, real.groups), "{made:?} {real:?}");
                assert!(near(made.blocks, real.blocks), "{made:?} {real:?}");
            }
        }
    }

    #[test]
    fn frames_of_tables_differ() {
        let tables = Tables {
            blocks: 100,
            given: 0,
        };
        let all: Vec<u64> = tables.take(40_000).collect();
        let distinct: HashSet<&u64> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }
}
