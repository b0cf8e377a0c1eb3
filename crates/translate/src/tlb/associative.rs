// SPDX-License-Identifier: MIT OR Apache-2.0
//! A set-associative array of keys and values with exact LRU or tree-PLRU replacement: the one
//! structure behind every TLB and page-walk cache of the model.
//!
//! A set of up to 16 ways is a `SmallSet`: a few instructions a look-up. A larger one (a fully
//! associative array) is a `LargeSet`, a hash index and a linked list: O(1) for any number of ways.

use super::ask::{Pages, ask_each, full};
use super::geometry::Geometry;
use super::large_set::LargeSet;
use super::small_set::{SetShape, SmallSet};
use crate::error::ConfigError;

/// The array. Keys are any `u64` but `u64::MAX`; the set comes from the `index` given beside the
/// key, so that one array can hold pages of several sizes, each indexed by its own page number.
#[derive(Clone, Debug)]
pub struct AssocArray {
    sets: u64,
    set_mask: Option<u64>,
    shape: SetShape,
    body: Body,
}

/// Sets of up to 4, 8, 12 and 16 ways, and larger ones.
#[derive(Clone, Debug)]
enum Body {
    Four(Vec<SmallSet<4, 1>>),
    Eight(Vec<SmallSet<8, 2>>),
    Twelve(Vec<SmallSet<12, 3>>),
    Sixteen(Vec<SmallSet<16, 4>>),
    Large(Vec<LargeSet>),
}

/// The same expression on small sets of each width, and one for large sets.
macro_rules! on_sets {
    ($body:expr, $sets:ident => $narrow:expr, $wide:ident => $other:expr) => {
        match $body {
            Body::Four($sets) => $narrow,
            Body::Eight($sets) => $narrow,
            Body::Twelve($sets) => $narrow,
            Body::Sixteen($sets) => $narrow,
            Body::Large($wide) => $other,
        }
    };
}

/// Where an entry lies; valid until the next change of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    set: u32,
    at: u32,
}

#[inline(always)]
fn set_of(mask: Option<u64>, sets: u64, index: u64) -> usize {
    match mask {
        Some(mask) => (index & mask) as usize,
        None => (index % sets) as usize,
    }
}

impl AssocArray {
    /// An empty array.
    ///
    /// # Errors
    /// As [`Geometry::check`]; `what` names the array in the message.
    pub fn new(geometry: Geometry, what: &str) -> Result<Self, ConfigError> {
        geometry.check(what)?;
        let ways = geometry.ways as usize;
        let sets = (geometry.entries / geometry.ways) as usize;
        let shape = SetShape::new(geometry.ways, geometry.replacement);
        let body = match ways {
            1..=4 => Body::Four(vec![SmallSet::new(&shape); sets]),
            5..=8 => Body::Eight(vec![SmallSet::new(&shape); sets]),
            9..=12 => Body::Twelve(vec![SmallSet::new(&shape); sets]),
            13..=16 => Body::Sixteen(vec![SmallSet::new(&shape); sets]),
            _ => Body::Large((0..sets).map(|_| LargeSet::new(ways)).collect()),
        };
        let sets = sets as u64;
        Ok(AssocArray {
            sets,
            set_mask: sets.is_power_of_two().then(|| sets - 1),
            shape,
            body,
        })
    }

    /// Entries held.
    pub fn len(&self) -> usize {
        on_sets!(&self.body,
            sets => sets.iter().map(SmallSet::len).sum(),
            sets => sets.iter().map(LargeSet::len).sum()
        )
    }

    /// True if nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entries it can hold.
    pub fn capacity(&self) -> usize {
        self.sets as usize * self.shape.ways as usize
    }

    #[inline(always)]
    fn set(&self, index: u64) -> usize {
        set_of(self.set_mask, self.sets, index)
    }

    /// Finds `key` and makes it the most recently used.
    #[inline(always)]
    pub fn lookup(&mut self, index: u64, key: u64) -> Option<(Slot, u64)> {
        let set = self.set(index);
        let (at, value) = on_sets!(&mut self.body,
            sets => sets[set].lookup(key, &self.shape)?,
            sets => {
                let at = sets[set].lookup(key)?;
                (at, sets[set].value(at))
            }
        );
        let set = set as u32;
        Some((Slot { set, at }, value))
    }

    /// Looks for the entries whose bit is set in `which`, the lowest first, and makes them the most
    /// recently used; puts in those not held whose bit is set in `puts`. Returns which were not
    /// held.
    pub(crate) fn ask(&mut self, which: u64, puts: u64, pages: &Pages) -> u64 {
        let (shape, asked) = (self.shape, (which, puts));
        let (sets_mask, count) = (self.set_mask, self.sets);
        let any = |index| set_of(sets_mask, count, index);
        on_sets!(&mut self.body,
            sets => match (full(sets, shape), sets_mask) {
                (Some(shape), Some(_)) => {
                    // A mask that comes from the length needs no check.
                    let last = sets.len() - 1;
                    ask_each(sets, &shape, asked, pages, |index| index as usize & last)
                }
                _ => ask_each(sets, &shape, asked, pages, any),
            },
            sets => ask_each(sets, &shape, asked, pages, any)
        )
    }

    /// Finds `key` and changes nothing.
    pub fn peek(&self, index: u64, key: u64) -> Option<u64> {
        let set = self.set(index);
        on_sets!(&self.body,
            sets => sets[set].find(key).map(|(_, value)| value),
            sets => sets[set].find(key).map(|at| sets[set].value(at))
        )
    }

    /// Replaces the value of an entry just found.
    #[inline]
    pub fn set_value(&mut self, slot: Slot, value: u64) {
        let set = slot.set as usize;
        on_sets!(&mut self.body,
            sets => sets[set].set_value(slot.at, value),
            sets => sets[set].set_value(slot.at, value)
        );
    }

    /// Puts in an entry as the most recently used, over an older value of the same key if there
    /// is one. Returns the entry that had to leave.
    #[inline(always)]
    pub fn insert(&mut self, index: u64, key: u64, value: u64) -> Option<(u64, u64)> {
        if let Some((slot, _)) = self.lookup(index, key) {
            self.set_value(slot, value);
            return None;
        }
        self.insert_new(index, key, value)
    }

    /// As [`insert`](Self::insert), for a key known not to be present.
    #[inline(always)]
    pub fn insert_new(&mut self, index: u64, key: u64, value: u64) -> Option<(u64, u64)> {
        debug_assert!(
            self.peek(index, key).is_none(),
            "key {key:#x} is already present"
        );
        let set = self.set(index);
        on_sets!(&mut self.body,
            sets => sets[set].insert_new(key, value, &self.shape),
            sets => sets[set].insert_new(key, value)
        )
    }

    /// Removes `key`; true if it was present.
    pub fn remove(&mut self, index: u64, key: u64) -> bool {
        let set = self.set(index);
        on_sets!(&mut self.body,
            sets => sets[set].remove(key, &self.shape),
            sets => sets[set].remove(key)
        )
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
        on_sets!(&self.body,
            sets => for (number, set) in sets.iter().enumerate() {
                set.for_each(|key, value| visit(number as u64, key, value));
            },
            sets => for (number, set) in sets.iter().enumerate() {
                set.for_each(|key, value| visit(number as u64, key, value));
            }
        );
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.retain(|_, _| false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tlb::geometry::Replacement;
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
            let mut array = AssocArray::new(Geometry::new(sets * ways, ways), "test").unwrap();
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
        let mut array = AssocArray::new(geometry, "test").unwrap();
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
            assert!(AssocArray::new(Geometry::new(entries, ways), "L2").is_err());
        }
        let odd = Geometry {
            entries: 12,
            ways: 12,
            replacement: Replacement::Plru,
        };
        assert!(AssocArray::new(odd, "L2").is_err());
    }
}
