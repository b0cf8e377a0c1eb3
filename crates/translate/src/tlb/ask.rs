// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many look-ups of an array in one loop. What is asked for is a word, a bit each, from the lowest
//! on; what was not held comes back as one.

use super::geometry::Replacement;
use super::large_set::LargeSet;
use super::small_set::{SetShape, SmallSet};

/// A set of any kind.
pub(super) trait KeySet {
    /// Makes a key the most recently used; false if it is not held.
    fn is_used(&mut self, key: u64, shape: &SetShape) -> bool;
    /// Puts in a key that is not held.
    fn put_new(&mut self, key: u64, value: u64, shape: &SetShape);
}

impl<const W: usize> KeySet for SmallSet<W> {
    #[inline(always)]
    fn is_used(&mut self, key: u64, shape: &SetShape) -> bool {
        self.lookup(key, shape).is_some()
    }

    #[inline(always)]
    fn put_new(&mut self, key: u64, value: u64, shape: &SetShape) {
        self.insert_new(key, value, shape);
    }
}

impl KeySet for LargeSet {
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
pub(super) fn full<const W: usize>(_sets: &[SmallSet<W>], shape: SetShape) -> Option<SetShape> {
    let full = SetShape::new(W as u32, Replacement::Lru);
    (shape == full).then_some(full)
}

/// Looks for keys, and puts in those not held for which `puts` says so. `place` gives set and key,
/// `value` what is put in. With `MASKED` the number of sets is a power of two, and what `place`
/// gives only ends in that of the set.
#[inline(always)]
pub(super) fn ask_each<S: KeySet, const MASKED: bool>(
    sets: &mut [S],
    shape: &SetShape,
    mut which: u64,
    puts: impl Fn(usize) -> bool,
    place: impl Fn(usize) -> (usize, u64),
    value: impl Fn(usize) -> u64,
) -> u64 {
    let (mut missed, count) = (0, sets.len());
    while which != 0 && count > 0 {
        let at = which.trailing_zeros() as usize;
        let (set, key) = place(at);
        let set = &mut sets[if MASKED { set & (count - 1) } else { set }];
        if !set.is_used(key, shape) {
            missed |= 1 << at;
            if puts(at) {
                set.put_new(key, value(at), shape);
            }
        }
        which &= which - 1;
    }
    missed
}
