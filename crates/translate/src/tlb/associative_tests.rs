// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays against sets written as plainly as can be.

use super::associative::AssocArray;
use super::geometry::{Geometry, Replacement};
use ample_kit::random::{SplitMix64, mix64};
use proptest::prelude::*;

/// A way of a set: what it holds, when it was used last, and how far away its next use is thought
/// to be.
#[derive(Clone, Copy, Default)]
struct Way {
    held: Option<(u64, u64)>,
    used: u64,
    prediction: u8,
}

/// The plainest possible set: it looks at all its ways.
struct PlainSet {
    ways: Vec<Way>,
    replacement: Replacement,
    draws: SplitMix64,
    time: u64,
    /// Ways that were emptied, in their order, and those that were ever filled.
    freed: Vec<usize>,
    filled: usize,
}

impl PlainSet {
    fn new(geometry: &Geometry, number: u64) -> PlainSet {
        PlainSet {
            ways: vec![Way::default(); geometry.ways as usize],
            replacement: geometry.replacement,
            draws: SplitMix64::new(mix64(u64::from(geometry.seed) << 32 | number)),
            time: 0,
            freed: Vec::new(),
            filled: 0,
        }
    }

    fn find(&self, key: u64) -> Option<usize> {
        let holds = |way: &Way| way.held.is_some_and(|(held, _)| held == key);
        self.ways.iter().position(holds)
    }

    fn lookup(&mut self, key: u64) -> Option<u64> {
        let at = self.find(key)?;
        self.time += 1;
        (self.ways[at].used, self.ways[at].prediction) = (self.time, 0);
        self.ways[at].held.map(|(_, value)| value)
    }

    /// The lowest free way of a small set; of a large one that freed last, or the next.
    fn free(&mut self) -> Option<usize> {
        if self.ways.len() <= 16 {
            return self.ways.iter().position(|way| way.held.is_none());
        }
        let fresh = (self.filled < self.ways.len()).then_some(self.filled);
        let at = self.freed.pop().or(fresh)?;
        self.filled = self.filled.max(at + 1);
        Some(at)
    }

    fn victim(&mut self) -> usize {
        let ways = 0..self.ways.len();
        match self.replacement {
            Replacement::Random => self.draws.below(self.ways.len() as u64) as usize,
            Replacement::Srrip => loop {
                if let Some(at) = self.ways.iter().position(|way| way.prediction == 3) {
                    break at;
                }
                self.ways.iter_mut().for_each(|way| way.prediction += 1);
            },
            _ => ways.min_by_key(|&at| self.ways[at].used).expect("a way"),
        }
    }

    fn insert(&mut self, key: u64, value: u64) -> Option<(u64, u64)> {
        if self.lookup(key).is_some() {
            let at = self.find(key).expect("just found");
            self.ways[at].held = Some((key, value));
            return None;
        }
        let at = match self.free() {
            Some(at) => at,
            None => self.victim(),
        };
        self.time += 1;
        let entry = Way {
            held: Some((key, value)),
            used: self.time,
            prediction: 2,
        };
        std::mem::replace(&mut self.ways[at], entry).held
    }

    fn remove(&mut self, key: u64) -> bool {
        let Some(at) = self.find(key) else {
            return false;
        };
        self.ways[at].held = None;
        self.freed.push(at);
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn equals_a_plain_set_under_every_policy(
        sets in 1u32..6,
        ways in 1u32..40,
        policy in 0usize..3,
        seed in any::<u32>(),
        steps in proptest::collection::vec((0u8..8, 0u64..120), 1..400),
    ) {
        let replacement = [Replacement::Lru, Replacement::Random, Replacement::Srrip][policy];
        let geometry = Geometry { replacement, seed, ..Geometry::new(sets * ways, ways) };
        let mut array = AssocArray::new(geometry, "test").unwrap();
        let plain = |set| PlainSet::new(&geometry, u64::from(set));
        let mut plain: Vec<PlainSet> = (0..sets).map(plain).collect();
        for (step, (what, key)) in steps.into_iter().enumerate() {
            let set = &mut plain[(key % u64::from(sets)) as usize];
            match what {
                0..3 => prop_assert_eq!(array.lookup(key, key).map(|(_, v)| v), set.lookup(key)),
                3..7 => {
                    let left = array.insert(key, key, step as u64);
                    prop_assert_eq!(left, set.insert(key, step as u64));
                }
                _ => prop_assert_eq!(array.remove(key, key), set.remove(key)),
            }
            let held = |set: &PlainSet| set.ways.iter().filter(|way| way.held.is_some()).count();
            prop_assert_eq!(array.len(), plain.iter().map(held).sum::<usize>());
        }
    }
}

/// Hits of `rounds` rounds over keys.
fn hits(geometry: Geometry, keys: &[u64], rounds: u64) -> u64 {
    let mut array = AssocArray::new(geometry, "test").unwrap();
    let mut hits = 0;
    for &key in (0..rounds).flat_map(|_| keys) {
        match array.lookup(0, key) {
            Some(_) => hits += 1,
            None => drop(array.insert_new(0, key, 0)),
        }
    }
    hits
}

#[test]
fn what_each_policy_is_for() {
    for ways in [8, 64] {
        let of = |replacement| Geometry {
            replacement,
            ..Geometry::full(ways)
        };
        let [lru, random, srrip] =
            [Replacement::Lru, Replacement::Random, Replacement::Srrip].map(of);
        // A loop that is one longer than the set: with the oldest, what is needed next leaves.
        let round: Vec<u64> = (0..=u64::from(ways)).collect();
        assert_eq!(hits(lru, &round, 100), 0);
        assert!(hits(random, &round, 100) > 25 * round.len() as u64);
        let other = Geometry { seed: 1, ..random };
        assert_ne!(hits(random, &round, 100), hits(other, &round, 100));
        assert_eq!(hits(random, &round, 100), hits(random, &round, 100));
        // Keys in use between scans of keys that are used once.
        let (used, scan) = (0..u64::from(ways) / 2, 1000..1000 + u64::from(ways));
        let keys: Vec<u64> = used.clone().chain(used.clone()).chain(scan).collect();
        let twice = used.end;
        assert_eq!(hits(lru, &keys, 2), 2 * twice);
        assert_eq!(hits(srrip, &keys, 2), 3 * twice);
    }
}

#[test]
fn plru_never_evicts_the_most_recent() {
    let geometry = Geometry {
        entries: 8,
        ways: 8,
        replacement: Replacement::Plru,
        seed: 0,
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
        seed: 0,
    };
    assert!(AssocArray::new(odd, "L2").is_err());
}
