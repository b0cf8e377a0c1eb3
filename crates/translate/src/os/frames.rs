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

/// No memory at all: for page tables that mirror a guest's, which has memory of its own.
#[derive(Clone, Copy, Debug)]
pub struct NoFrames;

impl FrameSource for NoFrames {
    fn alloc(&mut self, _order: u32) -> Option<u64> {
        None
    }

    fn free(&mut self, _pfn: u64, _order: u32) {}

    fn free_frames(&self) -> u64 {
        0
    }

    fn alloc_run(&mut self, _frames: u64) -> Option<u64> {
        None
    }

    fn longest_run(&self) -> u64 {
        0
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
    /// Frames set aside for single ones, if these are scattered.
    singles: Option<Singles>,
}

/// Frames set aside for page tables at a time.
const TABLE_CHUNK: u64 = 1024;
/// Most and fewest frames set aside for scattered single ones at a time: 1 GB, 2 MB. Never more
/// than a quarter of what is left, so that blocks find room.
const SINGLES_CHUNKS: [u64; 2] = [1 << 18, 1 << 9];

/// A chunk whose frames are handed out one by one, in no order.
#[derive(Clone, Copy, Debug, Default)]
struct Singles {
    first: u64,
    used: u64,
    /// A power of two.
    frames: u64,
}

impl Singles {
    /// The next frame of the chunk.
    fn take(&mut self) -> Option<u64> {
        if self.used == self.frames {
            return None;
        }
        // Each step can be undone within so many bits, so no frame comes twice.
        let (mask, half) = (self.frames - 1, self.frames.trailing_zeros() / 2);
        let mut place = self.used ^ (self.first >> half & mask);
        for odd in [0x9e37_79b1_u64, 0x85eb_ca6b] {
            place = place.wrapping_mul(odd) & mask;
            place ^= place >> half;
        }
        self.used += 1;
        Some(self.first + place)
    }
}

impl IdealFrames {
    /// Memory of `bytes` bytes.
    pub fn new(bytes: u64) -> Self {
        IdealFrames {
            low: 0,
            high: bytes >> 12,
            free_lists: vec![Vec::new(); 19],
            freed: 0,
            tables: (0, TABLE_CHUNK),
            singles: None,
        }
    }

    /// The same memory with single frames in no order, as on a machine that has run for long:
    /// neighbours in a program are no neighbours in memory, nor in the page tables of a host.
    pub fn scattered(mut self) -> Self {
        self.singles = Some(Singles::default());
        self
    }

    /// A single frame of a chunk; None if no chunk can be set aside.
    fn scattered_frame(&mut self) -> Option<u64> {
        let singles = self.singles.as_mut()?;
        if let Some(pfn) = singles.take() {
            return Some(pfn);
        }
        let [most, fewest] = SINGLES_CHUNKS;
        let mut frames = most;
        while frames > fewest && self.low + 4 * frames > self.high {
            frames /= 2;
        }
        if self.low + frames > self.high {
            return None;
        }
        self.high -= frames;
        *singles = Singles {
            first: self.high,
            used: 0,
            frames,
        };
        singles.take()
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
            if let Some(pfn) = self.scattered_frame() {
                return Some(pfn);
            }
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
        let aside = self.singles.map_or(0, |chunk| chunk.frames - chunk.used);
        self.high - self.low + self.freed + aside
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
    fn scattered_frames_leave_room_for_blocks() {
        let mut memory = IdealFrames::new(1 << 30).scattered();
        memory.alloc(0).unwrap();
        for _ in 0..384 {
            memory.alloc(9).expect("three quarters of 512 blocks");
        }
    }

    #[test]
    fn scattered_frames_are_all_there_and_share_no_line_of_a_host_table() {
        let mut memory = IdealFrames::new(4 << 30).scattered();
        assert_eq!(memory.free_frames(), 1 << 20);
        let frames: Vec<u64> = (0..16_384).map(|_| memory.alloc(0).unwrap()).collect();
        // Eight entries of a page table lie in a line. Drawn at random, 12,893 of the 32,768
        // lines of a gigabyte would be met.
        let lines: std::collections::HashSet<u64> = frames.iter().map(|pfn| pfn / 8).collect();
        assert!((12_000..=16_384).contains(&lines.len()), "{}", lines.len());
        let near = frames
            .windows(2)
            .filter(|pair| pair[0].abs_diff(pair[1]) < 8);
        assert!(near.count() < 16);
        assert_eq!(memory.free_frames(), (1 << 20) - 16_384);
        let mut seen: std::collections::HashSet<u64> = frames.into_iter().collect();
        let block = memory.alloc(9).unwrap();
        seen.extend(block..block + 512);
        while let Some(pfn) = memory.alloc(0) {
            assert!(pfn < 1 << 20 && seen.insert(pfn), "frame {pfn} twice");
        }
        assert_eq!(seen.len(), 1 << 20);
    }
}
