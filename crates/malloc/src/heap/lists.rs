// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays of lists with a bitmap of the non-empty ones: the least sufficient list in constant time.
//! What a search looks at lies together, so that a small program touches few pages of it.

use super::tracker::{LISTS, Trackers};

const WORDS: usize = LISTS.div_ceil(64);

/// `KINDS` arrays of lists of hugepages, which are ranked by the index of their list.
pub struct Lists<const KINDS: usize> {
    counts: [usize; KINDS],
    nonempty: [[u64; WORDS]; KINDS],
    heads: [[u32; LISTS]; KINDS],
}

impl<const KINDS: usize> Lists<KINDS> {
    /// No hugepages.
    pub const fn new() -> Self {
        Lists {
            counts: [0; KINDS],
            nonempty: [[0; WORDS]; KINDS],
            heads: [[0; LISTS]; KINDS],
        }
    }

    /// Hugepages on all lists of a kind.
    pub const fn count(&self, kind: usize) -> usize {
        self.counts[kind]
    }

    /// Puts a hugepage at the front of list `index` of a kind.
    pub fn push(&mut self, trackers: &mut Trackers, kind: usize, id: u32, index: usize) {
        let head = self.heads[kind][index];
        trackers[id].next = head;
        trackers[id].previous = 0;
        trackers[id].kind = kind as u8;
        trackers[id].index = index as u16;
        if head == 0 {
            self.nonempty[kind][index / 64] |= 1 << (index % 64);
        } else {
            trackers[head].previous = id;
        }
        self.heads[kind][index] = id;
        self.counts[kind] += 1;
    }

    /// Takes a hugepage off the list it is on.
    pub fn remove(&mut self, trackers: &mut Trackers, id: u32) {
        let (next, previous) = (trackers[id].next, trackers[id].previous);
        let (kind, index) = (trackers[id].kind as usize, trackers[id].index as usize);
        if next != 0 {
            trackers[next].previous = previous;
        }
        if previous != 0 {
            trackers[previous].next = next;
        } else {
            self.heads[kind][index] = next;
            if next == 0 {
                self.nonempty[kind][index / 64] &= !(1 << (index % 64));
            }
        }
        self.counts[kind] -= 1;
    }

    /// The first hugepage of the lowest non-empty list of a kind from `index` on, or 0.
    pub fn least(&self, kind: usize, index: usize) -> u32 {
        if self.counts[kind] == 0 {
            return 0;
        }
        let nonempty = &self.nonempty[kind];
        let mut word = index / 64;
        let mut bits = nonempty[word] & (u64::MAX << (index % 64));
        while bits == 0 {
            word += 1;
            if word == WORDS {
                return 0;
            }
            bits = nonempty[word];
        }
        self.heads[kind][word * 64 + bits.trailing_zeros() as usize]
    }

    /// Calls `visit` for hugepages of a kind until it returns false: from the highest list down, or
    /// from the lowest up.
    pub fn visit(
        &self,
        trackers: &Trackers,
        kind: usize,
        down: bool,
        mut visit: impl FnMut(u32) -> bool,
    ) {
        for step in 0..WORDS {
            let word = if down { WORDS - 1 - step } else { step };
            let mut bits = self.nonempty[kind][word];
            while bits != 0 {
                let bit = if down {
                    bits.ilog2()
                } else {
                    bits.trailing_zeros()
                };
                bits &= !(1 << bit);
                let mut id = self.heads[kind][word * 64 + bit as usize];
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

impl<const KINDS: usize> Default for Lists<KINDS> {
    fn default() -> Self {
        Self::new()
    }
}
