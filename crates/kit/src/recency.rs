// SPDX-License-Identifier: MIT OR Apache-2.0
//! The up to 16 ways of a set: a part of each key side by side, several of them compared at once in
//! a word, and the order of their last uses in one word, so that an update moves no data. Data
//! caches have bytes, TLBs and walk caches fifteen bits: their sets are asked so often that a key
//! compared in vain counts.

use crate::random::GOLDEN;

const NIBBLES: u64 = 0x1111_1111_1111_1111;
const LOW_BITS: u64 = 0x0101_0101_0101_0101;

/// The bytes of a word that are zero have their highest bit in the result. So may bytes of one
/// above such a byte; whoever looks compares the keys.
#[inline(always)]
fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(LOW_BITS) & !word & (LOW_BITS << 7)
}

/// A byte of each of up to 16 keys, side by side: which ways may hold a key takes two words to
/// say. A byte is a hint: whoever looks compares the key, so that a byte may be stale.
#[derive(Clone, Copy, Debug, Default)]
pub struct TagBytes([u8; 16]);

impl TagBytes {
    /// Keeps the byte of the key at `way`.
    #[inline(always)]
    pub fn set(&mut self, way: usize, tag: u8) {
        self.0[way] = tag;
    }

    /// The first way whose byte is `tag`, if any. No branch depends on the bytes.
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
        let like = |word: usize| zero_bytes(u64::from_le_bytes(words[word]) ^ wanted);
        let (mut low, mut high) = (like(0), if ways > 8 { like(1) } else { 0 });
        // Most often there is none: one branch says so.
        while low | high != 0 {
            let way = match low {
                0 => 8 + high.trailing_zeros() as usize / 8,
                _ => low.trailing_zeros() as usize / 8,
            };
            if let Some(answer) = held(way) {
                return Some((way, answer));
            }
            match low {
                0 => high &= high - 1,
                _ => low &= low - 1,
            }
        }
        None
    }
}

const FOURTHS: u64 = 0x0001_0001_0001_0001;
const TOP_BITS: u64 = FOURTHS << 15;

/// Fifteen bits of a key, four times in a word: what [`Tags`] are asked for.
#[derive(Clone, Copy, Debug)]
pub struct Tag(u64);

impl Tag {
    /// The tag of a key.
    #[inline(always)]
    pub fn of(key: u64) -> Self {
        Tag((key.wrapping_mul(GOLDEN) >> 49) * FOURTHS)
    }
}

/// A tag of each of up to four keys a word, side by side. A tag is a hint: whoever looks compares
/// the key, so that a tag may be stale.
#[derive(Clone, Copy, Debug)]
pub struct Tags<const WORDS: usize>([[u8; 8]; WORDS]);

impl<const WORDS: usize> Default for Tags<WORDS> {
    fn default() -> Self {
        Tags([[0; 8]; WORDS])
    }
}

impl<const WORDS: usize> Tags<WORDS> {
    /// Keeps the tag of the key at `way`.
    #[inline(always)]
    pub fn set(&mut self, way: usize, tag: Tag) {
        let (tags, _) = self.0.as_flattened_mut().as_chunks_mut::<2>();
        tags[way] = (tag.0 as u16).to_le_bytes();
    }

    /// Asks `held` for each way that has this tag, until it gives an answer: the way and the
    /// answer.
    #[inline(always)]
    pub fn find<T>(
        &self,
        tag: Tag,
        mut held: impl FnMut(usize) -> Option<T>,
    ) -> Option<(usize, T)> {
        // The highest bits of tags are free. Of one from which a difference is taken, that bit
        // stays only if the difference is 0, and none is borrowed from the tag beside it.
        let like = |word: usize| TOP_BITS - (u64::from_le_bytes(self.0[word]) ^ tag.0);
        // Most often there is none: one branch says so.
        if (0..WORDS).fold(0, |any, word| any | like(word)) & TOP_BITS == 0 {
            return None;
        }
        for word in 0..WORDS {
            let mut like = like(word) & TOP_BITS;
            while like != 0 {
                let way = 4 * word + like.trailing_zeros() as usize / 16;
                if let Some(answer) = held(way) {
                    return Some((way, answer));
                }
                like &= like - 1;
            }
        }
        None
    }
}

/// The ways of a set from the most to the least recently used, four bits each. A set of fewer than
/// 16 ways uses the lowest of them, and what is above means nothing.
#[derive(Clone, Copy, Debug)]
pub struct Recency(u64);

/// Starts with way 0 as the most recent and way 15 as the least recent.
impl Default for Recency {
    fn default() -> Self {
        Recency(0xfedc_ba98_7654_3210)
    }
}

impl Recency {
    /// The least recently used of the first `ways` (1 to 16).
    #[inline(always)]
    pub fn oldest(self, ways: u32) -> u32 {
        debug_assert!((1..=16).contains(&ways), "{ways} ways");
        (self.0 >> (4 * (ways - 1)) & 15) as u32
    }

    /// The least recently used of the first `ways`, which becomes the most recently used.
    #[inline(always)]
    pub fn reuse_oldest(&mut self, ways: u32) -> u32 {
        let way = self.oldest(ways);
        self.0 = self.0 << 4 | u64::from(way);
        way
    }

    /// `way` becomes the most recently used.
    #[inline(always)]
    pub fn touch(&mut self, way: u32) {
        debug_assert!(way < 16, "way {way} of 16");
        let number = u64::from(way);
        if self.0 & 15 == number {
            return;
        }
        // The lowest zero nibble of the difference is the place of `way`.
        let differs = self.0 ^ (NIBBLES * number);
        let zero = differs.wrapping_sub(NIBBLES) & !differs & (NIBBLES << 3);
        self.bring_front(zero.trailing_zeros() - 3, way);
    }

    /// `way` becomes the least recently used of the first `ways`.
    pub fn make_oldest(&mut self, way: u32, ways: u32) {
        debug_assert!(way < ways && ways <= 16, "way {way} of {ways}");
        self.touch(way);
        let shift = 4 * (ways - 1);
        let used = u64::MAX >> (60 - shift);
        let moved = ((self.0 & used) >> 4) | u64::from(way) << shift;
        self.0 = (self.0 & !used) | moved;
    }

    /// The order that [`word`](Self::word) gave.
    #[inline(always)]
    pub fn from_word(word: u64) -> Self {
        Recency(word)
    }

    /// The order as one word: the most recent way in the lowest four bits.
    #[inline(always)]
    pub fn word(self) -> u64 {
        self.0
    }

    /// Moves `way`, which is at bit `shift`, to the front.
    #[inline(always)]
    fn bring_front(&mut self, shift: u32, way: u32) {
        let below = (1u64 << shift) - 1;
        let above = !(below << 4 | 15);
        self.0 = (self.0 & above) | ((self.0 & below) << 4) | u64::from(way);
    }
}

/// Direction bits of a binary tree over the ways of a set (tree-PLRU); the number of ways is a
/// power of two up to 16. Bit `n` belongs to node `n`, the root is node 1, and a set bit says that
/// the next victim is in the right half.
#[derive(Clone, Copy, Debug, Default)]
pub struct TreePlru(u64);

impl TreePlru {
    /// The tree that [`word`](Self::word) gave.
    #[inline]
    pub fn from_word(word: u64) -> Self {
        TreePlru(word)
    }

    /// The direction bits as one word.
    #[inline]
    pub fn word(self) -> u64 {
        self.0
    }

    /// `way` was used: every node above it points away from it.
    #[inline]
    pub fn touch(&mut self, way: u32, ways: u32) {
        debug_assert!(ways.is_power_of_two() && way < ways, "way {way} of {ways}");
        let (mut node, mut span) = (1, ways);
        while span > 1 {
            span /= 2;
            let right = (way / span) & 1;
            let bit = 1u64 << node;
            if right == 1 {
                self.0 &= !bit;
            } else {
                self.0 |= bit;
            }
            node = node * 2 + right;
        }
    }

    /// The way that the nodes point at.
    #[inline]
    pub fn victim(self, ways: u32) -> u32 {
        debug_assert!(ways.is_power_of_two() && ways <= 16, "{ways} ways");
        let (mut node, mut span, mut way) = (1, ways, 0);
        while span > 1 {
            span /= 2;
            let right = (self.0 >> node & 1) as u32;
            way += right * span;
            node = node * 2 + right;
        }
        way
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    proptest! {
        /// Each operation on the word does what it says to a list of ways.
        #[test]
        fn recency_is_a_list_of_ways(
            ways in 1u32..=16,
            steps in proptest::collection::vec((0u8..8, 0u32..16), 1..300),
        ) {
            let mut order = Recency::default();
            let mut list: Vec<u32> = (0..16).collect();
            let last = ways as usize - 1;
            for (what, way) in steps {
                let way = way % ways;
                match what {
                    0 | 1 => {
                        let oldest = list.remove(last);
                        list.insert(0, oldest);
                        prop_assert_eq!(order.reuse_oldest(ways), oldest);
                    }
                    2 => {
                        list.retain(|&held| held != way);
                        list.insert(last, way);
                        order.make_oldest(way, ways);
                    }
                    _ => {
                        list.retain(|&held| held != way);
                        list.insert(0, way);
                        order.touch(way);
                    }
                }
                prop_assert_eq!(order.oldest(ways), list[last]);
                let word = list[..=last].iter().rev().fold(0, |word, &w| word << 4 | u64::from(w));
                prop_assert_eq!(order.word() & u64::MAX >> (60 - 4 * last), word);
            }
        }

        /// The bytes lead to a key wherever it lies, among others with the same byte.
        #[test]
        fn bytes_lead_to_the_key(keys in proptest::collection::vec(0u16..1024, 1..=16)) {
            let mut bytes = TagBytes::default();
            for (way, &key) in keys.iter().enumerate() {
                bytes.set(way, key as u8);
            }
            for wanted in 0..1024u16 {
                let found = bytes.find(keys.len(), wanted as u8, |way| {
                    keys.get(way).filter(|&&key| key == wanted)
                });
                let first = keys.iter().position(|&key| key == wanted);
                prop_assert_eq!(found.map(|(way, _)| way), first);
            }
            let padded = |way: usize| keys.get(way).map_or(0, |&key| key as u8);
            for tag in 0..=255u8 {
                prop_assert_eq!(bytes.first_like(tag), (0..16).find(|&way| padded(way) == tag));
            }
        }

        /// So do tags, whatever those say that were never set; and few others are asked.
        #[test]
        fn tags_lead_to_the_key(keys in proptest::collection::vec(1u64..64, 1..=12)) {
            let mut tags = Tags::<3>::default();
            for (way, &key) in keys.iter().enumerate() {
                tags.set(way, Tag::of(key));
            }
            for wanted in 0..64 {
                let mut others = 0;
                let found = tags.find(Tag::of(wanted), |way| {
                    let held = keys.get(way).filter(|&&key| key == wanted);
                    others += usize::from(held.is_none());
                    held
                });
                let first = keys.iter().position(|&key| key == wanted);
                prop_assert_eq!(found.map(|(way, _)| way), first);
                prop_assert_eq!(others, if wanted == 0 { 12 - keys.len() } else { 0 });
            }
        }

        /// A victim is none of the ways used last, one a level of the tree.
        #[test]
        fn plru_spares_the_most_recent(
            log_ways in 1u32..=4,
            uses in proptest::collection::vec(0u32..16, 1..100),
        ) {
            let ways = 1 << log_ways;
            let mut tree = TreePlru::default();
            for way in uses {
                let way = way % ways;
                tree.touch(way, ways);
                prop_assert!(tree.victim(ways) < ways);
                prop_assert_ne!(tree.victim(ways) / (ways / 2), way / (ways / 2));
            }
        }
    }

    /// Using each victim in turn visits all ways before one comes again.
    #[test]
    fn plru_victims_go_round() {
        for ways in [1, 2, 4, 8, 16] {
            let mut tree = TreePlru::default();
            let mut seen = 0u32;
            for _ in 0..ways {
                let way = tree.victim(ways);
                tree.touch(way, ways);
                seen |= 1 << way;
            }
            assert_eq!(seen, (1 << ways) - 1, "{ways} ways");
        }
    }
}
