// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays of lists with a bitmap of the non-empty ones: the least sufficient list in constant time.

use super::tracker::{LISTS, Trackers};

const WORDS: usize = LISTS.div_ceil(64);

/// Lists of hugepages, ranked by their index.
pub struct Lists {
    heads: [u32; LISTS],
    nonempty: [u64; WORDS],
    count: usize,
}

impl Lists {
    /// No hugepages.
    pub const fn new() -> Self {
        Lists {
            heads: [0; LISTS],
            nonempty: [0; WORDS],
            count: 0,
        }
    }

    /// Hugepages on all lists.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Puts a hugepage at the front of list `index`.
    pub fn push(&mut self, trackers: &mut Trackers, id: u32, index: usize) {
        let head = self.heads[index];
        trackers[id].next = head;
        trackers[id].previous = 0;
        trackers[id].index = index as u16;
        if head == 0 {
            self.nonempty[index / 64] |= 1 << (index % 64);
        } else {
            trackers[head].previous = id;
        }
        self.heads[index] = id;
        self.count += 1;
    }

    /// Takes a hugepage off the list it is on.
    pub fn remove(&mut self, trackers: &mut Trackers, id: u32) {
        let (next, previous) = (trackers[id].next, trackers[id].previous);
        let index = trackers[id].index as usize;
        if next != 0 {
            trackers[next].previous = previous;
        }
        if previous != 0 {
            trackers[previous].next = next;
        } else {
            self.heads[index] = next;
            if next == 0 {
                self.nonempty[index / 64] &= !(1 << (index % 64));
            }
        }
        self.count -= 1;
    }

    /// The first hugepage of the lowest non-empty list from `index` on, or 0.
    pub fn least(&self, index: usize) -> u32 {
        let mut word = index / 64;
        let mut bits = self.nonempty[word] & (u64::MAX << (index % 64));
        while bits == 0 {
            word += 1;
            if word == WORDS {
                return 0;
            }
            bits = self.nonempty[word];
        }
        self.heads[word * 64 + bits.trailing_zeros() as usize]
    }

    /// Calls `visit` for hugepages from the highest list down until it returns false.
    pub fn visit_down(&self, trackers: &Trackers, mut visit: impl FnMut(u32) -> bool) {
        for word in (0..WORDS).rev() {
            let mut bits = self.nonempty[word];
            while bits != 0 {
                let bit = 63 - bits.leading_zeros() as usize;
                bits &= !(1 << bit);
                let mut id = self.heads[word * 64 + bit];
                while id != 0 {
                    if !visit(id) {
                        return;
                    }
                    id = trackers[id].next;
                }
            }
        }
    }
}

impl Default for Lists {
    fn default() -> Self {
        Self::new()
    }
}
