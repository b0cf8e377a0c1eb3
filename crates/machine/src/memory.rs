// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory side of one core: private caches, a last-level cache and DRAM, behind an interface
//! that a memory system shared by several cores can implement as well.

use crate::cache::{Cache, CacheConfig};
use crate::dram::{Dram, DramConfig};
use crate::functional::AHEAD;
use ample_translate::HitLevel;
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// Addresses that are read ahead at once, two an access: its entry and its data.
pub const READ_AHEAD: usize = 2 * AHEAD;

/// What a core asks of memory. Times are in core units; addresses are physical.
pub trait MemorySystem {
    /// A load or a store's read for ownership. `hidden`: issue limits of the core (MSHRs) apply
    /// to requests that leave the first level.
    fn data(&mut self, pa: u64, write: bool, now: u64) -> (u64, HitLevel);
    /// An instruction fetch.
    fn fetch(&mut self, pa: u64, now: u64) -> (u64, HitLevel);
    /// A reference of the page walker.
    fn walk(&mut self, pa: u64, now: u64) -> (u64, HitLevel);
    /// Reads what the model will need for accesses to come at these physical addresses and changes
    /// nothing, so that its host waits for several at once; returns something of it. At most
    /// `READ_AHEAD` addresses.
    fn read_ahead(&self, addresses: &[u64]) -> u64 {
        let _ = addresses;
        0
    }
}

/// Caches and memory of a core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Whether walks start at the first-level data cache (else at the second level).
    pub walks_use_l1: bool,
    /// Memory.
    pub dram: DramConfig,
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
    /// Memory.
    pub dram: u64,
}

impl HitCounts {
    fn count(&mut self, hit: HitLevel) {
        match hit {
            HitLevel::L1 => self.l1 += 1,
            HitLevel::L2 => self.l2 += 1,
            HitLevel::Llc => self.llc += 1,
            HitLevel::Dram => self.dram += 1,
            HitLevel::Unknown => {}
        }
    }
}

/// The private hierarchy.
#[derive(Clone, Debug)]
pub struct PrivateMemory {
    l1d: Cache,
    l1i: Cache,
    l2: Cache,
    llc: Cache,
    /// DRAM and its counters.
    pub dram: Dram,
    l1d_time: u64,
    l1i_time: u64,
    l2_time: u64,
    llc_time: u64,
    mshrs: Vec<u64>,
    streams: Vec<u64>,
    prefetch_lines: u64,
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
    /// If a cache cannot be built.
    pub fn new(config: &MemoryConfig, units_per_cycle: u64, cycle_ns: f64) -> Result<Self> {
        let time = |c: &CacheConfig| u64::from(c.latency_cycles) * units_per_cycle;
        anyhow::ensure!(
            config.mshrs > 0,
            "a first-level cache needs at least one MSHR"
        );
        anyhow::ensure!(
            config.dram.channels > 0 && config.dram.banks > 0 && config.dram.row_bytes >= 64,
            "memory needs a channel, a bank and rows of at least 64 bytes"
        );
        Ok(PrivateMemory {
            l1d: Cache::new(&config.l1d, "L1 D-cache")?,
            l1i: Cache::new(&config.l1i, "L1 I-cache")?,
            l2: Cache::new(&config.l2, "L2 cache")?,
            llc: Cache::new(&config.llc, "last-level cache")?,
            dram: Dram::new(&config.dram, cycle_ns / units_per_cycle as f64),
            l1d_time: time(&config.l1d),
            l1i_time: time(&config.l1i),
            l2_time: time(&config.l2),
            llc_time: time(&config.llc),
            mshrs: vec![0; config.mshrs as usize],
            streams: vec![0; 64],
            prefetch_lines: u64::from(config.prefetch_lines),
            walks_use_l1: config.walks_use_l1,
            data_hits: HitCounts::default(),
            walk_hits: HitCounts::default(),
        })
    }

    /// Hits and misses of the last-level cache.
    pub fn llc_counts(&self) -> (u64, u64) {
        (self.llc.hits, self.llc.misses)
    }

    /// From the second level on; latencies are from the core, so each level adds its difference.
    #[inline]
    fn beyond_l1(&mut self, line: u64, now: u64) -> (u64, HitLevel) {
        if let Some(ready) = self.l2.lookup(line, false) {
            return (ready.max(now + self.l2_time), HitLevel::L2);
        }
        let (done, hit) = self.beyond_l2(line, now);
        self.fill_l2(line, done);
        (done, hit)
    }

    #[inline]
    fn beyond_l2(&mut self, line: u64, now: u64) -> (u64, HitLevel) {
        if let Some(ready) = self.llc.lookup(line, false) {
            return (ready.max(now + self.llc_time), HitLevel::Llc);
        }
        let done = self.dram.access(line, now + self.llc_time);
        if let Some(victim) = self.llc.install(line, false, done)
            && victim.dirty
        {
            self.dram.access(victim.line, now + self.llc_time);
        }
        (done, HitLevel::Dram)
    }

    #[inline]
    fn fill_l2(&mut self, line: u64, done: u64) {
        if let Some(victim) = self.l2.install(line, false, done)
            && victim.dirty
            && let Some(victim) = self.llc.write_back(victim.line)
            && victim.dirty
        {
            self.dram.access(victim.line, done);
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

impl MemorySystem for PrivateMemory {
    #[inline(always)]
    fn data(&mut self, pa: u64, write: bool, now: u64) -> (u64, HitLevel) {
        let line = pa >> 6;
        if let Some(ready) = self.l1d.lookup(line, write) {
            self.data_hits.l1 += 1;
            return (ready.max(now + self.l1d_time), HitLevel::L1);
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
        if let Some(victim) = self.l1d.install(line, write, done)
            && victim.dirty
            && let Some(victim) = self.l2.write_back(victim.line)
            && victim.dirty
        {
            self.llc.write_back(victim.line);
        }
        (done, hit)
    }

    fn fetch(&mut self, pa: u64, now: u64) -> (u64, HitLevel) {
        let line = pa >> 6;
        if let Some(ready) = self.l1i.lookup(line, false) {
            // The pipeline hides a hit.
            return (ready.max(now), HitLevel::L1);
        }
        let (done, hit) = self.beyond_l1(line, now);
        self.l1i.install(line, false, done);
        (done.max(now + self.l1i_time), hit)
    }

    #[inline]
    fn walk(&mut self, pa: u64, now: u64) -> (u64, HitLevel) {
        let line = pa >> 6;
        let (done, hit) = if self.walks_use_l1 {
            match self.l1d.lookup(line, false) {
                Some(ready) => (ready.max(now + self.l1d_time), HitLevel::L1),
                None => {
                    let (done, hit) = self.beyond_l1(line, now);
                    if let Some(victim) = self.l1d.install(line, false, done)
                        && victim.dirty
                    {
                        self.l2.write_back(victim.line);
                    }
                    (done, hit)
                }
            }
        } else {
            self.beyond_l1(line, now)
        };
        self.walk_hits.count(hit);
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
            let (far, _) = self.llc.read_way(pa >> 6);
            *leaving = leaves.unwrap_or(pa >> 6);
            digest ^= near ^ far;
        }
        let leaving = &leaving[..addresses.len().min(READ_AHEAD)];
        for &line in leaving {
            digest ^= self.llc.read_head(line);
        }
        for &line in leaving {
            digest ^= self.llc.read_way(line).0;
        }
        digest
    }
}
