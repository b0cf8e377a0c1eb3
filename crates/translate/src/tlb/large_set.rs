// SPDX-License-Identifier: MIT OR Apache-2.0
//! One set of many ways: a hash index and a doubly linked list, by which exact LRU is O(1). Other
//! policies keep the list too, and change it only as entries come and go.

use super::geometry::Geometry;
use super::leaving::Leaving;
use ample_kit::random::GOLDEN;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    key: u64,
    value: u64,
    newer: u32,
    older: u32,
}

/// A fully associative set.
#[derive(Clone, Debug)]
pub(crate) struct LargeSet<L> {
    leaving: L,
    nodes: Vec<Node>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    capacity: usize,
    /// Open addressing with linear probing; holds node numbers.
    index: Vec<u32>,
    shift: u32,
}

impl<L: Leaving> LargeSet<L> {
    /// An empty set of an array, by its number.
    pub(crate) fn new(geometry: &Geometry, set: usize) -> Self {
        let capacity = geometry.ways as usize;
        let buckets = (capacity * 4).next_power_of_two();
        LargeSet {
            leaving: L::new(geometry, set),
            nodes: Vec::with_capacity(capacity),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            capacity,
            index: vec![NONE; buckets],
            shift: 64 - buckets.trailing_zeros(),
        }
    }

    #[inline(always)]
    fn home(&self, key: u64) -> usize {
        (key.wrapping_mul(GOLDEN) >> self.shift) as usize
    }

    #[inline(always)]
    fn bucket(&self, key: u64) -> Option<usize> {
        let mask = self.index.len() - 1;
        let mut bucket = self.home(key);
        loop {
            let at = self.index[bucket];
            if at == NONE {
                return None;
            }
            if self.nodes[at as usize].key == key {
                return Some(bucket);
            }
            bucket = (bucket + 1) & mask;
        }
    }

    #[inline(always)]
    pub(crate) fn find(&self, key: u64) -> Option<u32> {
        self.bucket(key).map(|bucket| self.index[bucket])
    }

    #[inline(always)]
    pub(crate) fn lookup(&mut self, key: u64) -> Option<u32> {
        let at = self.find(key)?;
        if !L::IS_OLDEST {
            self.leaving.used(at);
        } else if self.newest != at {
            self.unlink(at);
            self.link_newest(at);
        }
        Some(at)
    }

    /// Entries held.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    pub(crate) fn value(&self, at: u32) -> u64 {
        self.nodes[at as usize].value
    }

    pub(crate) fn set_value(&mut self, at: u32, value: u64) {
        self.nodes[at as usize].value = value;
    }

    fn unlink(&mut self, at: u32) {
        let Node { newer, older, .. } = self.nodes[at as usize];
        match newer {
            NONE => self.newest = older,
            _ => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            _ => self.nodes[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, at: u32) {
        let old = self.newest;
        self.nodes[at as usize].newer = NONE;
        self.nodes[at as usize].older = old;
        match old {
            NONE => self.oldest = at,
            _ => self.nodes[old as usize].newer = at,
        }
        self.newest = at;
    }

    /// Empties a bucket and closes the gap in its probe chain.
    fn vacate(&mut self, mut gap: usize) {
        let mask = self.index.len() - 1;
        let mut probe = gap;
        loop {
            probe = (probe + 1) & mask;
            let at = self.index[probe];
            if at == NONE {
                break;
            }
            let home = self.home(self.nodes[at as usize].key);
            // Movable if its home does not lie cyclically in (gap, probe].
            if (probe.wrapping_sub(home) & mask) >= (probe.wrapping_sub(gap) & mask) {
                self.index[gap] = at;
                gap = probe;
            }
        }
        self.index[gap] = NONE;
    }

    pub(crate) fn insert_new(&mut self, key: u64, value: u64) -> Option<(u64, u64)> {
        let mut old = None;
        let at = if let Some(at) = self.free.pop() {
            at
        } else if self.nodes.len() < self.capacity {
            self.nodes.push(Node {
                key,
                value,
                newer: NONE,
                older: NONE,
            });
            self.nodes.len() as u32 - 1
        } else {
            let at = self.leaving.victim(self.oldest, self.capacity as u32);
            let node = self.nodes[at as usize];
            old = Some((node.key, node.value));
            let bucket = self.bucket(node.key).expect("every node is indexed");
            self.vacate(bucket);
            self.unlink(at);
            at
        };
        self.nodes[at as usize].key = key;
        self.nodes[at as usize].value = value;
        self.link_newest(at);
        self.leaving.entered(at);
        let mask = self.index.len() - 1;
        let mut bucket = self.home(key);
        while self.index[bucket] != NONE {
            bucket = (bucket + 1) & mask;
        }
        self.index[bucket] = at;
        old
    }

    pub(crate) fn remove(&mut self, key: u64) -> bool {
        let Some(bucket) = self.bucket(key) else {
            return false;
        };
        let at = self.index[bucket];
        self.vacate(bucket);
        self.unlink(at);
        self.free.push(at);
        true
    }

    pub(crate) fn for_each(&self, mut visit: impl FnMut(u64, u64)) {
        let mut at = self.newest;
        while at != NONE {
            let node = self.nodes[at as usize];
            visit(node.key, node.value);
            at = node.older;
        }
    }
}
