// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is quick to ask about the up to 16 ways of a set: a byte of each key side by side, eight of
//! them compared at once in a word, and the order of their last uses as 4-bit way numbers in one
//! word, so that an update moves no data. TLBs, walk caches and data caches are made of these.

const NIBBLES: u64 = 0x1111_1111_1111_1111;
const LOW_BITS: u64 = 0x0101_0101_0101_0101;

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

/// The ways of a set from the most to the least recently used, four bits each. A set of fewer than
/// 16 ways uses the lowest of them.
#[derive(Clone, Copy, Debug)]
pub struct Recency(pub(crate) u64);

/// Any order of the ways will do; here the first is the most recent.
impl Default for Recency {
    fn default() -> Self {
        Recency(0xfedc_ba98_7654_3210)
    }
}

impl Recency {
    /// The least recently used of the first `ways` (1 to 16).
    #[inline(always)]
    pub fn oldest(self, ways: u32) -> u32 {
        (self.0 >> (4 * (ways - 1)) & 15) as u32
    }

    /// The same, which becomes the most recently used.
    #[inline(always)]
    pub fn reuse_oldest(&mut self, ways: u32) -> u32 {
        let way = self.oldest(ways);
        self.bring_front(4 * (ways - 1), way);
        way
    }

    /// `way` becomes the most recently used.
    #[inline(always)]
    pub fn touch(&mut self, way: u32) {
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
        self.touch(way);
        let shift = 4 * (ways - 1);
        let used = u64::MAX >> (60 - shift);
        let moved = ((self.0 & used) >> 4) | u64::from(way) << shift;
        self.0 = (self.0 & !used) | moved;
    }

    /// The order as one word, for those who only want to have read it.
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

    /// Each operation on the word does what it says to a list of ways.
    #[test]
    fn recency_is_a_list_of_ways() {
        for ways in 1..=16u32 {
            let mut order = Recency::default();
            let mut list: Vec<u32> = (0..16).collect();
            let mut seed = u64::from(ways);
            for _ in 0..2000 {
                seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                let way = (seed >> 40) as u32 % ways;
                let last = ways as usize - 1;
                match seed >> 61 {
                    0 | 1 => {
                        let oldest = list.remove(last);
                        list.insert(0, oldest);
                        assert_eq!(order.reuse_oldest(ways), oldest);
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
                assert_eq!(order.oldest(ways), list[last]);
                let word = list
                    .iter()
                    .rev()
                    .fold(0, |word, &w| word << 4 | u64::from(w));
                assert_eq!(order.word(), word, "{ways} ways");
            }
        }
    }
}
