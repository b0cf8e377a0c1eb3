// SPDX-License-Identifier: MIT OR Apache-2.0
//! Caches against the plainest model of each policy.

use crate::cache::LINE_BYTES;
use crate::replacement::RANDOM_SEED;
use crate::{Cache, CacheConfig, CachePolicy, Victim};
use ample_kit::random::SplitMix64;
use proptest::prelude::*;

/// 3 sets of 3 ways: neither a power of two.
const SMALL: CacheConfig = CacheConfig {
    bytes: 9 * LINE_BYTES,
    ways: 3,
    latency_cycles: 1,
    policy: CachePolicy::Lru,
};

proptest! {
    /// Every operation does to a cache what it does to a list of lines a set, most recently
    /// used first.
    #[test]
    fn a_cache_is_a_list_of_lines(ops in prop::collection::vec((0..6, 0..24u64), 1..400)) {
        let mut cache = Cache::<u64>::new(&SMALL, "test").unwrap();
        let mut sets = vec![Vec::<(u64, u64, bool)>::new(); 3];
        for (number, (op, line)) in (0..).zip(ops) {
            let set = &mut sets[line as usize % 3];
            let held = set.iter().position(|&(held, ..)| held == line);
            let pushed_out = |set: &mut Vec<(u64, u64, bool)>| {
                let victim = (set.len() > 3).then(|| set.pop()).flatten();
                victim.map(|(line, value, dirty)| Victim { line, dirty, value })
            };
            match (op, held) {
                (0 | 1, Some(at)) => {
                    let (line, value, dirty) = set.remove(at);
                    set.insert(0, (line, value, dirty || op == 1));
                    prop_assert_eq!(cache.lookup(line, op == 1).copied(), Some(value));
                }
                (0 | 1, None) => prop_assert!(cache.lookup(line, op == 1).is_none()),
                (2, Some(at)) => {
                    prop_assert_eq!(cache.remove(line), Some(set.remove(at).1));
                }
                (2, None) => prop_assert_eq!(cache.remove(line), None),
                (3, Some(at)) => {
                    let (line, _, dirty) = set.remove(at);
                    set.insert(0, (line, number, dirty));
                    prop_assert_eq!(cache.put(line, number), None);
                }
                (4, Some(at)) => {
                    set[at].2 = true;
                    prop_assert_eq!(cache.write_back(line), None);
                }
                (4, None) => {
                    set.insert(0, (line, 0, true));
                    prop_assert_eq!(cache.write_back(line), pushed_out(set));
                }
                (_, None) => {
                    set.insert(0, (line, number, false));
                    prop_assert_eq!(cache.put(line, number), pushed_out(set));
                }
                (_, Some(at)) => {
                    prop_assert_eq!(cache.peek(line).copied(), Some(set[at].1));
                }
            }
            let mut dirty: Vec<u64> = cache.dirty_lines().collect();
            dirty.sort_unstable();
            let expected = sets.iter().flatten().filter(|line| line.2);
            let mut expected: Vec<u64> = expected.map(|line| line.0).collect();
            expected.sort_unstable();
            prop_assert_eq!(dirty, expected);
        }
    }
}

proptest! {
    /// Lines anywhere in 52 bits of address are told apart, however few sets there are.
    #[test]
    fn no_line_answers_for_another(
        addresses in prop::collection::vec(0u64..1 << 52, 1..12),
        near in 0u64..1 << 20,
        bit in 6u32..52,
    ) {
        let mut cache = Cache::<u64>::new(&SMALL, "test").unwrap();
        let pairs = addresses.iter().flat_map(|&far| [far, far ^ 1 << bit]);
        for address in pairs.chain([near, near ^ 1 << bit]) {
            let line = address >> 6;
            match cache.lookup(line, false) {
                Some(&mut held) => prop_assert_eq!(held, line, "{:#x} answers", held << 6),
                None => {
                    cache.install(line, line, false);
                }
            }
        }
    }
}

#[test]
fn the_line_at_2_to_the_45_is_not_that_at_0() {
    let l1 = CacheConfig::new(48, 12, 5);
    let mut cache = Cache::<u64>::new(&l1, "l1").unwrap();
    cache.install(0, 1, false);
    for bit in 6..52 {
        assert!(!cache.holds(1 << (bit - 6)), "address 1 << {bit}");
    }
}

#[test]
fn a_guess_beyond_memory_may_be_read_ahead() {
    let mut cache = Cache::<u64>::new(&SMALL, "test").unwrap();
    cache.install(7, 1, false);
    for line in [7, u64::from(u32::MAX) * 3, 0x7ff_ffff_f980, u64::MAX >> 6] {
        cache.read_head(line);
        cache.read_way(line);
    }
    assert_eq!(cache.peek(7), Some(&mut 1));
}

#[test]
fn impossible_sizes_are_refused() {
    for (bytes, ways) in [(0, 4), (1000, 4), (64 * 33, 33), (64, 0)] {
        let config = CacheConfig {
            bytes,
            ways,
            latency_cycles: 1,
            policy: CachePolicy::Lru,
        };
        let error = Cache::<u64>::new(&config, "l1").unwrap_err();
        assert_eq!(error.field, "l1", "{bytes} {ways}");
    }
}

/// A line of the model: when it was used last, and how soon it is expected again.
#[derive(Clone, Copy, Debug)]
struct Plain {
    line: u64,
    value: u64,
    dirty: bool,
    used: u64,
    distance: u8,
}

/// One set, way by way.
struct PlainSet {
    policy: CachePolicy,
    ways: Vec<Option<Plain>>,
}

impl PlainSet {
    fn held(&mut self, line: u64) -> Option<&mut Plain> {
        self.ways
            .iter_mut()
            .flatten()
            .find(|held| held.line == line)
    }

    /// The way of the line that leaves, all of them in use.
    fn victim(&mut self, random: &mut SplitMix64) -> usize {
        let all = self.ways.len();
        let of = |ways: &[Option<Plain>], way: usize| ways[way].expect("a full set");
        match self.policy {
            CachePolicy::Lru => (0..all)
                .min_by_key(|&way| of(&self.ways, way).used)
                .expect("a way"),
            CachePolicy::Random => random.below(all as u64) as usize,
            CachePolicy::Srrip => loop {
                if let Some(way) = (0..all).find(|&way| of(&self.ways, way).distance == 3) {
                    return way;
                }
                self.ways
                    .iter_mut()
                    .flatten()
                    .for_each(|held| held.distance += 1);
            },
        }
    }

    /// Takes in a line that is not held.
    fn install(&mut self, new: Plain, random: &mut SplitMix64) -> Option<Victim<u64>> {
        let free = self.ways.iter().position(Option::is_none);
        let way = free.unwrap_or_else(|| self.victim(random));
        self.ways[way].replace(new).map(|left| Victim {
            line: left.line,
            dirty: left.dirty,
            value: left.value,
        })
    }
}

fn any_policy() -> impl Strategy<Value = CachePolicy> {
    prop_oneof![
        Just(CachePolicy::Lru),
        Just(CachePolicy::Srrip),
        Just(CachePolicy::Random)
    ]
}

proptest! {
    /// A cache of any policy and any number of ways does what its model does.
    #[test]
    fn each_policy_is_its_model(
        policy in any_policy(),
        ways in 1u32..=32,
        sets in 1u64..4,
        ops in prop::collection::vec((0..8, 0..140u64), 1..600),
    ) {
        let config = CacheConfig {
            bytes: sets * u64::from(ways) * LINE_BYTES,
            ways,
            latency_cycles: 1,
            policy,
        };
        let mut cache = Cache::<u64>::new(&config, "test").unwrap();
        let empty = || PlainSet { policy, ways: vec![None; ways as usize] };
        let mut model: Vec<PlainSet> = (0..sets).map(|_| empty()).collect();
        let mut random = SplitMix64::new(RANDOM_SEED);
        for (now, (op, line)) in (1..).zip(ops) {
            let set = &mut model[(line % sets) as usize];
            let new = Plain { line, value: now, dirty: false, used: now, distance: 2 };
            match (op, set.held(line)) {
                (0, held) => {
                    let value = held.map(|held| held.value);
                    prop_assert_eq!(cache.remove(line), value);
                    let gone = |way: &&mut Option<Plain>| way.is_some_and(|h| h.line == line);
                    if let Some(way) = set.ways.iter_mut().find(gone) {
                        *way = None;
                    }
                }
                (1, Some(held)) => {
                    held.dirty = true;
                    prop_assert_eq!(cache.write_back(line), None);
                }
                (1, None) => {
                    let new = Plain { value: 0, dirty: true, ..new };
                    prop_assert_eq!(cache.write_back(line), set.install(new, &mut random));
                }
                (_, Some(held)) => {
                    held.used = now;
                    held.distance = 0;
                    held.dirty |= op == 2;
                    prop_assert_eq!(cache.lookup(line, op == 2).copied(), Some(held.value));
                }
                (_, None) => {
                    prop_assert!(cache.lookup(line, op == 2).is_none());
                    prop_assert_eq!(cache.put(line, now), set.install(new, &mut random));
                }
            }
            cache.read_way(line);
        }
        for line in 0..140 {
            let held = model[(line % sets) as usize].held(line).is_some();
            prop_assert_eq!(cache.holds(line), held, "line {}", line);
        }
    }
}

/// Ten lines are used twice a round, and then 20 that never come again. In a set of 20 ways LRU has
/// lost the ten by then; re-reference prediction has let the others go first.
#[test]
fn a_scan_tells_policies_apart() {
    const ROUNDS: u64 = 50;
    let misses = |policy| {
        let config = CacheConfig {
            bytes: 20 * LINE_BYTES,
            ways: 20,
            latency_cycles: 1,
            policy,
        };
        let mut cache = Cache::<u64>::new(&config, "test").unwrap();
        for round in 0..ROUNDS {
            let hot = (0..2).flat_map(|_| 0..10);
            for line in hot.chain((1..=20).map(|at| 1000 * round + 20 + at)) {
                if cache.lookup(line, false).is_none() {
                    cache.install(line, 0, false);
                }
            }
        }
        cache.misses
    };
    assert_eq!(misses(CachePolicy::Lru), ROUNDS * 30);
    assert_eq!(misses(CachePolicy::Srrip), ROUNDS * 20 + 10);
    let random = misses(CachePolicy::Random);
    assert!((ROUNDS * 21..ROUNDS * 31).contains(&random), "{random}");
    assert_eq!(random, misses(CachePolicy::Random), "the same each time");
}
