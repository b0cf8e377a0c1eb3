// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bitmap of one hugepage: which of its 256 pages are in use.

use crate::units::PAGES_PER_HUGE;

const WORDS: usize = PAGES_PER_HUGE / 64;

/// One bit for each page of a hugepage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageBits([u64; WORDS]);

/// The bits of word `word` that lie in `start..end`.
const fn word_mask(word: usize, start: usize, end: usize) -> u64 {
    let low = start.saturating_sub(word * 64);
    let high = if end < word * 64 + 64 {
        end - word * 64
    } else {
        64
    };
    if high == 64 {
        u64::MAX << low
    } else {
        ((1u64 << high) - 1) & (u64::MAX << low)
    }
}

impl PageBits {
    /// No page set.
    pub const EMPTY: PageBits = PageBits([0; WORDS]);

    /// Sets `len` bits from `start`.
    pub fn set(&mut self, start: usize, len: usize) {
        self.for_words(start, len, |word, mask| *word |= mask);
    }

    /// Clears `len` bits from `start`.
    pub fn clear(&mut self, start: usize, len: usize) {
        self.for_words(start, len, |word, mask| *word &= !mask);
    }

    fn for_words(&mut self, start: usize, len: usize, apply: impl Fn(&mut u64, u64)) {
        if len == 0 {
            return;
        }
        let end = start + len;
        debug_assert!(end <= PAGES_PER_HUGE);
        for word in start / 64..=(end - 1) / 64 {
            apply(&mut self.0[word], word_mask(word, start, end));
        }
    }

    /// How many of the `len` bits from `start` are set.
    pub fn count_in(&self, start: usize, len: usize) -> usize {
        if len == 0 {
            return 0;
        }
        let end = start + len;
        (start / 64..=(end - 1) / 64)
            .map(|word| (self.0[word] & word_mask(word, start, end)).count_ones() as usize)
            .sum()
    }

    /// How many bits are set.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The index of the first bit at or after `from` whose value is `value`, or 256.
    pub fn find(&self, from: usize, value: bool) -> usize {
        let flip = if value { 0 } else { u64::MAX };
        let mut word = from / 64;
        if word >= WORDS {
            return PAGES_PER_HUGE;
        }
        let mut bits = (self.0[word] ^ flip) & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            if word == WORDS {
                return PAGES_PER_HUGE;
            }
            bits = self.0[word] ^ flip;
        }
        word * 64 + bits.trailing_zeros() as usize
    }

    /// The run of clear bits at or after `from`: `(start, len)`.
    pub fn clear_run(&self, from: usize) -> Option<(usize, usize)> {
        let start = self.find(from, false);
        if start >= PAGES_PER_HUGE {
            return None;
        }
        Some((start, self.find(start, true) - start))
    }

    /// The length of the run of clear bits that holds the clear bits from `start` to `end`.
    pub fn run_around(&self, start: usize, end: usize) -> usize {
        let mut word = start / 64;
        let mut bits = self.0[word] & !(u64::MAX << (start % 64));
        while bits == 0 && word > 0 {
            word -= 1;
            bits = self.0[word];
        }
        let first = if bits == 0 {
            0
        } else {
            word * 64 + 64 - bits.leading_zeros() as usize
        };
        self.find(end, true) - first
    }

    /// The length of the longest run of clear bits.
    pub fn longest_clear(&self) -> usize {
        let (mut from, mut longest) = (0, 0);
        while let Some((start, len)) = self.clear_run(from) {
            longest = longest.max(len);
            from = start + len;
            if PAGES_PER_HUGE - from.min(PAGES_PER_HUGE) <= longest {
                break;
            }
        }
        longest
    }

    /// The first run of `len` clear bits that begins at a multiple of `align`.
    pub fn aligned_fit(&self, len: usize, align: usize) -> Option<usize> {
        let last = PAGES_PER_HUGE.checked_sub(len)?;
        (0..=last)
            .step_by(align)
            .find(|&start| self.count_in(start, len) == 0)
    }

    /// Best fit inside the hugepage: the shortest clear run of at least `len` bits, the lowest one
    /// among equals: `(start, length of the run)`.
    pub fn best_fit(&self, len: usize) -> Option<(usize, usize)> {
        let mut best: Option<(usize, usize)> = None;
        let mut from = 0;
        while let Some((start, run)) = self.clear_run(from) {
            if run == len {
                return Some((start, run));
            }
            if run > len && best.is_none_or(|(_, shortest)| run < shortest) {
                best = Some((start, run));
            }
            from = start + run;
        }
        best
    }

    /// Bits set in `self` and not in `other`.
    pub fn and_not(self, other: PageBits) -> PageBits {
        let mut result = self;
        for (word, mask) in result.0.iter_mut().zip(other.0) {
            *word &= !mask;
        }
        result
    }

    /// Bits set in either.
    pub fn or(self, other: PageBits) -> PageBits {
        let mut result = self;
        for (word, mask) in result.0.iter_mut().zip(other.0) {
            *word |= mask;
        }
        result
    }

    /// Every bit flipped.
    pub fn inverted(self) -> PageBits {
        PageBits(self.0.map(|word| !word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naive(bits: &[bool; PAGES_PER_HUGE]) -> PageBits {
        let mut map = PageBits::EMPTY;
        for (index, &set) in bits.iter().enumerate() {
            if set {
                map.set(index, 1);
            }
        }
        map
    }

    fn runs(bits: &[bool; PAGES_PER_HUGE]) -> Vec<(usize, usize)> {
        let mut runs = Vec::new();
        let mut start = None;
        for (index, used) in bits.iter().copied().chain([true]).enumerate() {
            let clear = !used;
            match (clear, start) {
                (true, None) => start = Some(index),
                (false, Some(first)) => {
                    runs.push((first, index - first));
                    start = None;
                }
                _ => {}
            }
        }
        runs
    }

    proptest! {
        #[test]
        fn agrees_with_a_list_of_booleans(
            operations in prop::collection::vec((0..256usize, 1..64usize, any::<bool>()), 0..40),
            wanted in 1..=256usize,
        ) {
            let mut model = [false; PAGES_PER_HUGE];
            let mut bits = PageBits::EMPTY;
            for (start, len, value) in operations {
                let len = len.min(PAGES_PER_HUGE - start);
                model[start..start + len].fill(value);
                if value { bits.set(start, len) } else { bits.clear(start, len) }
            }
            prop_assert_eq!(bits, naive(&model));
            prop_assert_eq!(bits.count(), model.iter().filter(|set| **set).count());
            let runs = runs(&model);
            let longest = runs.iter().map(|run| run.1).max().unwrap_or(0);
            prop_assert_eq!(bits.longest_clear(), longest);
            let best = runs
                .iter()
                .filter(|run| run.1 >= wanted)
                .min_by_key(|run| (run.1, run.0))
                .copied();
            prop_assert_eq!(bits.best_fit(wanted), best);
            for &(start, len) in &runs {
                prop_assert_eq!(bits.run_around(start, start + 1), len);
                prop_assert_eq!(bits.run_around(start + len / 2, start + len), len);
            }
            prop_assert_eq!(bits.inverted().count(), 256 - bits.count());
        }
    }
}
