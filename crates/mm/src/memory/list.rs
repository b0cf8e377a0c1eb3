// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ordered lists of blocks: free lists and LRU lists.
//!
//! A linked list through the frames would touch two neighbours, anywhere in memory, for each
//! removal. Here the list is a ring of frame numbers; a frame knows its position, a removal
//! leaves a gap, and gaps are squeezed out when the ring is full and half of it is gaps. Order and
//! results are those of a doubly linked list, the cache misses are not.

use super::frames::Frames;

/// A removed entry.
const GAP: u32 = u32::MAX;
/// Position of the first entry of a fresh list: in the middle of the 48 bits that a frame has for
/// it, so that neither end is ever reached.
const MIDDLE: u64 = 1 << 47;
/// Entries of the smallest ring.
const SMALLEST: usize = 16;

/// An ordered list with removal anywhere. The first and the last entry are never gaps.
#[derive(Clone, Debug)]
pub struct List {
    /// The entry at position `p` is `ring[p % ring.len()]`; the length is a power of two, or 0.
    ring: Vec<u32>,
    /// Position of the first entry.
    first: u64,
    /// Entries and gaps from the first entry to the last.
    span: u32,
    count: u32,
}

impl List {
    /// An empty list.
    pub const EMPTY: List = List {
        ring: Vec::new(),
        first: MIDDLE,
        span: 0,
        count: 0,
    };

    /// Number of blocks on it.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.count
    }

    #[inline]
    fn slot(&self, position: u64) -> usize {
        position as usize & self.ring.len().wrapping_sub(1)
    }

    #[inline]
    fn last(&self) -> u64 {
        self.first + u64::from(self.span) - 1
    }

    /// The block at the head.
    #[inline]
    pub(crate) fn head(&self) -> Option<u32> {
        (self.count > 0).then(|| self.ring[self.slot(self.first)])
    }

    /// The block at the tail.
    #[inline]
    pub(crate) fn tail(&self) -> Option<u32> {
        (self.count > 0).then(|| self.ring[self.slot(self.last())])
    }

    /// Adds a block at the head; its position, for the frame to keep.
    #[inline]
    pub(crate) fn push_head(&mut self, frames: &mut Frames, pfn: u32) -> u64 {
        if self.span as usize == self.ring.len() {
            self.make_room(frames);
        }
        self.first -= 1;
        let slot = self.slot(self.first);
        self.ring[slot] = pfn;
        self.span += 1;
        self.count += 1;
        self.first
    }

    /// Adds a block at the tail; its position, for the frame to keep.
    #[inline]
    pub(crate) fn push_tail(&mut self, frames: &mut Frames, pfn: u32) -> u64 {
        if self.span as usize == self.ring.len() {
            self.make_room(frames);
        }
        self.span += 1;
        self.count += 1;
        let slot = self.slot(self.last());
        self.ring[slot] = pfn;
        self.last()
    }

    /// Takes out the block at a position.
    #[inline]
    pub(crate) fn remove(&mut self, position: u64) {
        let slot = self.slot(position);
        debug_assert_ne!(self.ring[slot], GAP, "removed twice");
        self.ring[slot] = GAP;
        self.count -= 1;
        if position == self.first {
            self.trim_head();
        } else if position == self.last() {
            self.trim_tail();
        }
    }

    #[inline]
    fn trim_head(&mut self) {
        while self.span > 0 && self.ring[self.slot(self.first)] == GAP {
            self.first += 1;
            self.span -= 1;
        }
    }

    #[inline]
    fn trim_tail(&mut self) {
        while self.span > 0 && self.ring[self.slot(self.last())] == GAP {
            self.span -= 1;
        }
    }

    /// Puts another block at a position.
    pub(crate) fn replace(&mut self, position: u64, pfn: u32) {
        let slot = self.slot(position);
        debug_assert_ne!(self.ring[slot], GAP, "replaced what is gone");
        self.ring[slot] = pfn;
    }

    /// The blocks from a position on towards the tail, with their positions.
    pub(crate) fn from(&self, position: u64) -> impl Iterator<Item = (u64, u32)> + '_ {
        (position..self.first + u64::from(self.span))
            .map(|position| (position, self.ring[self.slot(position)]))
            .filter(|&(_, pfn)| pfn != GAP)
    }

    /// All blocks from head to tail, with their positions.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.from(self.first)
    }

    /// Up to `count` entries nearest to the head, gaps left in (they are no frame).
    #[inline]
    pub(crate) fn near_head(&self, count: u32) -> impl Iterator<Item = u32> + '_ {
        let end = self.first + u64::from(self.span.min(count));
        (self.first..end).map(|position| self.ring[self.slot(position)])
    }

    /// Up to `count` entries nearest to the tail, gaps left in (they are no frame).
    #[inline]
    pub(crate) fn near_tail(&self, count: u32) -> impl Iterator<Item = u32> + '_ {
        let end = self.first + u64::from(self.span);
        let start = end - u64::from(self.span.min(count));
        (start..end).map(|position| self.ring[self.slot(position)])
    }

    /// Squeezes out the gaps if they are half of the full ring, else doubles it.
    #[cold]
    fn make_room(&mut self, frames: &mut Frames) {
        let blocks: Vec<(u64, u32)> = self.iter().collect();
        let old = self.ring.len();
        if 2 * self.count as usize > old || old < SMALLEST {
            self.ring = vec![GAP; (2 * old).max(SMALLEST)];
            for (position, pfn) in blocks {
                let slot = self.slot(position);
                self.ring[slot] = pfn;
            }
            return;
        }
        self.first = MIDDLE;
        self.span = self.count;
        for (position, (_, pfn)) in (MIDDLE..).zip(blocks) {
            let slot = self.slot(position);
            self.ring[slot] = pfn;
            frames.set(pfn, frames.get(pfn).at(position));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ample_kit::random::Xoshiro256 as Rng;
    use std::collections::VecDeque;

    /// Any sequence of operations gives what a plain vector gives.
    #[test]
    fn behaves_as_a_plain_vector() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let mut frames = Frames::new(4096);
            let mut list = List::EMPTY;
            let mut plain: VecDeque<u32> = VecDeque::new();
            let mut spare: Vec<u32> = (0..4096).collect();
            for _ in 0..20_000 {
                match rng.below(5) {
                    0 | 1 if !spare.is_empty() => {
                        let pfn = spare.swap_remove(rng.below(spare.len() as u32) as usize);
                        let position = if rng.chance(0.5) {
                            plain.push_front(pfn);
                            list.push_head(&mut frames, pfn)
                        } else {
                            plain.push_back(pfn);
                            list.push_tail(&mut frames, pfn)
                        };
                        frames.set(pfn, frames.get(pfn).at(position));
                    }
                    2 | 3 if !plain.is_empty() => {
                        let index = rng.below(plain.len() as u32) as usize;
                        let pfn = plain.remove(index).expect("in range");
                        list.remove(frames.get(pfn).place());
                        spare.push(pfn);
                    }
                    4 if !plain.is_empty() && !spare.is_empty() => {
                        let index = rng.below(plain.len() as u32) as usize;
                        let new = spare.pop().expect("not empty");
                        let old = std::mem::replace(&mut plain[index], new);
                        let place = frames.get(old).place();
                        list.replace(place, new);
                        frames.set(new, frames.get(new).at(place));
                        spare.push(old);
                    }
                    _ => {}
                }
                assert_eq!(list.head(), plain.front().copied(), "seed {seed}");
                assert_eq!(list.tail(), plain.back().copied(), "seed {seed}");
                assert_eq!(list.len() as usize, plain.len(), "seed {seed}");
            }
            let held: Vec<u32> = list.iter().map(|(_, pfn)| pfn).collect();
            assert_eq!(held, Vec::from(plain), "seed {seed}");
            for (position, pfn) in list.iter() {
                assert_eq!(frames.get(pfn).place(), position, "seed {seed}");
            }
        }
    }
}
