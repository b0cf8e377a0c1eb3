// SPDX-License-Identifier: MIT OR Apache-2.0
//! One set of up to 16 ways with exact LRU or tree-PLRU, made for speed: a byte of each key side by
//! side, eight of them compared at once in a word, and the recency order as 4-bit way numbers in
//! one word, so that an update moves no data. All of a set lies together.

use crate::assoc::Replacement;

const EMPTY: u64 = u64::MAX;
const NIBBLES: u64 = 0x1111_1111_1111_1111;
const LOW_BITS: u64 = 0x0101_0101_0101_0101;

/// What all sets of an array have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// Entries of a set.
    pub(crate) ways: u32,
    /// Which of them leaves.
    pub(crate) replacement: Replacement,
    /// Place of the least recent way in the order, bits.
    last_shift: u32,
}

impl Row {
    pub(crate) fn new(ways: u32, replacement: Replacement) -> Self {
        Row {
            ways,
            replacement,
            last_shift: 4 * (ways.clamp(1, 16) - 1),
        }
    }
}

/// A set with room for `W` entries.
#[derive(Clone, Debug)]
pub(crate) struct NarrowSet<const W: usize> {
    /// LRU: way numbers, most recent lowest. PLRU: direction bits.
    order: u64,
    tags: TagBytes,
    /// Keys and values.
    entries: [(u64, u64); W],
}

/// The bytes of a word that are zero have their highest bit in the result. So may bytes of one
/// above such a byte; whoever looks compares the keys.
#[inline(always)]
fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(LOW_BITS) & !word & (LOW_BITS << 7)
}

/// A byte of each of up to 16 keys, side by side: which of them a key may be takes two words to
/// say. Bytes that stand for no key are never right, since the keys have the last word.
#[derive(Clone, Copy, Debug, Default)]
pub struct TagBytes([u8; 16]);

impl TagBytes {
    /// Keeps the byte of the key at `way`.
    #[inline(always)]
    pub fn set(&mut self, way: usize, tag: u8) {
        self.0[way] = tag;
    }

    /// The first way whose byte is `tag`, if any.
    #[inline(always)]
    pub fn first_like(&self, tag: u8) -> Option<usize> {
        let wanted = u128::from(tag) * (u128::from(LOW_BITS) << 64 | u128::from(LOW_BITS));
        let differs = u128::from_le_bytes(self.0) ^ wanted;
        let (low, high) = (
            zero_bytes(differs as u64),
            zero_bytes((differs >> 64) as u64),
        );
        let mask = u128::from(high) << 64 | u128::from(low);
        (mask != 0).then(|| mask.trailing_zeros() as usize / 8)
    }

    /// Asks `held` for each of the first `ways` ways (rounded up to eight) whose byte is `tag`,
    /// until it gives an answer: the way and the answer.
    #[inline(always)]
    pub fn find<T>(
        &self,
        ways: usize,
        tag: u8,
        mut held: impl FnMut(usize) -> Option<T>,
    ) -> Option<(usize, T)> {
        let wanted = u64::from(tag) * LOW_BITS;
        let (words, _) = self.0.as_chunks::<8>();
        for (at, word) in words.iter().enumerate() {
            if at > 0 && ways <= 8 {
                break;
            }
            let mut mask = zero_bytes(u64::from_le_bytes(*word) ^ wanted);
            while mask != 0 {
                let way = 8 * at + mask.trailing_zeros() as usize / 8;
                if let Some(answer) = held(way) {
                    return Some((way, answer));
                }
                mask &= mask - 1;
            }
        }
        None
    }
}

/// Eight bits of a key.
#[inline(always)]
fn tag_of(key: u64) -> u8 {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Moves the way at bit `shift` of an order to its front.
#[inline(always)]
fn to_front(order: u64, shift: u32, way: u64) -> u64 {
    let below = (1u64 << shift) - 1;
    let above = !(below << 4 | 15);
    (order & above) | ((order & below) << 4) | way
}

impl<const W: usize> NarrowSet<W> {
    pub(crate) fn new(row: &Row) -> Self {
        NarrowSet {
            order: match row.replacement {
                // Any permutation of the ways will do.
                Replacement::Lru => 0xfedc_ba98_7654_3210,
                Replacement::Plru => 0,
            },
            tags: TagBytes::default(),
            entries: [(EMPTY, 0); W],
        }
    }

    /// Way and value of a key.
    #[inline(always)]
    pub(crate) fn find(&self, key: u64) -> Option<(u32, u64)> {
        let held = |way: usize| self.entries.get(way).filter(|(found, _)| *found == key);
        let (way, entry) = self.tags.find(W, tag_of(key), held)?;
        Some((way as u32, entry.1))
    }

    /// Finds a key and makes it the most recent.
    #[inline(always)]
    pub(crate) fn lookup(&mut self, key: u64, row: &Row) -> Option<(u32, u64)> {
        let (way, value) = self.find(key)?;
        match row.replacement {
            Replacement::Lru => self.touch_lru(way),
            Replacement::Plru => self.touch_plru(way, row.ways),
        }
        Some((way, value))
    }

    pub(crate) fn set_value(&mut self, way: u32, value: u64) {
        self.entries[way as usize].1 = value;
    }

    /// Puts in a key that is not held; returns the entry that had to leave.
    #[inline(always)]
    pub(crate) fn insert_new(&mut self, key: u64, value: u64, row: &Row) -> Option<(u64, u64)> {
        debug_assert_ne!(key, EMPTY);
        let way = match row.replacement {
            Replacement::Lru => {
                let way = self.order >> row.last_shift & 15;
                self.order = to_front(self.order, row.last_shift, way);
                way as usize
            }
            Replacement::Plru => {
                let way = self.victim_plru(row.ways);
                self.touch_plru(way, row.ways);
                way as usize
            }
        };
        let old = std::mem::replace(&mut self.entries[way], (key, value));
        self.tags.set(way, tag_of(key));
        (old.0 != EMPTY).then_some(old)
    }

    /// Removes a key; true if it was held.
    pub(crate) fn remove(&mut self, key: u64, row: &Row) -> bool {
        let Some((way, _)) = self.find(key) else {
            return false;
        };
        self.entries[way as usize].0 = EMPTY;
        if row.replacement == Replacement::Lru {
            self.send_last(way, row);
        }
        true
    }

    pub(crate) fn for_each(&self, mut visit: impl FnMut(u64, u64)) {
        for &(key, value) in self.entries.iter().filter(|(key, _)| *key != EMPTY) {
            visit(key, value);
        }
    }

    #[inline(always)]
    fn touch_lru(&mut self, way: u32) {
        let way = u64::from(way);
        if self.order & 15 == way {
            return;
        }
        // The lowest zero nibble of `order ^ way` is the place of `way`.
        let differs = self.order ^ (NIBBLES * way);
        let zero = differs.wrapping_sub(NIBBLES) & !differs & (NIBBLES << 3);
        self.order = to_front(self.order, zero.trailing_zeros() - 3, way);
    }

    /// Makes a way the next to leave.
    fn send_last(&mut self, way: u32, row: &Row) {
        self.touch_lru(way);
        let shift = row.last_shift;
        let used = u64::MAX >> (60 - shift);
        let moved = ((self.order & used) >> 4) | u64::from(way) << shift;
        self.order = (self.order & !used) | moved;
    }

    fn touch_plru(&mut self, way: u32, ways: u32) {
        let mut node = 1;
        let mut span = ways;
        while span > 1 {
            span /= 2;
            let right = (way / span) & 1;
            let bit = 1u64 << node;
            if right == 1 {
                self.order &= !bit;
            } else {
                self.order |= bit;
            }
            node = node * 2 + right;
        }
    }

    fn victim_plru(&self, ways: u32) -> u32 {
        let free = |&way: &u32| self.entries[way as usize].0 == EMPTY;
        if let Some(free) = (0..ways).find(free) {
            return free;
        }
        let (mut node, mut span, mut way) = (1, ways, 0);
        while span > 1 {
            span /= 2;
            let right = (self.order >> node & 1) as u32;
            way += right * span;
            node = node * 2 + right;
        }
        way
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_bytes_are_found() {
        for mask in 0..256u64 {
            let byte = |at: u64| if mask >> at & 1 != 0 { 0 } else { 0x80 | at };
            let word = (0..8).fold(0, |word, at| word | byte(at) << (8 * at));
            let found = zero_bytes(word);
            let expected = (0..8).fold(0, |all, at| all | (mask >> at & 1) << (8 * at + 7));
            assert_eq!(found, expected, "{word:#x}");
        }
    }
}
