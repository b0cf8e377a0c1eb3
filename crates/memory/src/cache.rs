// SPDX-License-Identifier: MIT OR Apache-2.0
//! One cache: tags, exact LRU of up to 16 ways, dirty bits, and a value for each line: when its
//! data arrive, or the state of a coherence protocol.

use crate::BadParams;
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
    /// Lines in one set, at most 16.
    pub ways: u32,
    /// Cycles from the core's request to the data on a hit.
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

    /// Checks that the sizes make whole sets; `field` names the cache in the error.
    ///
    /// # Errors
    /// If they do not, or a set has none or more than 16 ways.
    pub fn check(&self, field: &'static str) -> Result<(), BadParams> {
        let (bytes, ways) = (self.bytes, self.ways);
        if !(1..=16).contains(&ways) {
            let reason = format!("{ways} ways; the model takes 1 to 16");
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
    /// A byte of each tag.
    bytes: TagBytes,
    /// The order of their last uses.
    order: Recency,
    /// A bit for each way.
    dirty: u16,
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
    /// If the sizes do not make whole sets of 1 to 16 lines; `field` names the cache.
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
        let (way, _) = self.heads[set].bytes.find(self.ways, byte_of(tag), held)?;
        Some(way)
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
        let head = &mut self.heads[set];
        head.order.touch(way as u32);
        head.dirty |= u16::from(write) << way;
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

    /// Puts in a line that is not held, as the most recent use; returns the line that left: the
    /// least recently used of the set, unless a way is free.
    #[inline(always)]
    pub fn install(&mut self, line: u64, value: T, dirty: bool) -> Option<Victim<T>> {
        debug_assert!(!self.holds(line), "line {line:#x} is held already");
        let (set, tag) = self.place(line);
        let head = &mut self.heads[set];
        let way = head.order.reuse_oldest(self.ways as u32) as usize;
        let was_dirty = head.dirty >> way & 1 != 0;
        head.bytes.set(way, byte_of(tag));
        head.dirty = head.dirty & !(1 << way) | u16::from(dirty) << way;
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
                self.heads[set].order.touch(way as u32);
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
        head.order.make_oldest(way as u32, self.ways as u32);
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
        let held = self.tags[at];
        let leaves = (like.is_none() && held != EMPTY).then(|| self.line_of(set, held));
        (self.values[at] ^ self.tags[at], leaves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 3 sets of 3 ways: neither a power of two.
    const SMALL: CacheConfig = CacheConfig {
        bytes: 9 * LINE_BYTES,
        ways: 3,
        latency_cycles: 1,
    };

    proptest! {
        /// Every operation does to a cache what it does to a list of lines a set, most recently
        /// used first.
        #[test]
        fn a_cache_is_a_list_of_lines(ops in prop::collection::vec((0..6, 0..24u64), 1..400)) {
            let mut cache = Cache::<u64>::new(&SMALL, "test").unwrap();
            let mut sets = vec![Vec::<(u64, u64, bool)>::new(); 3];
            for (number, (op, line)) in (0..).zip(ops) {
                let set = &mut sets[line as usize % 3];
                let held = set.iter().position(|&(held, ..)| held == line);
                let pushed_out = |set: &mut Vec<(u64, u64, bool)>| {
                    let victim = (set.len() > 3).then(|| set.pop()).flatten();
                    victim.map(|(line, value, dirty)| Victim { line, dirty, value })
                };
                match (op, held) {
                    (0 | 1, Some(at)) => {
                        let (line, value, dirty) = set.remove(at);
                        set.insert(0, (line, value, dirty || op == 1));
                        prop_assert_eq!(cache.lookup(line, op == 1).copied(), Some(value));
                    }
                    (0 | 1, None) => prop_assert!(cache.lookup(line, op == 1).is_none()),
                    (2, Some(at)) => {
                        prop_assert_eq!(cache.remove(line), Some(set.remove(at).1));
                    }
                    (2, None) => prop_assert_eq!(cache.remove(line), None),
                    (3, Some(at)) => {
                        let (line, _, dirty) = set.remove(at);
                        set.insert(0, (line, number, dirty));
                        prop_assert_eq!(cache.put(line, number), None);
                    }
                    (4, Some(at)) => {
                        set[at].2 = true;
                        prop_assert_eq!(cache.write_back(line), None);
                    }
                    (4, None) => {
                        set.insert(0, (line, 0, true));
                        prop_assert_eq!(cache.write_back(line), pushed_out(set));
                    }
                    (_, None) => {
                        set.insert(0, (line, number, false));
                        prop_assert_eq!(cache.put(line, number), pushed_out(set));
                    }
                    (_, Some(at)) => {
                        prop_assert_eq!(cache.peek(line).copied(), Some(set[at].1));
                    }
                }
                let mut dirty: Vec<u64> = cache.dirty_lines().collect();
                dirty.sort_unstable();
                let expected = sets.iter().flatten().filter(|line| line.2);
                let mut expected: Vec<u64> = expected.map(|line| line.0).collect();
                expected.sort_unstable();
                prop_assert_eq!(dirty, expected);
            }
        }
    }

    proptest! {
        /// Lines anywhere in 52 bits of address are told apart, however few sets there are.
        #[test]
        fn no_line_answers_for_another(
            addresses in prop::collection::vec(0u64..1 << 52, 1..12),
            near in 0u64..1 << 20,
            bit in 6u32..52,
        ) {
            let mut cache = Cache::<u64>::new(&SMALL, "test").unwrap();
            let pairs = addresses.iter().flat_map(|&far| [far, far ^ 1 << bit]);
            for address in pairs.chain([near, near ^ 1 << bit]) {
                let line = address >> 6;
                match cache.lookup(line, false) {
                    Some(&mut held) => prop_assert_eq!(held, line, "{:#x} answers", held << 6),
                    None => {
                        cache.install(line, line, false);
                    }
                }
            }
        }
    }

    #[test]
    fn the_line_at_2_to_the_45_is_not_that_at_0() {
        let l1 = CacheConfig::new(48, 12, 5);
        let mut cache = Cache::<u64>::new(&l1, "l1").unwrap();
        cache.install(0, 1, false);
        for bit in 6..52 {
            assert!(!cache.holds(1 << (bit - 6)), "address 1 << {bit}");
        }
    }

    #[test]
    fn a_guess_beyond_memory_may_be_read_ahead() {
        let mut cache = Cache::<u64>::new(&SMALL, "test").unwrap();
        cache.install(7, 1, false);
        for line in [7, u64::from(u32::MAX) * 3, 0x7ff_ffff_f980, u64::MAX >> 6] {
            cache.read_head(line);
            cache.read_way(line);
        }
        assert_eq!(cache.peek(7), Some(&mut 1));
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for (bytes, ways) in [(0, 4), (1000, 4), (64 * 17, 17), (64, 0)] {
            let config = CacheConfig {
                bytes,
                ways,
                latency_cycles: 1,
            };
            let error = Cache::<u64>::new(&config, "l1").unwrap_err();
            assert_eq!(error.field, "l1", "{bytes} {ways}");
        }
    }
}
