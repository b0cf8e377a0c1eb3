// SPDX-License-Identifier: MIT OR Apache-2.0
//! A set-associative array of keys and values with exact LRU or tree-PLRU replacement: the one
//! structure behind every TLB and page-walk cache of the model.
//!
//! Up to 16 ways a set keeps 32-bit tags side by side (compared several at a time) and its
//! recency order as sixteen 4-bit way numbers in one word, so that a look-up that misses reads two
//! or three cache lines of the host and an update moves no data. Wider sets (fully associative
//! arrays) use a hash index and a linked list, O(1) for any number of ways.

use crate::error::ConfigError;
use crate::wide::WideSet;
use serde::{Deserialize, Serialize};

/// Which entry of a full set leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replacement {
    /// The least recently used one.
    #[default]
    Lru,
    /// The one a binary tree of direction bits points at; ways must be a power of two.
    Plru,
}

/// Sets and ways; neither has to be a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    /// Entries in all.
    pub entries: u32,
    /// Entries in one set; equal to `entries`: fully associative.
    pub ways: u32,
    /// Replacement.
    #[serde(default)]
    pub replacement: Replacement,
}

impl Geometry {
    /// `entries` entries in sets of `ways`, LRU.
    pub const fn new(entries: u32, ways: u32) -> Self {
        Geometry {
            entries,
            ways,
            replacement: Replacement::Lru,
        }
    }

    /// One set of `entries` entries, LRU.
    pub const fn full(entries: u32) -> Self {
        Geometry::new(entries, entries)
    }

    /// Checks that such an array can be built.
    ///
    /// # Errors
    /// If a number is zero, the sets do not come out whole, or PLRU has no whole tree.
    pub fn check(&self, what: &str) -> Result<(), ConfigError> {
        let Geometry {
            entries,
            ways,
            replacement,
        } = *self;
        if entries == 0 || ways == 0 || !entries.is_multiple_of(ways) {
            return Err(ConfigError::Geometry {
                what: what.to_owned(),
                entries,
                ways,
            });
        }
        if replacement == Replacement::Plru && (!ways.is_power_of_two() || ways > 16) {
            return Err(ConfigError::Plru {
                what: what.to_owned(),
                ways,
            });
        }
        Ok(())
    }
}

const EMPTY: u64 = u64::MAX;
const NIBBLES: u64 = 0x1111_1111_1111_1111;

/// The array. Keys are any `u64` but `u64::MAX`; the set comes from the `index` given beside the
/// key, so that one array can hold pages of several sizes, each indexed by its own page number.
#[derive(Clone, Debug)]
pub struct Assoc {
    sets: u64,
    set_mask: Option<u64>,
    ways: usize,
    replacement: Replacement,
    body: Body,
    len: usize,
}

#[derive(Clone, Debug)]
enum Body {
    Narrow(Narrow),
    Wide(Vec<WideSet>),
}

#[derive(Clone, Debug)]
struct Narrow {
    /// Low halves of the keys, `stride` a set, empty ones 0.
    tags: Vec<u32>,
    keys: Vec<u64>,
    values: Vec<u64>,
    /// LRU: way numbers, most recent lowest. PLRU: direction bits.
    order: Vec<u64>,
    stride: usize,
}

#[inline(always)]
fn matches<const N: usize>(row: &[u32], tag: u32) -> u32 {
    let row: &[u32; N] = row[..N].try_into().expect("stride");
    let mut mask = 0;
    for (way, &entry) in row.iter().enumerate() {
        mask |= u32::from(entry == tag) << way;
    }
    mask
}

#[inline(always)]
fn tag_of(key: u64) -> u32 {
    (key ^ (key >> 32)) as u32
}

impl Narrow {
    #[inline(always)]
    fn find(&self, set: usize, key: u64) -> Option<usize> {
        let first = set * self.stride;
        let row = &self.tags[first..first + self.stride];
        let tag = tag_of(key);
        let mut mask = match self.stride {
            4 => matches::<4>(row, tag),
            8 => matches::<8>(row, tag),
            12 => matches::<12>(row, tag),
            _ => matches::<16>(row, tag),
        };
        while mask != 0 {
            let way = mask.trailing_zeros() as usize;
            if self.keys[first + way] == key {
                return Some(way);
            }
            mask &= mask - 1;
        }
        None
    }

    #[inline(always)]
    fn touch_lru(&mut self, set: usize, way: usize) {
        let order = self.order[set];
        if order & 15 == way as u64 {
            return;
        }
        // The lowest zero nibble of `order ^ way` is the place of `way`.
        let differs = order ^ (NIBBLES * way as u64);
        let zero = differs.wrapping_sub(NIBBLES) & !differs & (NIBBLES << 3);
        let shift = zero.trailing_zeros() - 3;
        let below = (1u64 << shift) - 1;
        let above = !(below << 4 | 15);
        self.order[set] = (order & above) | ((order & below) << 4) | way as u64;
    }

    fn send_last(&mut self, set: usize, way: usize, ways: usize) {
        self.touch_lru(set, way);
        let used = if ways == 16 {
            u64::MAX
        } else {
            (1u64 << (4 * ways)) - 1
        };
        let order = self.order[set];
        let rotated = ((order & used) >> 4) | ((way as u64) << (4 * (ways - 1)));
        self.order[set] = (order & !used) | rotated;
    }

    fn touch_plru(&mut self, set: usize, way: usize, ways: usize) {
        let mut node = 1usize;
        let mut span = ways;
        while span > 1 {
            span /= 2;
            let right = (way / span) & 1;
            let bit = 1u64 << node;
            if right == 1 {
                self.order[set] &= !bit;
            } else {
                self.order[set] |= bit;
            }
            node = node * 2 + right;
        }
    }

    fn victim_plru(&self, set: usize, ways: usize) -> usize {
        let first = set * self.stride;
        if let Some(free) = (0..ways).find(|&way| self.keys[first + way] == EMPTY) {
            return free;
        }
        let (mut node, mut span, mut way) = (1usize, ways, 0);
        while span > 1 {
            span /= 2;
            let right = (self.order[set] >> node & 1) as usize;
            way += right * span;
            node = node * 2 + right;
        }
        way
    }
}

/// Where an entry lies; valid until the next change of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    set: u32,
    at: u32,
}

impl Assoc {
    /// An empty array.
    ///
    /// # Errors
    /// As [`Geometry::check`]; `what` names the array in the message.
    pub fn new(geometry: Geometry, what: &str) -> Result<Self, ConfigError> {
        geometry.check(what)?;
        let ways = geometry.ways as usize;
        let sets = (geometry.entries / geometry.ways) as usize;
        let body = if ways <= 16 {
            let stride = ways.next_multiple_of(4);
            Body::Narrow(Narrow {
                tags: vec![0; sets * stride],
                keys: vec![EMPTY; sets * stride],
                values: vec![0; sets * stride],
                order: vec![initial_order(geometry.replacement); sets],
                stride,
            })
        } else {
            Body::Wide((0..sets).map(|_| WideSet::new(ways)).collect())
        };
        let sets = sets as u64;
        Ok(Assoc {
            sets,
            set_mask: sets.is_power_of_two().then(|| sets - 1),
            ways,
            replacement: geometry.replacement,
            body,
            len: 0,
        })
    }

    /// Entries held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if nothing is held.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Entries it can hold.
    pub fn capacity(&self) -> usize {
        self.sets as usize * self.ways
    }

    #[inline(always)]
    fn set(&self, index: u64) -> usize {
        match self.set_mask {
            Some(mask) => (index & mask) as usize,
            None => (index % self.sets) as usize,
        }
    }

    /// Finds `key` and makes it the most recently used.
    #[inline(always)]
    pub fn lookup(&mut self, index: u64, key: u64) -> Option<(Slot, u64)> {
        let set = self.set(index);
        match &mut self.body {
            Body::Narrow(narrow) => {
                let way = narrow.find(set, key)?;
                match self.replacement {
                    Replacement::Lru => narrow.touch_lru(set, way),
                    Replacement::Plru => narrow.touch_plru(set, way, self.ways),
                }
                let value = narrow.values[set * narrow.stride + way];
                Some((
                    Slot {
                        set: set as u32,
                        at: way as u32,
                    },
                    value,
                ))
            }
            Body::Wide(sets) => {
                let at = sets[set].lookup(key)?;
                Some((
                    Slot {
                        set: set as u32,
                        at,
                    },
                    sets[set].value(at),
                ))
            }
        }
    }

    /// Finds `key` and changes nothing.
    pub fn peek(&self, index: u64, key: u64) -> Option<u64> {
        let set = self.set(index);
        match &self.body {
            Body::Narrow(narrow) => narrow
                .find(set, key)
                .map(|way| narrow.values[set * narrow.stride + way]),
            Body::Wide(sets) => sets[set].find(key).map(|at| sets[set].value(at)),
        }
    }

    /// Replaces the value of an entry just found.
    #[inline]
    pub fn set_value(&mut self, slot: Slot, value: u64) {
        match &mut self.body {
            Body::Narrow(narrow) => {
                narrow.values[slot.set as usize * narrow.stride + slot.at as usize] = value;
            }
            Body::Wide(sets) => sets[slot.set as usize].set_value(slot.at, value),
        }
    }

    /// Puts in an entry as the most recently used, over an older value of the same key if there
    /// is one. Returns the entry that had to leave.
    #[inline(always)]
    pub fn insert(&mut self, index: u64, key: u64, value: u64) -> Option<(u64, u64)> {
        debug_assert_ne!(key, EMPTY);
        let set = self.set(index);
        if let Some((slot, _)) = self.lookup(index, key) {
            self.set_value(slot, value);
            return None;
        }
        self.fill(set, key, value)
    }

    /// As [`insert`](Self::insert), for a key known not to be present.
    #[inline(always)]
    pub fn insert_new(&mut self, index: u64, key: u64, value: u64) -> Option<(u64, u64)> {
        debug_assert!(
            self.peek(index, key).is_none(),
            "key {key:#x} is already present"
        );
        let set = self.set(index);
        self.fill(set, key, value)
    }

    #[inline(always)]
    fn fill(&mut self, set: usize, key: u64, value: u64) -> Option<(u64, u64)> {
        let old = match &mut self.body {
            Body::Narrow(narrow) => {
                let way = match self.replacement {
                    Replacement::Lru => {
                        let order = narrow.order[set];
                        let way = (order >> (4 * (self.ways - 1)) & 15) as usize;
                        // The last of the order becomes the first; unused nibbles stay.
                        narrow.order[set] = rotate_in(order, way as u64, self.ways);
                        way
                    }
                    Replacement::Plru => {
                        let way = narrow.victim_plru(set, self.ways);
                        narrow.touch_plru(set, way, self.ways);
                        way
                    }
                };
                let at = set * narrow.stride + way;
                let old = (narrow.keys[at], narrow.values[at]);
                narrow.tags[at] = tag_of(key);
                narrow.keys[at] = key;
                narrow.values[at] = value;
                (old.0 != EMPTY).then_some(old)
            }
            Body::Wide(sets) => sets[set].insert_new(key, value),
        };
        self.len += usize::from(old.is_none());
        old
    }

    /// Removes `key`; true if it was present.
    pub fn remove(&mut self, index: u64, key: u64) -> bool {
        let set = self.set(index);
        let ways = self.ways;
        let found = match &mut self.body {
            Body::Narrow(narrow) => match narrow.find(set, key) {
                Some(way) => {
                    let at = set * narrow.stride + way;
                    narrow.keys[at] = EMPTY;
                    narrow.tags[at] = 0;
                    if self.replacement == Replacement::Lru {
                        narrow.send_last(set, way, ways);
                    }
                    true
                }
                None => false,
            },
            Body::Wide(sets) => sets[set].remove(key),
        };
        self.len -= usize::from(found);
        found
    }

    /// Keeps the entries for which `keep(key, value)` is true; returns how many left.
    pub fn retain(&mut self, mut keep: impl FnMut(u64, u64) -> bool) -> usize {
        let mut doomed = Vec::new();
        self.for_each(|set, key, value| {
            if !keep(key, value) {
                doomed.push((set, key));
            }
        });
        for &(set, key) in &doomed {
            self.remove(set, key);
        }
        doomed.len()
    }

    /// Calls `visit(set, key, value)` for every entry.
    pub fn for_each(&self, mut visit: impl FnMut(u64, u64, u64)) {
        match &self.body {
            Body::Narrow(narrow) => {
                for (at, &key) in narrow.keys.iter().enumerate() {
                    if key != EMPTY {
                        visit((at / narrow.stride) as u64, key, narrow.values[at]);
                    }
                }
            }
            Body::Wide(sets) => {
                for (number, set) in sets.iter().enumerate() {
                    set.for_each(|key, value| visit(number as u64, key, value));
                }
            }
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        if self.len > 0 {
            self.retain(|_, _| false);
        }
    }
}

fn initial_order(replacement: Replacement) -> u64 {
    match replacement {
        // Way 15 most recent ... way 0 is not what matters: any permutation of 0..16 will do.
        Replacement::Lru => 0xfedc_ba98_7654_3210,
        Replacement::Plru => 0,
    }
}

#[inline(always)]
fn rotate_in(order: u64, way: u64, ways: usize) -> u64 {
    let shift = 4 * (ways - 1);
    let below = (1u64 << shift) - 1;
    let above = !(below << 4 | 15);
    (order & above) | ((order & below) << 4) | way
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The plainest possible LRU set: a vector in order of use.
    struct Reference {
        ways: usize,
        sets: Vec<Vec<(u64, u64)>>,
    }

    impl Reference {
        fn lookup(&mut self, index: u64, key: u64) -> Option<u64> {
            let count = self.sets.len() as u64;
            let set = &mut self.sets[(index % count) as usize];
            let at = set.iter().position(|e| e.0 == key)?;
            let entry = set.remove(at);
            set.insert(0, entry);
            Some(entry.1)
        }

        fn insert(&mut self, index: u64, key: u64, value: u64) -> Option<(u64, u64)> {
            let count = self.sets.len() as u64;
            let set = &mut self.sets[(index % count) as usize];
            if let Some(at) = set.iter().position(|e| e.0 == key) {
                set.remove(at);
                set.insert(0, (key, value));
                return None;
            }
            set.insert(0, (key, value));
            if set.len() > self.ways {
                set.pop()
            } else {
                None
            }
        }

        fn remove(&mut self, index: u64, key: u64) -> bool {
            let count = self.sets.len() as u64;
            let set = &mut self.sets[(index % count) as usize];
            let before = set.len();
            set.retain(|e| e.0 != key);
            set.len() != before
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn equals_a_plain_lru(
            sets in 1u32..6,
            ways in 1u32..40,
            steps in proptest::collection::vec((0u8..8, 0u64..120), 1..400),
        ) {
            let mut array = Assoc::new(Geometry::new(sets * ways, ways), "test").unwrap();
            let mut plain = Reference { ways: ways as usize, sets: vec![vec![]; sets as usize] };
            for (step, (what, key)) in steps.into_iter().enumerate() {
                match what {
                    0..3 => prop_assert_eq!(
                        array.lookup(key, key).map(|(_, v)| v), plain.lookup(key, key)),
                    3..7 => prop_assert_eq!(
                        array.insert(key, key, step as u64), plain.insert(key, key, step as u64)),
                    _ => prop_assert_eq!(array.remove(key, key), plain.remove(key, key)),
                }
                prop_assert_eq!(array.len(), plain.sets.iter().map(Vec::len).sum::<usize>());
            }
        }
    }

    #[test]
    fn plru_never_evicts_the_most_recent() {
        let geometry = Geometry {
            entries: 8,
            ways: 8,
            replacement: Replacement::Plru,
        };
        let mut array = Assoc::new(geometry, "test").unwrap();
        for key in 0..1000u64 {
            if key > 0 {
                assert!(array.lookup(0, key - 1).is_some());
            }
            if let Some((old, _)) = array.insert(0, key, 0) {
                assert_ne!(old + 1, key);
            }
            assert!(array.len() <= 8);
        }
    }

    #[test]
    fn impossible_geometries_are_refused() {
        for (entries, ways) in [(0, 1), (8, 0), (10, 4)] {
            assert!(Assoc::new(Geometry::new(entries, ways), "L2").is_err());
        }
        let odd = Geometry {
            entries: 12,
            ways: 12,
            replacement: Replacement::Plru,
        };
        assert!(Assoc::new(odd, "L2").is_err());
    }
}
