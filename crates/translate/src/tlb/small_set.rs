// SPDX-License-Identifier: MIT OR Apache-2.0
//! One set of up to 16 ways under any replacement policy, made for speed: all of it lies together.

use super::geometry::{Geometry, Replacement};
use super::leaving::{Draws, Predictions};
use ample_kit::recency::{Recency, Tag, Tags, TreePlru};

const EMPTY: u64 = u64::MAX;

/// What all sets of an array have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SetShape {
    /// Entries of a set.
    pub(crate) ways: u32,
    /// Which of them leaves.
    pub(crate) replacement: Replacement,
}

impl SetShape {
    pub(crate) fn new(ways: u32, replacement: Replacement) -> Self {
        SetShape { ways, replacement }
    }
}

/// A set with room for `W` entries, whose tags are in `T` words.
#[derive(Clone, Debug)]
pub(crate) struct SmallSet<const W: usize, const T: usize> {
    /// The word of a [`Recency`] (in which removed entries are the oldest), a [`TreePlru`],
    /// [`Draws`] or [`Predictions`].
    order: u64,
    tags: Tags<T>,
    keys: [u64; W],
    values: [u64; W],
}

impl<const W: usize, const T: usize> SmallSet<W, T> {
    /// An empty set of an array, by its number.
    pub(crate) fn new(geometry: &Geometry, set: usize) -> Self {
        SmallSet {
            order: match geometry.replacement {
                Replacement::Lru => Recency::default().word(),
                Replacement::Plru => TreePlru::default().word(),
                Replacement::Random => Draws::new(geometry, set).word(),
                Replacement::Srrip => Predictions::default().word(),
            },
            tags: Tags::default(),
            keys: [EMPTY; W],
            values: [0; W],
        }
    }

    /// Way and value of a key.
    #[inline(always)]
    pub(crate) fn find(&self, key: u64) -> Option<(u32, u64)> {
        let held = |way: usize| (self.keys[way] == key).then(|| self.values[way]);
        let (way, value) = self.tags.find(Tag::of(key), held)?;
        Some((way as u32, value))
    }

    /// Finds a key and makes it the most recent.
    #[inline(always)]
    pub(crate) fn lookup(&mut self, key: u64, shape: &SetShape) -> Option<(u32, u64)> {
        let (way, value) = self.find(key)?;
        self.touch(way, shape);
        Some((way, value))
    }

    pub(crate) fn set_value(&mut self, way: u32, value: u64) {
        self.values[way as usize] = value;
    }

    /// Puts in a key that is not held; returns the entry that had to leave.
    #[inline(always)]
    pub(crate) fn insert_new(
        &mut self,
        key: u64,
        value: u64,
        shape: &SetShape,
    ) -> Option<(u64, u64)> {
        debug_assert_ne!(key, EMPTY);
        let mut way = self.reuse(shape);
        if W.is_power_of_two() {
            // As it is, but a way that is known to be one needs no check.
            way %= W;
        }
        let old = (self.keys[way], self.values[way]);
        (self.keys[way], self.values[way]) = (key, value);
        self.tags.set(way, Tag::of(key));
        (old.0 != EMPTY).then_some(old)
    }

    /// Removes a key; true if it was held.
    pub(crate) fn remove(&mut self, key: u64, shape: &SetShape) -> bool {
        let Some((way, _)) = self.find(key) else {
            return false;
        };
        self.keys[way as usize] = EMPTY;
        if shape.replacement == Replacement::Lru {
            let mut order = Recency::from_word(self.order);
            order.make_oldest(way, shape.ways);
            self.order = order.word();
        }
        true
    }

    /// Entries held.
    pub(crate) fn len(&self) -> usize {
        self.keys.iter().filter(|key| **key != EMPTY).count()
    }

    pub(crate) fn for_each(&self, mut visit: impl FnMut(u64, u64)) {
        for (&key, &value) in self.keys.iter().zip(&self.values) {
            if key != EMPTY {
                visit(key, value);
            }
        }
    }

    /// Replacement counts a use of `way`.
    #[inline(always)]
    fn touch(&mut self, way: u32, shape: &SetShape) {
        if shape.replacement == Replacement::Lru {
            let mut order = Recency::from_word(self.order);
            order.touch(way);
            self.order = order.word();
        } else {
            self.touch_other(way, shape);
        }
    }

    #[inline(never)]
    fn touch_other(&mut self, way: u32, shape: &SetShape) {
        match shape.replacement {
            Replacement::Lru | Replacement::Random => {}
            Replacement::Plru => {
                let mut tree = TreePlru::from_word(self.order);
                tree.touch(way, shape.ways);
                self.order = tree.word();
            }
            Replacement::Srrip => {
                let mut predictions = Predictions::from_word(self.order);
                predictions.used(way);
                self.order = predictions.word();
            }
        }
    }

    /// The way that the next new entry takes: a free one, else the victim. It becomes the most
    /// recent.
    #[inline(always)]
    fn reuse(&mut self, shape: &SetShape) -> usize {
        if shape.replacement == Replacement::Lru {
            let mut order = Recency::from_word(self.order);
            let way = order.reuse_oldest(shape.ways);
            self.order = order.word();
            return way as usize;
        }
        self.reuse_other(shape) as usize
    }

    #[inline(never)]
    fn reuse_other(&mut self, shape: &SetShape) -> u32 {
        let free = |&way: &u32| self.keys[way as usize] == EMPTY;
        let free = (0..shape.ways).find(free);
        match shape.replacement {
            Replacement::Lru | Replacement::Plru => {
                let victim = || TreePlru::from_word(self.order).victim(shape.ways);
                let way = free.unwrap_or_else(victim);
                self.touch_other(way, shape);
                way
            }
            Replacement::Random => free.unwrap_or_else(|| {
                let mut draws = Draws::from_word(self.order);
                let way = draws.way(shape.ways);
                self.order = draws.word();
                way
            }),
            Replacement::Srrip => {
                let mut predictions = Predictions::from_word(self.order);
                let way = free.unwrap_or_else(|| predictions.victim(shape.ways));
                predictions.entered(way);
                self.order = predictions.word();
                way
            }
        }
    }
}
