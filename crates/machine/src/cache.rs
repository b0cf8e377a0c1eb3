// SPDX-License-Identifier: MIT OR Apache-2.0
//! One cache: tags, exact LRU of up to 16 ways, dirty bits, and when each line's data arrive.

use ample_kit::divisor::Divisor;
use ample_kit::recency::{Recency, TagBytes};
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// Size and shape of a cache with 64-byte lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheConfig {
    /// Bytes in all.
    pub bytes: u64,
    /// Lines in one set, at most 16.
    pub ways: u32,
    /// Cycles from the request to the data on a hit.
    pub latency_cycles: u32,
}

impl CacheConfig {
    /// A cache of `kb` kilobytes.
    pub const fn new(kb: u64, ways: u32, latency_cycles: u32) -> Self {
        CacheConfig {
            bytes: kb << 10,
            ways,
            latency_cycles,
        }
    }
}

const EMPTY: u32 = u32::MAX;

/// What a set's look-ups and installations all touch, in half a line of the host.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct SetHead {
    /// A byte of each tag.
    bytes: TagBytes,
    /// The order of their last uses.
    order: Recency,
    /// A bit for each way.
    dirty: u16,
}

/// A cache at work. Lines are numbered by physical address / 64.
#[derive(Clone, Debug)]
pub struct Cache {
    sets: Divisor,
    ways: usize,
    stride: usize,
    heads: Vec<SetHead>,
    tags: Vec<u32>,
    ready: Vec<u64>,
    /// Look-ups that hit.
    pub hits: u64,
    /// Look-ups that missed.
    pub misses: u64,
}

#[inline(always)]
fn byte_of(tag: u32) -> u8 {
    (tag.wrapping_mul(0x9e37_79b9) >> 24) as u8
}

/// A line pushed out by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Line number.
    pub line: u64,
    /// Whether it must be written back.
    pub dirty: bool,
}

impl Cache {
    /// An empty cache.
    ///
    /// # Errors
    /// If the sizes do not make whole sets of 1 to 16 lines.
    pub fn new(config: &CacheConfig, what: &str) -> Result<Self> {
        let ways = config.ways as usize;
        ensure!(
            (1..=16).contains(&ways),
            "{what}: {ways} ways; the model takes 1 to 16"
        );
        let lines = config.bytes / 64;
        ensure!(
            lines > 0 && config.bytes.is_multiple_of(64 * ways as u64),
            "{what}: {} bytes are not whole sets of {ways} lines of 64 bytes",
            config.bytes
        );
        let sets = lines / ways as u64;
        let stride = ways.next_multiple_of(4);
        let cells = sets as usize * stride;
        Ok(Cache {
            sets: Divisor::new(sets),
            ways,
            stride,
            heads: vec![
                SetHead {
                    bytes: TagBytes::default(),
                    order: Recency::default(),
                    dirty: 0
                };
                sets as usize
            ],
            tags: vec![EMPTY; cells],
            ready: vec![0; cells],
            hits: 0,
            misses: 0,
        })
    }

    #[inline(always)]
    fn place(&self, line: u64) -> (usize, u32) {
        let (tag, set) = self.sets.split(line);
        (set as usize, tag as u32)
    }

    /// The line in `set` that has this tag.
    #[inline(always)]
    fn line_of(&self, set: usize, tag: u32) -> u64 {
        self.sets.join(u64::from(tag), set as u64)
    }

    #[inline(always)]
    fn way(&self, set: usize, tag: u32) -> Option<usize> {
        let row = &self.tags[set * self.stride..(set + 1) * self.stride];
        let held = |way: usize| row.get(way).filter(|&&held| held == tag);
        let (way, _) = self.heads[set].bytes.find(self.ways, byte_of(tag), held)?;
        Some(way)
    }

    /// Looks a line up, as the most recent use; returns when its data are there.
    #[inline(always)]
    pub fn lookup(&mut self, line: u64, write: bool) -> Option<u64> {
        let (set, tag) = self.place(line);
        let Some(way) = self.way(set, tag) else {
            self.misses += 1;
            return None;
        };
        self.hits += 1;
        let head = &mut self.heads[set];
        head.order.touch(way as u32);
        head.dirty |= u16::from(write) << way;
        Some(self.ready[set * self.stride + way])
    }

    /// Reads the head of the line's set and changes nothing.
    #[inline(always)]
    pub fn read_head(&self, line: u64) -> u64 {
        self.heads[self.place(line).0].order.word()
    }

    /// Reads what a look-up and an installation of the line touch besides the head: of the way
    /// that may hold it, else of the one it would take. Returns something of it and, of the
    /// latter way, the line that leaves. No branch waits for what is read.
    #[inline(always)]
    pub fn read_way(&self, line: u64) -> (u64, Option<u64>) {
        let (set, tag) = self.place(line);
        let head = &self.heads[set];
        let like = head
            .bytes
            .first_like(byte_of(tag))
            .filter(|&way| way < self.ways);
        let at = set * self.stride
            + like.unwrap_or_else(|| head.order.oldest(self.ways as u32) as usize);
        let leaves = like.is_none().then(|| self.line_of(set, self.tags[at]));
        (self.ready[at] ^ u64::from(self.tags[at]), leaves)
    }

    /// True if the line is held; no use is counted.
    #[inline]
    pub fn holds(&self, line: u64) -> bool {
        let (set, tag) = self.place(line);
        self.way(set, tag).is_some()
    }

    /// Puts in a line that is not held, its data there at `ready`; returns the line that left.
    #[inline(always)]
    pub fn install(&mut self, line: u64, dirty: bool, ready: u64) -> Option<Victim> {
        let (set, tag) = self.place(line);
        let head = &mut self.heads[set];
        let way = head.order.reuse_oldest(self.ways as u32) as usize;
        let was_dirty = head.dirty >> way & 1 != 0;
        head.bytes.set(way, byte_of(tag));
        head.dirty = head.dirty & !(1 << way) | u16::from(dirty) << way;
        let at = set * self.stride + way;
        let old = std::mem::replace(&mut self.tags[at], tag);
        self.ready[at] = ready;
        (old != EMPTY).then(|| Victim {
            line: self.line_of(set, old),
            dirty: was_dirty,
        })
    }

    /// Takes in a dirty line from the level above: marks it dirty if held, installs it if not.
    pub fn write_back(&mut self, line: u64) -> Option<Victim> {
        let (set, tag) = self.place(line);
        match self.way(set, tag) {
            Some(way) => {
                self.heads[set].dirty |= 1 << way;
                None
            }
            None => self.install(line, true, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lru_and_write_backs_in_a_set_of_three() {
        // 3 sets of 3 ways: neither a power of two.
        let config = CacheConfig {
            bytes: 9 * 64,
            ways: 3,
            latency_cycles: 1,
        };
        let mut cache = Cache::new(&config, "test").unwrap();
        for line in [0, 3, 6] {
            assert!(cache.lookup(line, false).is_none());
            assert_eq!(cache.install(line, line == 3, 10), None);
        }
        assert_eq!(cache.lookup(0, false), Some(10));
        assert_eq!(
            cache.install(9, false, 0),
            Some(Victim {
                line: 3,
                dirty: true
            })
        );
        assert_eq!(
            cache.install(12, false, 0),
            Some(Victim {
                line: 6,
                dirty: false
            })
        );
        assert!(cache.holds(0) && !cache.holds(3));
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for (bytes, ways) in [(0, 4), (1000, 4), (64 * 17, 17), (64, 0)] {
            let config = CacheConfig {
                bytes,
                ways,
                latency_cycles: 1,
            };
            assert!(Cache::new(&config, "L1").is_err(), "{bytes} {ways}");
        }
    }
}
