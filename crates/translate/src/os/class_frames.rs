// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory as a snapshot shows it, with an index of its 2 MB blocks: an allocation costs the
//! logarithm of the number of blocks, whatever state memory is in.

use super::frames::{FrameSource, FrameUse, HoledBlock};
use std::collections::BTreeSet;

/// Frames of one 2 MB block.
const BLOCK: usize = 512;

/// One byte a frame, and the 2 MB blocks by how many of their frames cannot be had.
#[derive(Clone, Debug)]
pub struct ClassFrames {
    frames: Vec<FrameUse>,
    /// With compaction, movable frames count as obtainable.
    compaction: bool,
    free: u64,
    /// Where the next search for a single frame starts.
    hint: usize,
    /// Movable frames that had to be emptied so far.
    moved: u64,
    /// Unobtainable frames of each block; frames that a last, cut-off block lacks count.
    missing: Vec<u16>,
    /// All blocks as (unobtainable frames, block), the soundest first.
    soundest: BTreeSet<(u16, u32)>,
}

impl ClassFrames {
    /// Memory with the given use of each frame; `compaction`: blocks may be made out of movable
    /// frames too, at the price counted by [`moved_frames`](Self::moved_frames).
    pub fn new(frames: Vec<FrameUse>, compaction: bool) -> Self {
        let mut memory = ClassFrames {
            frames,
            compaction,
            free: 0,
            hint: 0,
            moved: 0,
            missing: Vec::new(),
            soundest: BTreeSet::new(),
        };
        for block in memory.frames.chunks(BLOCK) {
            let usable = block.iter().filter(|&&f| memory.usable(f)).count();
            memory.free += usable as u64;
            memory.missing.push((BLOCK - usable) as u16);
        }
        let blocks = memory.missing.iter().enumerate();
        memory.soundest = blocks.map(|(b, &missing)| (missing, b as u32)).collect();
        memory
    }

    /// Frames whose content had to move away for an allocation.
    pub fn moved_frames(&self) -> u64 {
        self.moved
    }

    fn usable(&self, frame: FrameUse) -> bool {
        frame == FrameUse::Free || self.compaction && frame == FrameUse::Movable
    }

    fn recount(&mut self, block: usize, missing: u16) {
        let old = std::mem::replace(&mut self.missing[block], missing);
        if old != missing {
            self.soundest.remove(&(old, block as u32));
            self.soundest.insert((missing, block as u32));
        }
    }

    /// Takes obtainable frames, all of them in one block.
    fn take(&mut self, pfns: std::ops::Range<usize>) {
        let (block, count) = (pfns.start / BLOCK, pfns.len());
        for pfn in pfns {
            self.moved += u64::from(self.frames[pfn] == FrameUse::Movable);
            self.frames[pfn] = FrameUse::Unmovable;
        }
        self.free -= count as u64;
        self.recount(block, self.missing[block] + count as u16);
    }

    /// Takes obtainable frames across blocks.
    fn take_run(&mut self, pfns: std::ops::Range<usize>) {
        let mut at = pfns.start;
        while at < pfns.end {
            let next = ((at / BLOCK + 1) * BLOCK).min(pfns.end);
            self.take(at..next);
            at = next;
        }
    }

    /// The first obtainable frame from `from` on.
    fn single_from(&self, from: usize) -> Option<usize> {
        let mut at = from;
        while at < self.frames.len() {
            if self.missing[at / BLOCK] as usize == BLOCK {
                at = (at / BLOCK + 1) * BLOCK;
            } else if self.usable(self.frames[at]) {
                return Some(at);
            } else {
                at += 1;
            }
        }
        None
    }

    /// The first aligned run of `size` frames, less than a block, in the lowest block that can
    /// have one.
    fn small_block(&self, size: usize) -> Option<usize> {
        let can = |&block: &usize| self.missing[block] as usize + size <= BLOCK;
        (0..self.missing.len()).filter(can).find_map(|block| {
            let end = self.frames.len().min((block + 1) * BLOCK);
            (block * BLOCK..end).step_by(size).find(|&start| {
                let run = self.frames.get(start..start + size);
                run.is_some_and(|run| run.iter().all(|&f| self.usable(f)))
            })
        })
    }

    /// The first aligned run of `size` frames, more than a block.
    fn large_block(&self, size: usize) -> Option<usize> {
        let runs = self.missing.chunks_exact(size / BLOCK);
        let sound = |blocks: &[u16]| blocks.iter().all(|&missing| missing == 0);
        runs.enumerate()
            .find_map(|(at, blocks)| sound(blocks).then_some(at * size))
    }

    fn runs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            at = self.single_from(at)?;
            let start = at;
            while at < self.frames.len() && self.usable(self.frames[at]) {
                at += 1;
            }
            Some((start, at - start))
        })
    }
}

impl FrameSource for ClassFrames {
    fn alloc(&mut self, order: u32) -> Option<u64> {
        let size = 1usize << order;
        if order == 0 {
            // Lowest first from the hint on, then from the start.
            let hint = self.hint;
            let at = self
                .single_from(hint)
                .or_else(|| self.single_from(0).filter(|&at| at < hint))?;
            self.hint = at + 1;
            self.take(at..at + 1);
            return Some(at as u64);
        }
        let start = match size.cmp(&BLOCK) {
            std::cmp::Ordering::Less => self.small_block(size),
            std::cmp::Ordering::Equal => {
                let &(missing, block) = self.soundest.first()?;
                (missing == 0).then_some(block as usize * BLOCK)
            }
            std::cmp::Ordering::Greater => self.large_block(size),
        }?;
        self.take_run(start..start + size);
        Some(start as u64)
    }

    fn free(&mut self, pfn: u64, order: u32) {
        let (first, size) = (pfn as usize, 1usize << order);
        let mut at = first;
        while at < first + size {
            let next = ((at / BLOCK + 1) * BLOCK).min(first + size);
            self.frames[at..next].fill(FrameUse::Free);
            self.recount(at / BLOCK, self.missing[at / BLOCK] - (next - at) as u16);
            at = next;
        }
        self.free += size as u64;
        self.hint = self.hint.min(first);
    }

    fn free_frames(&self) -> u64 {
        self.free
    }

    fn alloc_run(&mut self, frames: u64) -> Option<u64> {
        let (start, _) = self.runs().find(|&(_, length)| length as u64 >= frames)?;
        self.take_run(start..start + frames as usize);
        Some(start as u64)
    }

    fn longest_run(&self) -> u64 {
        let longest = self.runs().map(|(_, length)| length as u64).max();
        longest.unwrap_or(0)
    }

    fn alloc_holed(&mut self, max_holes: u32) -> Option<HoledBlock> {
        let &(missing, best) = self.soundest.first()?;
        if u32::from(missing) > max_holes {
            return None;
        }
        let start = best as usize * BLOCK;
        let mut holes = [0u64; 8];
        for offset in 0..BLOCK {
            let frame = self.frames.get(start + offset);
            if frame.is_some_and(|&f| self.usable(f)) {
                self.take(start + offset..start + offset + 1);
            } else {
                holes[offset / 64] |= 1 << (offset % 64);
            }
        }
        Some(HoledBlock {
            pfn: start as u64,
            holes,
        })
    }

    fn alloc_at(&mut self, pfn: u64) -> bool {
        let at = pfn as usize;
        let ok = self.frames.get(at).is_some_and(|&f| self.usable(f));
        if ok {
            self.take(at..at + 1);
        }
        ok
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_snapshot_gives_holed_blocks_and_runs() {
        let mut frames = vec![FrameUse::Free; 2048];
        frames[5] = FrameUse::Unmovable;
        frames[700] = FrameUse::Movable;
        frames[1024..2048].fill(FrameUse::Unmovable);
        let mut memory = ClassFrames::new(frames.clone(), false);
        assert!(memory.alloc(9).is_none());
        assert_eq!(memory.longest_run(), 694);
        let block = memory.alloc_holed(16).unwrap();
        assert_eq!((block.pfn, block.holes[0]), (0, 1 << 5));
        let mut memory = ClassFrames::new(frames, true);
        assert_eq!(memory.alloc(9), Some(512));
        assert_eq!(memory.moved_frames(), 1);
        assert!(memory.alloc_holed(0).is_none());
    }

    #[test]
    fn a_cut_off_last_block_gives_no_large_page() {
        let mut memory = ClassFrames::new(vec![FrameUse::Free; 700], false);
        assert_eq!(memory.alloc(9), Some(0));
        assert_eq!(memory.alloc(9), None);
        assert_eq!(memory.alloc(7), Some(512));
        assert_eq!(memory.alloc(6), None);
        assert_eq!(memory.alloc(5), Some(640));
        assert_eq!(memory.longest_run(), 28);
        assert_eq!(memory.alloc_holed(511).unwrap().pfn, 512);
    }

    /// What an allocation must answer, by looking at every frame.
    fn expected(frames: &[FrameUse], compaction: bool, order: u32) -> Option<usize> {
        let usable = |f: &FrameUse| *f == FrameUse::Free || compaction && *f == FrameUse::Movable;
        let size = 1usize << order;
        let starts = (0..frames.len()).step_by(size);
        starts
            .filter(|start| start + size <= frames.len())
            .find(|&start| frames[start..start + size].iter().all(usable))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_index_agrees_with_a_look_at_every_frame(
            spots in proptest::collection::vec((0usize..4000, 1usize..700, 0u8..3), 0..12),
            compaction in any::<bool>(),
            steps in proptest::collection::vec((0u32..11, any::<bool>()), 1..60),
        ) {
            let mut frames = vec![FrameUse::Free; 4000];
            for (start, length, use_) in spots {
                let end = (start + length).min(frames.len());
                let what = [FrameUse::Free, FrameUse::Movable, FrameUse::Unmovable];
                frames[start..end].fill(what[use_ as usize]);
            }
            let mut memory = ClassFrames::new(frames.clone(), compaction);
            let mut taken: Vec<(u64, u32)> = Vec::new();
            for (order, free) in steps {
                if free && let Some((pfn, order)) = taken.pop() {
                    memory.free(pfn, order);
                    frames[pfn as usize..][..1 << order].fill(FrameUse::Free);
                    continue;
                }
                // Singles follow a hint: they are counted at the end.
                let order = order.max(1);
                let answer = memory.alloc(order);
                prop_assert_eq!(answer, expected(&frames, compaction, order).map(|p| p as u64));
                if let Some(pfn) = answer {
                    frames[pfn as usize..][..1 << order].fill(FrameUse::Unmovable);
                    taken.push((pfn, order));
                }
                let usable = |f: &&FrameUse| {
                    **f == FrameUse::Free || compaction && **f == FrameUse::Movable
                };
                let left = frames.iter().filter(usable).count() as u64;
                prop_assert_eq!(memory.free_frames(), left);
            }
            let mut singles = 0;
            while memory.alloc(0).is_some() {
                singles += 1;
            }
            prop_assert_eq!(memory.free_frames(), 0);
            let usable = |f: &&FrameUse| {
                **f == FrameUse::Free || compaction && **f == FrameUse::Movable
            };
            prop_assert_eq!(singles, frames.iter().filter(usable).count());
        }
    }
}
