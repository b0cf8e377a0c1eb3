// SPDX-License-Identifier: MIT OR Apache-2.0
//! A last-level cache that several cores share: what one brings in the others find, and what one
//! throws out is gone for all. Cores take turns and each has a clock of its own, so that a time in
//! one core's clock means nothing to another: a line that another core has brought in is there.

use crate::{BadParams, CacheConfig, Dram, LastLevel};
use serde::Serialize;
use std::cell::RefCell;
use std::rc::Rc;

/// The last level as the caches of one core above it use it.
pub trait LastPort {
    /// Looks a line up, as the most recent use; returns when its data are there.
    fn lookup(&mut self, line: u64) -> Option<u64>;
    /// Puts in a line that is not held, clean, with data at `ready`. What leaves for it goes to
    /// memory at `now` when dirty.
    fn install(&mut self, dram: &mut Dram, line: u64, ready: u64, now: u64);
    /// Takes in a line from the level above that is newer than memory.
    fn write_back(&mut self, dram: &mut Dram, line: u64, now: u64);
    /// Reads the head of a line's set and changes nothing; as [`Cache::read_head`](crate::Cache).
    fn read_head(&self, line: u64) -> u64;
    /// Reads the rest of what a look-up of the line touches; as [`Cache::read_way`](crate::Cache).
    fn read_way(&self, line: u64) -> u64;
    /// What this core has asked so far.
    fn counts(&self) -> LastCounts;
}

/// What a core has asked of the last level: for data, fetches, walks and what it prefetches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LastCounts {
    /// Look-ups: the misses of the second level, and its prefetches.
    pub lookups: u64,
    /// Those that went to memory.
    pub misses: u64,
    /// Those that found a line which another core had brought in.
    pub of_others: u64,
}

impl LastPort for LastLevel<u64> {
    #[inline(always)]
    fn lookup(&mut self, line: u64) -> Option<u64> {
        self.cache.lookup(line, false).copied()
    }

    #[inline(always)]
    fn install(&mut self, dram: &mut Dram, line: u64, ready: u64, now: u64) {
        LastLevel::install(self, dram, line, (ready, false), now);
    }

    #[inline(always)]
    fn write_back(&mut self, dram: &mut Dram, line: u64, now: u64) {
        LastLevel::write_back(self, dram, line, now);
    }

    #[inline(always)]
    fn read_head(&self, line: u64) -> u64 {
        self.cache.read_head(line)
    }

    #[inline(always)]
    fn read_way(&self, line: u64) -> u64 {
        self.cache.read_way(line).0
    }

    fn counts(&self) -> LastCounts {
        LastCounts {
            lookups: self.cache.hits + self.cache.misses,
            misses: self.cache.misses,
            of_others: 0,
        }
    }
}

/// Where in a line's value the core is that has brought it in; below it, when its data arrive.
const CORE_SHIFT: u32 = 56;

/// One core's way to a last level that others use too. A copy is the same core's.
#[derive(Clone, Debug)]
pub struct SharedLast {
    level: Rc<RefCell<LastLevel<u64>>>,
    core: u64,
    counts: LastCounts,
}

impl SharedLast {
    /// An empty cache and the ways of `cores` cores to it, at most 256.
    ///
    /// # Errors
    /// If its sizes do not make whole sets.
    pub fn for_cores(config: &CacheConfig, cores: usize) -> Result<Vec<Self>, BadParams> {
        assert!(cores <= 256, "{cores} cores do not fit into a line's value");
        let level = Rc::new(RefCell::new(LastLevel::new(config, "llc")?));
        let way = |core| SharedLast {
            level: Rc::clone(&level),
            core,
            counts: LastCounts::default(),
        };
        Ok((0..cores as u64).map(way).collect())
    }

    /// The value of a line that this core brings in.
    fn brought(&self, ready: u64) -> u64 {
        debug_assert!(ready >> CORE_SHIFT == 0, "a time of {ready} units");
        self.core << CORE_SHIFT | ready
    }
}

impl LastPort for SharedLast {
    #[inline]
    fn lookup(&mut self, line: u64) -> Option<u64> {
        self.counts.lookups += 1;
        let Some(&mut value) = self.level.borrow_mut().cache.lookup(line, false) else {
            self.counts.misses += 1;
            return None;
        };
        if value >> CORE_SHIFT != self.core {
            self.counts.of_others += 1;
            return Some(0);
        }
        Some(value & ((1 << CORE_SHIFT) - 1))
    }

    #[inline]
    fn install(&mut self, dram: &mut Dram, line: u64, ready: u64, now: u64) {
        let value = self.brought(ready);
        self.level
            .borrow_mut()
            .install(dram, line, (value, false), now);
    }

    #[inline]
    fn write_back(&mut self, dram: &mut Dram, line: u64, now: u64) {
        let value = self.brought(0);
        let mut level = self.level.borrow_mut();
        match level.cache.holds(line) {
            true => level.write_back(dram, line, now),
            false => level.install(dram, line, (value, true), now),
        }
    }

    #[inline]
    fn read_head(&self, line: u64) -> u64 {
        self.level.borrow().cache.read_head(line)
    }

    #[inline]
    fn read_way(&self, line: u64) -> u64 {
        self.level.borrow().cache.read_way(line).0
    }

    fn counts(&self) -> LastCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hierarchy::tests::{tiny_config, upper_dirty_lines};
    use crate::{CachePolicy, MemoryConfig, MemorySystem, PrivateMemory};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    type Sharing = PrivateMemory<SharedLast>;

    fn cores(config: &MemoryConfig, cores: usize) -> Vec<Sharing> {
        let ways = SharedLast::for_cores(&config.llc, cores).unwrap();
        let core = |way| PrivateMemory::over(config, 4, 0.5, way).unwrap();
        ways.into_iter().map(core).collect()
    }

    /// One core with the whole cache to itself, many times.
    fn apart(config: &MemoryConfig, count: usize) -> Vec<Sharing> {
        (0..count).flat_map(|_| cores(config, 1)).collect()
    }

    fn cache(bytes: u64, ways: u32) -> CacheConfig {
        CacheConfig {
            bytes,
            ways,
            latency_cycles: 2,
            policy: CachePolicy::Lru,
        }
    }

    /// A last level of 16 ways above which next to nothing is kept.
    fn streaming() -> MemoryConfig {
        MemoryConfig {
            l2: cache(64 << 6, 4),
            llc: cache(1 << 20, 16),
            ..tiny_config(true, 0)
        }
    }

    #[test]
    fn one_core_finds_what_another_has_brought_in() {
        let mut shared = cores(&streaming(), 2);
        for (core, expected) in [(0, [100, 100, 0]), (1, [100, 0, 100])] {
            for line in 0..100 {
                shared[core].data(line << 6, false, 1000 * line);
            }
            let counts = shared[core].last_counts();
            let counts = [counts.lookups, counts.misses, counts.of_others];
            assert_eq!(counts, expected, "core {core}");
            assert_eq!(shared[core].dram.reads, expected[1]);
        }
        // Whose data arrive late by the first core's clock does not hold the second one up.
        let (late, _) = shared[0].data(1 << 30, false, 1 << 40);
        assert!(late > 1 << 40);
        assert_eq!(shared[1].walk(1 << 30, 7).0, 7 + 2 * 4);
    }

    #[test]
    fn two_streams_of_three_quarters_fit_apart_and_not_together() {
        let config = streaming();
        let (all, passes) = (config.llc.bytes / 64, 5);
        let lines = all / 4 * 3;
        let misses = |mut memory: Vec<Sharing>| -> Vec<[u64; 2]> {
            for pass in 0..passes {
                for (core, memory) in (0u64..).zip(&mut memory) {
                    for line in 0..lines {
                        let now = 1000 * (pass * lines + line);
                        memory.data((core * all + line) << 6, false, now);
                    }
                }
            }
            let counts = memory.iter().map(Sharing::last_counts);
            counts
                .map(|counts| [counts.lookups, counts.misses])
                .collect()
        };
        // Between two uses of a line lie the 12 lines of its set that the other core uses and the
        // 11 others of its own: more than 16 ways together, fewer apart.
        let looked_up = passes * lines;
        assert_eq!(misses(cores(&config, 2)), [[looked_up, looked_up]; 2]);
        assert_eq!(misses(apart(&config, 2)), [[looked_up, lines]; 2]);
    }

    proptest! {
        /// A core that shares its last level with nobody does what one with its own does.
        #[test]
        fn nobody_else_is_as_one_of_its_own(
            ops in prop::collection::vec((0..4, 0..64u64), 1..400),
            walks_use_l1: bool,
            prefetch_lines in 0..3u32,
        ) {
            let config = tiny_config(walks_use_l1, prefetch_lines);
            let mut own = PrivateMemory::new(&config, 4, 0.5).unwrap();
            let mut alone = cores(&config, 1).remove(0);
            for (now, (op, line)) in (0..).step_by(9).zip(ops) {
                prop_assert_eq!(
                    request(&mut own, op, line, now),
                    request(&mut alone, op, line, now)
                );
            }
            prop_assert_eq!(own.last_counts(), alone.last_counts());
            prop_assert_eq!(own.dram.written, alone.dram.written);
        }

        /// A line that is newer than memory is dirty in a core's caches or in the shared level
        /// until it is written to memory, and no other line is written.
        #[test]
        fn dirty_lines_of_all_cores_reach_memory(
            ops in prop::collection::vec((0..3usize, 0..4, 0..64u64), 1..600),
            prefetch_lines in 0..3u32,
        ) {
            let mut memory = cores(&tiny_config(true, prefetch_lines), 3);
            let mut newer = BTreeSet::new();
            for (now, (core, op, line)) in (0..).step_by(50).zip(ops) {
                request(&mut memory[core], op, line, now);
                if op == 1 {
                    newer.insert(line);
                }
                let upper = memory.iter().flat_map(upper_dirty_lines);
                let mut dirty: BTreeSet<u64> = upper.collect();
                dirty.extend(memory[0].last().level.borrow().cache.dirty_lines());
                for memory in &mut memory {
                    for line in std::mem::take(&mut memory.dram.written) {
                        prop_assert!(newer.contains(&line), "line {line} was written for nothing");
                        if !dirty.contains(&line) {
                            newer.remove(&line);
                        }
                    }
                }
                prop_assert_eq!(&newer, &dirty, "a dirty line was lost");
            }
        }
    }

    fn request(
        memory: &mut impl MemorySystem,
        op: i32,
        line: u64,
        now: u64,
    ) -> (u64, crate::Level) {
        match op {
            0 | 1 => memory.data(line << 6, op == 1, now),
            2 => memory.fetch(line << 6, now),
            _ => memory.walk(line << 6, now),
        }
    }
}
