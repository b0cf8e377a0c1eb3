// SPDX-License-Identifier: MIT OR Apache-2.0
//! A set-associative array of keys and values under any replacement policy: the one structure
//! behind every TLB and page-walk cache of the model.
//!
//! A set of up to 16 ways is a `SmallSet`: a few instructions a look-up. A larger one (a fully
//! associative array) is a `LargeSet`, a hash index and a linked list: O(1) for any number of ways.

use super::ask::{Pages, ask_each, full};
use super::geometry::{Geometry, Replacement};
use super::large_set::LargeSet;
use super::leaving::{OldestLeaves, OtherLeaves};
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
    Large(Vec<LargeSet<OldestLeaves>>),
    LargeOther(Vec<LargeSet<OtherLeaves>>),
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
            Body::LargeOther($wide) => $other,
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
        let numbers = 0..sets;
        let body = match ways {
            1..=4 => Body::Four(numbers.map(|set| SmallSet::new(&geometry, set)).collect()),
            5..=8 => Body::Eight(numbers.map(|set| SmallSet::new(&geometry, set)).collect()),
            9..=12 => Body::Twelve(numbers.map(|set| SmallSet::new(&geometry, set)).collect()),
            13..=16 => Body::Sixteen(numbers.map(|set| SmallSet::new(&geometry, set)).collect()),
            _ if geometry.replacement == Replacement::Lru => {
                Body::Large(numbers.map(|set| LargeSet::new(&geometry, set)).collect())
            }
            _ => Body::LargeOther(numbers.map(|set| LargeSet::new(&geometry, set)).collect()),
        };
        let sets = sets as u64;
        Ok(AssocArray {
            sets,
            set_mask: sets.is_power_of_two().then(|| sets - 1),
            shape,
            body,
        })
    }

    /// Whether each use of an entry counts, so that a second one right after the first is another
    /// event.
    pub(crate) fn counts_uses(&self) -> bool {
        self.shape.replacement == Replacement::Srrip
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
