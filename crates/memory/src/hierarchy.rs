// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory side of one core: private caches, a last-level cache, which may be others' too, and
//! DRAM. No level includes another; a dirty victim moves to the level below, and from the last one
//! to memory.

use crate::{
    BadParams, Cache, CacheConfig, Dram, DramConfig, LastCounts, LastLevel, LastPort, Level,
    MemorySystem, READ_AHEAD,
};
use serde::{Deserialize, Serialize};

/// Caches and memory of a core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryConfig {
    /// First-level data cache.
    pub l1d: CacheConfig,
    /// First-level instruction cache.
    pub l1i: CacheConfig,
    /// Private second level.
    pub l2: CacheConfig,
    /// Last level (this core's share of it, or all).
    pub llc: CacheConfig,
    /// Outstanding misses of the first-level data cache.
    pub mshrs: u32,
    /// Lines the second level's stream prefetcher runs ahead; 0: off.
    pub prefetch_lines: u32,
    /// Lines behind one that misses the first-level data cache which that reads, too, in the same
    /// 4 KB of memory: next-line prefetching. 0, the default: off.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub next_lines: u32,
    /// Whether walks start at the first-level data cache (else at the second level).
    pub walks_use_l1: bool,
    /// The memory below the last level.
    pub dram: DramConfig,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Requests by where they hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HitCounts {
    /// First level.
    pub l1: u64,
    /// Second level.
    pub l2: u64,
    /// Last level.
    pub llc: u64,
    /// Accesses that went to memory.
    pub dram: u64,
}

impl HitCounts {
    fn count(&mut self, hit: Level) {
        match hit {
            Level::L1 => self.l1 += 1,
            Level::L2 => self.l2 += 1,
            Level::Llc => self.llc += 1,
            Level::Dram => self.dram += 1,
        }
    }
}

/// The private hierarchy, above a last level of its own unless `L` says otherwise.
#[derive(Clone, Debug)]
pub struct PrivateMemory<L = LastLevel<u64>> {
    /// Values of lines: when their data arrive.
    l1d: Cache<u64>,
    l1i: Cache<u64>,
    l2: Cache<u64>,
    llc: L,
    /// DRAM and its counters.
    pub dram: Dram,
    l1d_time: u64,
    l1i_time: u64,
    l2_time: u64,
    llc_time: u64,
    mshrs: Vec<u64>,
    streams: Vec<u64>,
    prefetch_lines: u64,
    next_lines: u64,
    walks_use_l1: bool,
    /// Data requests.
    pub data_hits: HitCounts,
    /// Walker references.
    pub walk_hits: HitCounts,
}

impl PrivateMemory {
    /// An empty hierarchy for a core of `units_per_cycle` and `cycle_ns`.
    ///
    /// # Errors
    /// If a cache or the memory cannot be built; the error names it.
    pub fn new(
        config: &MemoryConfig,
        units_per_cycle: u64,
        cycle_ns: f64,
    ) -> Result<Self, BadParams> {
        let llc = LastLevel::new(&config.llc, "llc")?;
        PrivateMemory::over(config, units_per_cycle, cycle_ns, llc)
    }
}

impl<L: LastPort> PrivateMemory<L> {
    /// The same above a given last level, whose latency is that of the configuration.
    ///
    /// # Errors
    /// As [`new`](PrivateMemory::new).
    pub fn over(
        config: &MemoryConfig,
        units_per_cycle: u64,
        cycle_ns: f64,
        llc: L,
    ) -> Result<Self, BadParams> {
        let time = |c: &CacheConfig| u64::from(c.latency_cycles) * units_per_cycle;
        if config.dram.reorder.is_some() {
            let reason = "one core's memory serves requests as they come; leave it out";
            return Err(BadParams::new("dram.reorder", reason));
        }
        if config.mshrs == 0 {
            return Err(BadParams::new("mshrs", "0; a miss needs at least 1"));
        }
        Ok(PrivateMemory {
            l1d: Cache::new(&config.l1d, "l1d")?,
            l1i: Cache::new(&config.l1i, "l1i")?,
            l2: Cache::new(&config.l2, "l2")?,
            llc,
            dram: Dram::new(&config.dram, cycle_ns / units_per_cycle as f64)?,
            l1d_time: time(&config.l1d),
            l1i_time: time(&config.l1i),
            l2_time: time(&config.l2),
            llc_time: time(&config.llc),
            mshrs: vec![0; config.mshrs as usize],
            streams: vec![0; 64],
            prefetch_lines: u64::from(config.prefetch_lines),
            next_lines: u64::from(config.next_lines),
            walks_use_l1: config.walks_use_l1,
            data_hits: HitCounts::default(),
            walk_hits: HitCounts::default(),
        })
    }

    /// What has been asked of the last level so far.
    pub fn last_counts(&self) -> LastCounts {
        self.llc.counts()
    }

    /// From the second level on; latencies are from the core, so each level adds its difference.
    #[inline]
    fn beyond_l1(&mut self, line: u64, now: u64) -> (u64, Level) {
        if let Some(&mut ready) = self.l2.lookup(line, false) {
            return (ready.max(now + self.l2_time), Level::L2);
        }
        let (done, hit) = self.beyond_l2(line, now);
        self.fill_l2(line, done);
        (done, hit)
    }

    #[inline]
    fn beyond_l2(&mut self, line: u64, now: u64) -> (u64, Level) {
        if let Some(ready) = self.llc.lookup(line) {
            return (ready.max(now + self.llc_time), Level::Llc);
        }
        let asked = now + self.llc_time;
        let done = self.dram.read(line, asked);
        self.llc.install(&mut self.dram, line, done, asked);
        (done, Level::Dram)
    }

    /// Puts a line that arrives at `done` into the first level.
    #[inline]
    fn fill_l1d(&mut self, line: u64, done: u64, write: bool) {
        if let Some(victim) = self.l1d.install(line, done, write)
            && victim.dirty
        {
            self.write_back_l2(victim.line, done);
        }
    }

    #[inline]
    fn fill_l2(&mut self, line: u64, done: u64) {
        if let Some(victim) = self.l2.install(line, done, false)
            && victim.dirty
        {
            self.llc.write_back(&mut self.dram, victim.line, done);
        }
    }

    /// Takes a dirty line from the first level in, at `now`.
    #[inline]
    fn write_back_l2(&mut self, line: u64, now: u64) {
        if let Some(victim) = self.l2.write_back(line)
            && victim.dirty
        {
            self.llc.write_back(&mut self.dram, victim.line, now);
        }
    }

    /// Brings the lines behind one that missed at `start` into the first level. They take no miss
    /// register, and the second level's prefetcher sees them as it does misses.
    #[inline]
    fn read_next(&mut self, line: u64, start: u64) {
        for ahead in line + 1..=line + self.next_lines {
            if ahead >> 6 != line >> 6 {
                return;
            }
            if self.l1d.holds(ahead) {
                continue;
            }
            let (done, _) = self.beyond_l1(ahead, start);
            self.train(ahead, start);
            self.fill_l1d(ahead, done, false);
        }
    }

    /// Runs ahead of a stream that has moved on to the next line of its 4 KB page.
    #[inline]
    fn train(&mut self, line: u64, now: u64) {
        if self.prefetch_lines == 0 {
            return;
        }
        let page = line >> 6;
        let slot = &mut self.streams[(page ^ page >> 6) as usize & 63];
        let sequential = *slot + 1 == line;
        *slot = line;
        if !sequential {
            return;
        }
        for ahead in line + 1..=line + self.prefetch_lines {
            if ahead >> 6 != page || self.l2.holds(ahead) {
                continue;
            }
            let (done, _) = self.beyond_l2(ahead, now);
            self.fill_l2(ahead, done);
        }
    }
}

impl<L: LastPort> MemorySystem for PrivateMemory<L> {
    #[inline(always)]
    fn data(&mut self, pa: u64, write: bool, now: u64) -> (u64, Level) {
        let line = pa >> 6;
        if let Some(&mut ready) = self.l1d.lookup(line, write) {
            self.data_hits.l1 += 1;
            return (ready.max(now + self.l1d_time), Level::L1);
        }
        // The miss waits for the register that frees first.
        let mut slot = 0;
        for at in 1..self.mshrs.len() {
            if self.mshrs[at] < self.mshrs[slot] {
                slot = at;
            }
        }
        let start = now.max(self.mshrs[slot]);
        let (done, hit) = self.beyond_l1(line, start);
        self.mshrs[slot] = done;
        self.train(line, start);
        self.data_hits.count(hit);
        self.read_next(line, start);
        self.fill_l1d(line, done, write);
        debug_assert!(done >= start, "a miss answered before it was asked");
        debug_assert!(
            self.l1d.holds(line),
            "a miss leaves its line in the first level"
        );
        (done, hit)
    }

    fn fetch(&mut self, pa: u64, now: u64) -> (u64, Level) {
        let line = pa >> 6;
        if let Some(&mut ready) = self.l1i.lookup(line, false) {
            // The pipeline hides a hit.
            return (ready.max(now), Level::L1);
        }
        let (done, hit) = self.beyond_l1(line, now);
        let victim = self.l1i.install(line, done, false);
        debug_assert!(
            victim.is_none_or(|v| !v.dirty),
            "nobody writes instructions"
        );
        (done.max(now + self.l1i_time), hit)
    }

    #[inline]
    fn walk(&mut self, pa: u64, now: u64) -> (u64, Level) {
        let line = pa >> 6;
        let (done, hit) = if self.walks_use_l1 {
            match self.l1d.lookup(line, false) {
                Some(&mut ready) => (ready.max(now + self.l1d_time), Level::L1),
                None => {
                    let (done, hit) = self.beyond_l1(line, now);
                    self.fill_l1d(line, done, false);
                    (done, hit)
                }
            }
        } else {
            self.beyond_l1(line, now)
        };
        self.walk_hits.count(hit);
        debug_assert!(done >= now, "a walk answered before it asked");
        (done, hit)
    }

    /// One kind of read after the other: reads that do not wait for each other overlap, as many as
    /// the host has room for.
    #[inline(always)]
    fn read_ahead(&self, addresses: &[u64]) -> u64 {
        let mut digest = 0;
        for pa in addresses {
            digest ^= self.l2.read_head(pa >> 6) ^ self.llc.read_head(pa >> 6);
        }
        // What leaves the second level to make room is looked up in the last one.
        let mut leaving = [0; READ_AHEAD];
        for (pa, leaving) in addresses.iter().zip(&mut leaving) {
            let (near, leaves) = self.l2.read_way(pa >> 6);
            *leaving = leaves.unwrap_or(pa >> 6);
            digest ^= near ^ self.llc.read_way(pa >> 6);
        }
        let leaving = &leaving[..addresses.len().min(READ_AHEAD)];
        for &line in leaving {
            digest ^= self.llc.read_head(line);
        }
        for &line in leaving {
            digest ^= self.llc.read_way(line);
        }
        digest
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::CachePolicy;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// A hierarchy that a few dozen lines overflow at every level.
    pub(crate) fn tiny_config(walks_use_l1: bool, prefetch_lines: u32) -> MemoryConfig {
        let cache = |lines: u64, ways| CacheConfig {
            bytes: 64 * lines,
            ways,
            latency_cycles: 2,
            policy: CachePolicy::Lru,
        };
        MemoryConfig {
            l1d: cache(4, 2),
            l1i: cache(2, 1),
            l2: cache(6, 2),
            llc: cache(8, 2),
            mshrs: 2,
            prefetch_lines,
            next_lines: 0,
            walks_use_l1,
            dram: DramConfig::ddr4_3200(1, 4, 10.0),
        }
    }

    impl<L> PrivateMemory<L> {
        /// The last level, as the tests of other files look at it.
        pub(crate) fn last(&self) -> &L {
            &self.llc
        }
    }

    pub(crate) fn upper_dirty_lines<L>(memory: &PrivateMemory<L>) -> impl Iterator<Item = u64> {
        memory.l1d.dirty_lines().chain(memory.l2.dirty_lines())
    }

    fn dirty_lines(memory: &PrivateMemory) -> BTreeSet<u64> {
        upper_dirty_lines(memory)
            .chain(memory.llc.cache.dirty_lines())
            .collect()
    }

    proptest! {
        /// A line that is newer than memory is dirty in some cache until it is written to memory,
        /// and no other line is written.
        #[test]
        fn every_dirty_line_reaches_memory_once(
            ops in prop::collection::vec((0..4, 0..64u64), 1..600),
            walks_use_l1: bool,
            prefetch_lines in 0..3u32,
            next_lines in 0..3u32,
        ) {
            let config = MemoryConfig {
                next_lines,
                ..tiny_config(walks_use_l1, prefetch_lines)
            };
            let mut memory = PrivateMemory::new(&config, 4, 0.5).unwrap();
            let mut newer = BTreeSet::new();
            for (now, (op, line)) in (0..).step_by(50).zip(ops) {
                match op {
                    0 => memory.data(line << 6, false, now),
                    1 => memory.data(line << 6, true, now),
                    2 => memory.fetch(line << 6, now),
                    _ => memory.walk(line << 6, now),
                };
                if op == 1 {
                    newer.insert(line);
                }
                let dirty = dirty_lines(&memory);
                let mut written = std::mem::take(&mut memory.dram.written);
                for line in &written {
                    prop_assert!(newer.contains(line), "line {line} was written for nothing");
                }
                written.sort_unstable();
                prop_assert!(written.is_sorted_by(|a, b| a < b), "written twice: {written:?}");
                newer.retain(|line| dirty.contains(line) || !written.contains(line));
                prop_assert_eq!(&newer, &dirty, "a dirty line was lost");
            }
        }
    }
}
