// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many look-ups of an array in one loop. What is asked for is a word, a bit each, from the lowest
//! on; what was not held comes back as one.

use super::geometry::Replacement;
use super::key::number_of;
use super::large_set::LargeSet;
use super::leaving::Leaving;
use super::small_set::{SetShape, SmallSet};

/// A set of any kind.
pub(super) trait KeySet {
    /// Makes a key the most recently used; false if it is not held.
    fn is_used(&mut self, key: u64, shape: &SetShape) -> bool;
    /// Puts in a key that is not held.
    fn put_new(&mut self, key: u64, value: u64, shape: &SetShape);
}

impl<const W: usize, const T: usize> KeySet for SmallSet<W, T> {
    #[inline(always)]
    fn is_used(&mut self, key: u64, shape: &SetShape) -> bool {
        self.lookup(key, shape).is_some()
    }

    #[inline(always)]
    fn put_new(&mut self, key: u64, value: u64, shape: &SetShape) {
        self.insert_new(key, value, shape);
    }
}

impl<L: Leaving> KeySet for LargeSet<L> {
    #[inline(always)]
    fn is_used(&mut self, key: u64, _shape: &SetShape) -> bool {
        self.lookup(key).is_some()
    }

    #[inline(always)]
    fn put_new(&mut self, key: u64, value: u64, _shape: &SetShape) {
        self.insert_new(key, value);
    }
}

/// The shape of sets, known where it is compiled, if they have all the ways of their width and the
/// least recently used leaves.
#[inline(always)]
pub(super) fn full<const W: usize, const T: usize>(
    _sets: &[SmallSet<W, T>],
    shape: SetShape,
) -> Option<SetShape> {
    let full = SetShape::new(W as u32, Replacement::Lru);
    (shape == full).then_some(full)
}

/// What can be asked for, by the numbers of the bits.
#[derive(Clone)]
pub(crate) struct Pages {
    /// Keys, which say the sets too.
    pub(crate) keys: [u64; 64],
    /// What is put in.
    pub(crate) values: [u64; 64],
}

impl Pages {
    pub(crate) fn new() -> Self {
        Pages {
            keys: [0; 64],
            values: [0; 64],
        }
    }
}

/// Looks for keys, and puts in those not held whose bit is set in `puts`. `set_of` says which set a
/// key's number belongs to.
#[inline(always)]
pub(super) fn ask_each<S: KeySet>(
    sets: &mut [S],
    shape: &SetShape,
    (which, puts): (u64, u64),
    pages: &Pages,
    set_of: impl Fn(u64) -> usize,
) -> u64 {
    // Where all are put in, none has to be tested for it.
    match which & !puts {
        0 => ask_some::<S, true>(sets, shape, (which, puts), pages, set_of),
        _ => ask_some::<S, false>(sets, shape, (which, puts), pages, set_of),
    }
}

#[inline(always)]
fn ask_some<S: KeySet, const PUTS_ALL: bool>(
    sets: &mut [S],
    shape: &SetShape,
    (which, puts): (u64, u64),
    pages: &Pages,
    set_of: impl Fn(u64) -> usize,
) -> u64 {
    let (mut left, mut held) = (which, 0);
    while left != 0 {
        let at = left.trailing_zeros() as usize % 64;
        let key = pages.keys[at];
        let set = &mut sets[set_of(number_of(key))];
        if set.is_used(key, shape) {
            held |= 1 << at;
        } else if PUTS_ALL || puts >> at & 1 != 0 {
            set.put_new(key, pages.values[at], shape);
        }
        left &= left - 1;
    }
    which & !held
}
