// SPDX-License-Identifier: MIT OR Apache-2.0
//! One cache: tags, the order of replacement, dirty bits, and a value for each line: when its data
//! arrive, or the state of a coherence protocol. Exact LRU of up to 16 ways, which is the default,
//! is a word in each set; more ways and other policies are in [`OtherPolicy`].

use crate::BadParams;
use crate::replacement::{CachePolicy, OtherPolicy};
use ample_kit::divisor::Divisor;
use ample_kit::recency::{Recency, TagBytes};
use serde::{Deserialize, Serialize};

/// Bytes of a cache line, at all levels.
pub const LINE_BYTES: u64 = 64;

/// Size and shape of a cache with 64-byte lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheConfig {
    /// Bytes in all.
    pub bytes: u64,
    /// Lines in one set, at most 32.
    pub ways: u32,
    /// Cycles from the core's request to the data on a hit.
    pub latency_cycles: u32,
    /// Which line of a full set leaves.
    #[serde(default, skip_serializing_if = "CachePolicy::is_default")]
    pub policy: CachePolicy,
}

/// Most lines of a set.
pub const MOST_WAYS: u32 = 32;
/// Most ways whose tags have a byte in the head of their set, and whose order is a word.
const NEAR_WAYS: usize = 16;

impl CacheConfig {
    /// A cache of `kb` kilobytes.
    pub const fn new(kb: u64, ways: u32, latency_cycles: u32) -> Self {
        CacheConfig {
            bytes: kb << 10,
            ways,
            latency_cycles,
            policy: CachePolicy::Lru,
        }
    }

    /// Checks that the sizes make whole sets; `field` names the cache in the error.
    ///
    /// # Errors
    /// If they do not, or a set has none or more than 32 ways.
    pub fn check(&self, field: &'static str) -> Result<(), BadParams> {
        let (bytes, ways) = (self.bytes, self.ways);
        if !(1..=MOST_WAYS).contains(&ways) {
            let reason = format!("{ways} ways; the model takes 1 to {MOST_WAYS}");
            return Err(BadParams::new(field, reason));
        }
        if bytes == 0 || !bytes.is_multiple_of(LINE_BYTES * u64::from(ways)) {
            let reason = format!("{bytes} bytes are not whole sets of {ways} lines of 64 bytes");
            return Err(BadParams::new(field, reason));
        }
        Ok(())
    }
}

/// The tag of no line: lines have 46 bits of an address of 52, or 58 of one of 64.
const EMPTY: u64 = u64::MAX;

/// What a set's look-ups and installations all touch, in half a line of the host.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct SetHead {
    /// A byte of each of the first 16 tags.
    bytes: TagBytes,
    /// The order of their last uses, where no other policy is kept.
    order: Recency,
    /// A bit for each way.
    dirty: u32,
}

/// A cache at work. Lines are numbered by physical address / 64; each has a value.
#[derive(Clone, Debug)]
pub struct Cache<T> {
    sets: Divisor,
    ways: usize,
    stride: usize,
    heads: Vec<SetHead>,
    tags: Vec<u64>,
    values: Vec<T>,
    /// What decides instead of the order in the heads.
    other: Option<OtherPolicy>,
    /// Look-ups that hit.
    pub hits: u64,
    /// Look-ups that missed.
    pub misses: u64,
}

#[inline(always)]
fn byte_of(tag: u64) -> u8 {
    (tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// A line pushed out by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim<T> {
    /// Line number.
    pub line: u64,
    /// Whether it is newer than the level below and must be written back.
    pub dirty: bool,
    /// What the cache kept with the line.
    pub value: T,
}

impl<T: Copy + Default> Cache<T> {
    /// An empty cache.
    ///
    /// # Errors
    /// If the sizes do not make whole sets of 1 to 32 lines; `field` names the cache.
    pub fn new(config: &CacheConfig, field: &'static str) -> Result<Self, BadParams> {
        config.check(field)?;
        let ways = config.ways as usize;
        let sets = config.bytes / (LINE_BYTES * ways as u64);
        let stride = ways.next_multiple_of(4);
        let cells = sets as usize * stride;
        let head = SetHead {
            bytes: TagBytes::default(),
            order: Recency::default(),
            dirty: 0,
        };
        Ok(Cache {
            sets: Divisor::new(sets),
            ways,
            stride,
            heads: vec![head; sets as usize],
            tags: vec![EMPTY; cells],
            values: vec![T::default(); cells],
            other: (config.policy != CachePolicy::Lru || ways > NEAR_WAYS)
                .then(|| OtherPolicy::new(config.policy, sets as usize, ways)),
            hits: 0,
            misses: 0,
        })
    }

    #[inline(always)]
    fn place(&self, line: u64) -> (usize, u64) {
        let (tag, set) = self.sets.split(line);
        let set = set as usize;
        debug_assert!(
            tag != EMPTY && self.line_of(set, tag) == line,
            "line {line:#x} is beyond memory"
        );
        (set, tag)
    }

    /// The line in `set` that has this tag.
    #[inline(always)]
    fn line_of(&self, set: usize, tag: u64) -> u64 {
        self.sets.join(tag, set as u64)
    }

    #[inline(always)]
    fn way(&self, set: usize, tag: u64) -> Option<usize> {
        let row = &self.tags[set * self.stride..(set + 1) * self.stride];
        let held = |way: usize| row.get(way).filter(|&&held| held == tag);
        match self.heads[set].bytes.find(self.ways, byte_of(tag), held) {
            Some((way, _)) => Some(way),
            None if self.ways > NEAR_WAYS => {
                (NEAR_WAYS..self.ways).find(|&way| held(way).is_some())
            }
            None => None,
        }
    }

    /// Counts a use of a line that is held.
    #[inline(always)]
    fn touch(&mut self, set: usize, way: usize) {
        match &mut self.other {
            None => self.heads[set].order.touch(way as u32),
            Some(other) => other.touch(set, way),
        }
    }

    /// The way of a set that takes a new line, as its most recent use.
    #[inline(always)]
    fn claim(&mut self, set: usize) -> usize {
        let Some(other) = &mut self.other else {
            return self.heads[set].order.reuse_oldest(self.ways as u32) as usize;
        };
        let row = &self.tags[set * self.stride..][..self.ways];
        let free = row.iter().position(|&held| held == EMPTY);
        other.claim(set, free)
    }

    /// Looks a line up, as the most recent use, and marks it dirty if `write`; returns its value.
    #[inline(always)]
    pub fn lookup(&mut self, line: u64, write: bool) -> Option<&mut T> {
        let (set, tag) = self.place(line);
        let Some(way) = self.way(set, tag) else {
            self.misses += 1;
            return None;
        };
        self.hits += 1;
        self.touch(set, way);
        self.heads[set].dirty |= u32::from(write) << way;
        Some(&mut self.values[set * self.stride + way])
    }

    /// The value of a line; no use is counted.
    #[inline]
    pub fn peek(&mut self, line: u64) -> Option<&mut T> {
        let (set, tag) = self.place(line);
        let way = self.way(set, tag)?;
        Some(&mut self.values[set * self.stride + way])
    }

    /// True if the line is held; no use is counted.
    #[inline]
    pub fn holds(&self, line: u64) -> bool {
        let (set, tag) = self.place(line);
        self.way(set, tag).is_some()
    }

    /// Puts in a line that is not held, as the most recent use; returns the line that left: by LRU
    /// the least recently used of the set, unless a way is free.
    #[inline(always)]
    pub fn install(&mut self, line: u64, value: T, dirty: bool) -> Option<Victim<T>> {
        debug_assert!(!self.holds(line), "line {line:#x} is held already");
        let (set, tag) = self.place(line);
        let way = self.claim(set);
        let head = &mut self.heads[set];
        let was_dirty = head.dirty >> way & 1 != 0;
        if way < NEAR_WAYS {
            head.bytes.set(way, byte_of(tag));
        }
        head.dirty = head.dirty & !(1 << way) | u32::from(dirty) << way;
        let at = set * self.stride + way;
        let old = std::mem::replace(&mut self.tags[at], tag);
        let value = std::mem::replace(&mut self.values[at], value);
        debug_assert!(old != EMPTY || !was_dirty, "an empty way is clean");
        (old != EMPTY).then(|| Victim {
            line: self.line_of(set, old),
            dirty: was_dirty,
            value,
        })
    }

    /// Gives a line this value, as the most recent use: in place if held, else installed clean.
    pub fn put(&mut self, line: u64, value: T) -> Option<Victim<T>> {
        let (set, tag) = self.place(line);
        match self.way(set, tag) {
            Some(way) => {
                self.touch(set, way);
                self.values[set * self.stride + way] = value;
                None
            }
            None => self.install(line, value, false),
        }
    }

    /// Takes in a dirty line from the level above: marks it dirty if held, which is no use of it,
    /// installs it if not.
    pub fn write_back(&mut self, line: u64) -> Option<Victim<T>> {
        let (set, tag) = self.place(line);
        match self.way(set, tag) {
            Some(way) => {
                self.heads[set].dirty |= 1 << way;
                None
            }
            None => self.install(line, T::default(), true),
        }
    }

    /// Takes a line out, dirty or not; its way is the next to be filled.
    pub fn remove(&mut self, line: u64) -> Option<T> {
        let (set, tag) = self.place(line);
        let way = self.way(set, tag)?;
        let head = &mut self.heads[set];
        // Other policies look for a free way first.
        if self.other.is_none() {
            head.order.make_oldest(way as u32, self.ways as u32);
        }
        head.dirty &= !(1 << way);
        let at = set * self.stride + way;
        self.tags[at] = EMPTY;
        debug_assert!(!self.holds(line), "line {line:#x} was held twice");
        Some(self.values[at])
    }

    /// The lines that are newer than the level below.
    pub fn dirty_lines(&self) -> impl Iterator<Item = u64> {
        let ways = 0..self.ways;
        let all =
            (0..self.heads.len()).flat_map(move |set| ways.clone().map(move |way| (set, way)));
        let dirty = all.filter(|&(set, way)| self.heads[set].dirty >> way & 1 != 0);
        dirty.map(|(set, way)| self.line_of(set, self.tags[set * self.stride + way]))
    }
}

impl Cache<u64> {
    /// Reads the head of the line's set and changes nothing.
    #[inline(always)]
    pub fn read_head(&self, line: u64) -> u64 {
        self.heads[self.place(line).0].order.word()
    }

    /// Reads what a look-up and an installation of the line touch besides the head: of the way
    /// that may hold it, else of the one it would take by LRU. Returns something of it and, of the
    /// latter way, the line that leaves. No branch waits for what is read.
    #[inline(always)]
    pub fn read_way(&self, line: u64) -> (u64, Option<u64>) {
        let (set, tag) = self.place(line);
        let head = &self.heads[set];
        let like = head
            .bytes
            .first_like(byte_of(tag))
            .filter(|&way| way < self.ways);
        let ways = self.ways.min(NEAR_WAYS) as u32;
        let at = set * self.stride + like.unwrap_or_else(|| head.order.oldest(ways) as usize);
        let held = self.tags[at];
        let leaves = (like.is_none() && held != EMPTY).then(|| self.line_of(set, held));
        (self.values[at] ^ self.tags[at], leaves)
    }
}
