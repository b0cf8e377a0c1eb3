// SPDX-License-Identifier: MIT OR Apache-2.0
//! One set of up to 16 ways with exact LRU or tree-PLRU, made for speed: all of it lies together.

use crate::assoc::Replacement;
use crate::ways::{Recency, TagBytes};

const EMPTY: u64 = u64::MAX;

/// What all sets of an array have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// Entries of a set.
    pub(crate) ways: u32,
    /// Which of them leaves.
    pub(crate) replacement: Replacement,
}

impl Row {
    pub(crate) fn new(ways: u32, replacement: Replacement) -> Self {
        Row { ways, replacement }
    }
}

/// A set with room for `W` entries.
#[derive(Clone, Debug)]
pub(crate) struct NarrowSet<const W: usize> {
    /// LRU: the order of the ways. PLRU: direction bits.
    order: Recency,
    tags: TagBytes,
    /// Keys and values.
    entries: [(u64, u64); W],
}

/// Eight bits of a key.
#[inline(always)]
fn tag_of(key: u64) -> u8 {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

impl<const W: usize> NarrowSet<W> {
    pub(crate) fn new(row: &Row) -> Self {
        NarrowSet {
            order: match row.replacement {
                Replacement::Lru => Recency::default(),
                Replacement::Plru => Recency(0),
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
            Replacement::Lru => self.order.touch(way),
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
            Replacement::Lru => self.order.reuse_oldest(row.ways) as usize,
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
            self.order.make_oldest(way, row.ways);
        }
        true
    }

    pub(crate) fn for_each(&self, mut visit: impl FnMut(u64, u64)) {
        for &(key, value) in self.entries.iter().filter(|(key, _)| *key != EMPTY) {
            visit(key, value);
        }
    }

    fn touch_plru(&mut self, way: u32, ways: u32) {
        let mut node = 1;
        let mut span = ways;
        while span > 1 {
            span /= 2;
            let right = (way / span) & 1;
            let bit = 1u64 << node;
            if right == 1 {
                self.order.0 &= !bit;
            } else {
                self.order.0 |= bit;
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
            let right = (self.order.0 >> node & 1) as u32;
            way += right * span;
            node = node * 2 + right;
        }
        way
    }
}
