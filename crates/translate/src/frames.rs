// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where physical frames come from. The operating-system model asks a [`FrameSource`]; an ideal
//! allocator, a machine's snapshot or a whole memory-manager model can stand behind it.

use crate::error::MapError;

/// A 2 MB block that is usable but for some 4 KB frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoledBlock {
    /// First frame of the block, a multiple of 512.
    pub pfn: u64,
    /// One bit a frame, set if the frame cannot be had.
    pub holes: [u64; 8],
}

/// Physical frames of 4 KB, numbered from 0, in aligned blocks of 2^order.
pub trait FrameSource: Send {
    /// Takes an aligned block of `1 << order` frames; None if there is none.
    fn alloc(&mut self, order: u32) -> Option<u64>;
    /// Takes one frame for a page-table node.
    fn alloc_table(&mut self) -> Option<u64> {
        self.alloc(0)
    }
    /// Gives a block back.
    fn free(&mut self, pfn: u64, order: u32);
    /// Frames that could still be had singly.
    fn free_frames(&self) -> u64;
    /// Takes a run of `frames` consecutive frames, not aligned in any way.
    fn alloc_run(&mut self, frames: u64) -> Option<u64>;
    /// Length of the longest run of frames that could be had.
    fn longest_run(&self) -> u64;
    /// Takes an aligned 2 MB block with at most `max_holes` frames missing, the one with the
    /// fewest.
    fn alloc_holed(&mut self, max_holes: u32) -> Option<HoledBlock> {
        let _ = max_holes;
        self.alloc(9).map(|pfn| HoledBlock { pfn, holes: [0; 8] })
    }
    /// Takes the one frame `pfn` if it is free: what patching a hole needs.
    fn alloc_at(&mut self, pfn: u64) -> bool {
        let _ = pfn;
        false
    }
    /// The error to report when an allocation failed.
    fn exhausted(&self, order: u32) -> MapError {
        MapError::OutOfFrames {
            order,
            free_frames: self.free_frames(),
        }
    }
}

/// Unfragmented memory that grows from the bottom: large blocks from one end, single frames from
/// the other, so that they never break each other up. Constant memory, whatever its size.
#[derive(Clone, Debug)]
pub struct IdealFrames {
    /// Next frame for blocks, from below.
    low: u64,
    /// First frame already given away singly, from above.
    high: u64,
    free_lists: Vec<Vec<u64>>,
    freed: u64,
    /// Frames set aside for page tables: first of the chunk, how many handed out.
    tables: (u64, u64),
}

/// Frames set aside for page tables at a time.
const TABLE_CHUNK: u64 = 1024;

impl IdealFrames {
    /// Memory of `bytes` bytes.
    pub fn new(bytes: u64) -> Self {
        IdealFrames {
            low: 0,
            high: bytes >> 12,
            free_lists: vec![Vec::new(); 19],
            freed: 0,
            tables: (0, TABLE_CHUNK),
        }
    }
}

impl FrameSource for IdealFrames {
    fn alloc(&mut self, order: u32) -> Option<u64> {
        if let Some(pfn) = self.free_lists.get_mut(order as usize)?.pop() {
            self.freed -= 1 << order;
            return Some(pfn);
        }
        let frames = 1u64 << order;
        if order == 0 {
            if self.high <= self.low {
                return None;
            }
            self.high -= 1;
            return Some(self.high);
        }
        let pfn = self.low.next_multiple_of(frames);
        if pfn + frames > self.high {
            return None;
        }
        for gap in self.low..pfn {
            self.free_lists[0].push(gap);
            self.freed += 1;
        }
        self.low = pfn + frames;
        Some(pfn)
    }

    /// Page-table nodes lie scattered in real memory. Handed out in step with data frames they
    /// could all fall into the same sets of every cache, which no real machine shows.
    fn alloc_table(&mut self) -> Option<u64> {
        let (first, used) = self.tables;
        if used < TABLE_CHUNK {
            self.tables.1 += 1;
            let scatter = used.wrapping_mul(0x2f5) ^ (first >> 10).wrapping_mul(0x9e5);
            return Some(first + scatter % TABLE_CHUNK);
        }
        if self.high < self.low + TABLE_CHUNK {
            return self.alloc(0);
        }
        self.high -= TABLE_CHUNK;
        self.tables = (self.high, 0);
        self.alloc_table()
    }

    fn free(&mut self, pfn: u64, order: u32) {
        self.free_lists[order as usize].push(pfn);
        self.freed += 1 << order;
    }

    fn free_frames(&self) -> u64 {
        self.high - self.low + self.freed
    }

    fn alloc_run(&mut self, frames: u64) -> Option<u64> {
        if self.low + frames > self.high {
            return None;
        }
        let pfn = self.low;
        self.low += frames;
        Some(pfn)
    }

    fn longest_run(&self) -> u64 {
        self.high - self.low
    }
}

/// What a frame of a snapshot holds, as far as allocation is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameUse {
    /// Free: may be had as it is.
    Free = 0,
    /// Holds data that compaction could move or reclaim could drop.
    Movable = 1,
    /// Cannot be moved.
    Unmovable = 2,
}

/// Memory as a snapshot shows it: one byte a frame.
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
        };
        memory.free = memory.frames.iter().filter(|&&f| memory.usable(f)).count() as u64;
        memory
    }

    /// Frames whose content had to move away for an allocation.
    pub fn moved_frames(&self) -> u64 {
        self.moved
    }

    fn usable(&self, frame: FrameUse) -> bool {
        frame == FrameUse::Free || self.compaction && frame == FrameUse::Movable
    }

    fn take(&mut self, pfn: usize) {
        self.moved += u64::from(self.frames[pfn] == FrameUse::Movable);
        self.frames[pfn] = FrameUse::Unmovable;
        self.free -= 1;
    }

    fn runs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            while at < self.frames.len() && !self.usable(self.frames[at]) {
                at += 1;
            }
            let start = at;
            while at < self.frames.len() && self.usable(self.frames[at]) {
                at += 1;
            }
            (at > start).then_some((start, at - start))
        })
    }
}

impl FrameSource for ClassFrames {
    fn alloc(&mut self, order: u32) -> Option<u64> {
        let size = 1usize << order;
        if order == 0 {
            // Single frames come from where no large block can be: below the hint, lowest first.
            let count = self.frames.len();
            let at = (0..count)
                .map(|i| (self.hint + i) % count)
                .find(|&i| self.usable(self.frames[i]))?;
            self.hint = at + 1;
            self.take(at);
            return Some(at as u64);
        }
        let block = (0..self.frames.len() / size).find(|&b| {
            self.frames[b * size..(b + 1) * size]
                .iter()
                .all(|&f| self.usable(f))
        })?;
        (block * size..(block + 1) * size).for_each(|pfn| self.take(pfn));
        Some((block * size) as u64)
    }

    fn free(&mut self, pfn: u64, order: u32) {
        let first = pfn as usize;
        self.frames[first..first + (1 << order)].fill(FrameUse::Free);
        self.free += 1 << order;
        self.hint = self.hint.min(first);
    }

    fn free_frames(&self) -> u64 {
        self.free
    }

    fn alloc_run(&mut self, frames: u64) -> Option<u64> {
        let (start, _) = self.runs().find(|&(_, length)| length as u64 >= frames)?;
        (start..start + frames as usize).for_each(|pfn| self.take(pfn));
        Some(start as u64)
    }

    fn longest_run(&self) -> u64 {
        self.runs()
            .map(|(_, length)| length as u64)
            .max()
            .unwrap_or(0)
    }

    fn alloc_holed(&mut self, max_holes: u32) -> Option<HoledBlock> {
        let missing = |b: usize| {
            let block = &self.frames[b * 512..(b + 1) * 512];
            block.iter().filter(|&&f| !self.usable(f)).count() as u32
        };
        let best = (0..self.frames.len() / 512).min_by_key(|&b| missing(b))?;
        if missing(best) > max_holes {
            return None;
        }
        let mut holes = [0u64; 8];
        for offset in 0..512 {
            if self.usable(self.frames[best * 512 + offset]) {
                self.take(best * 512 + offset);
            } else {
                holes[offset / 64] |= 1 << (offset % 64);
            }
        }
        Some(HoledBlock {
            pfn: best as u64 * 512,
            holes,
        })
    }

    fn alloc_at(&mut self, pfn: u64) -> bool {
        let ok = self
            .frames
            .get(pfn as usize)
            .is_some_and(|&f| self.usable(f));
        if ok {
            self.take(pfn as usize);
        }
        ok
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ideal_blocks_are_aligned_and_disjoint() {
        let mut memory = IdealFrames::new(64 << 20);
        let single = memory.alloc(0).unwrap();
        let block = memory.alloc(9).unwrap();
        let odd = memory.alloc_run(3).unwrap();
        let next = memory.alloc(9).unwrap();
        assert_eq!(block % 512, 0);
        assert_eq!(next % 512, 0);
        assert!(odd >= block + 512 && next >= odd + 3 && single >= next + 512);
        assert!(memory.alloc(18).is_none());
    }

    #[test]
    fn table_frames_are_scattered_and_handed_out_once() {
        let mut memory = IdealFrames::new(64 << 20);
        let mut seen = std::collections::HashSet::new();
        let tables: Vec<u64> = (0..4000).map(|_| memory.alloc_table().unwrap()).collect();
        assert!(tables.iter().all(|pfn| seen.insert(*pfn)));
        // Data frames taken in between must not bring them into step.
        let low_bits: std::collections::HashSet<u64> =
            tables[..256].iter().map(|pfn| pfn % 128).collect();
        assert!(low_bits.len() > 64, "{} of 128 places", low_bits.len());
        while let Some(pfn) = memory.alloc(0) {
            assert!(seen.insert(pfn), "frame {pfn} twice");
        }
    }

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
}
