// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the translation hardware counts.

use crate::walk::ways::NestedWays;
use serde::Serialize;
use std::collections::BTreeMap;

/// Where a reference found its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum HitLevel {
    /// Not looked up: a functional run without caches.
    Unknown = 1,
    /// First-level cache.
    L1 = 2,
    /// Second-level cache.
    L2 = 3,
    /// Last-level cache.
    Llc = 4,
    /// No cache: the reference went to memory.
    Dram = 5,
}

impl HitLevel {
    /// Short name used in walk trajectories.
    pub fn name(code: u64) -> &'static str {
        ["-", "?", "l1", "l2", "llc", "mem"][code.min(5) as usize]
    }
}

const TRAJECTORIES: usize = 1 << 15;

/// Counters of one core's translation hardware. All are events but the cycles.
#[derive(Clone, Debug, Default)]
pub struct TranslationStats {
    /// Data accesses translated.
    pub accesses: u64,
    /// Instruction fetches translated.
    pub fetches: u64,
    /// Translated by a direct segment (or another bypass), no TLB asked.
    pub bypassed: u64,
    /// Data accesses that missed the L1 D-TLB.
    pub l1d_misses: u64,
    /// Fetches that missed the L1 I-TLB.
    pub l1i_misses: u64,
    /// L1 misses that hit the second level, by any kind of entry.
    pub l2_hits: u64,
    /// Page walks for data.
    pub walks_data: u64,
    /// Page walks for fetches.
    pub walks_fetch: u64,
    /// Walks that found an entry they could end at; the others faulted, and have no duration.
    pub walks_ended: u64,
    /// Data walks whose address lies in the range watched (a primary region).
    pub walks_watched: u64,
    /// References to guest (or only) page-table entries, by level.
    pub refs_by_level: [u64; 6],
    /// References to host page-table entries in nested walks, by level.
    pub host_refs_by_level: [u64; 6],
    /// References to guest (or only) page tables by level and where they hit ([`HitLevel`] as
    /// index); level 0: hole bitmaps.
    pub refs_at: [[u64; 6]; 6],
    /// The same of the host's page tables and bitmaps in nested walks.
    pub host_refs_at: [[u64; 6]; 6],
    /// Walks that started below the root thanks to the page-walk cache, by the level of the entry
    /// that hit; index 0: no hit.
    pub pwc_hits: [u64; 6],
    /// Hits of the walker's nested TLB.
    pub nested_tlb_hits: u64,
    /// Most references any one walk took.
    pub longest_walk_refs: u64,
    /// Perforated pages: L2 hits outside any hole's group (filter bit clear).
    pub filter_passes: u64,
    /// Perforated pages: look-ups for a bitmap entry.
    pub bitmap_lookups: u64,
    /// Perforated pages: bitmap groups loaded from memory.
    pub bitmap_loads: u64,
    /// Perforated pages: shadow entries read.
    pub hole_walks: u64,
    /// Ranges or coalesced entries that saved a walk.
    pub scheme_hits: u64,
    /// Dirty bits set by the hardware.
    pub dirty_assists: u64,
    /// First-level fills with a page of the kernel half that is not global, where there is one.
    /// Each leaves with the next switch of address spaces.
    pub kernel_fills_not_global: u64,
    /// Page faults taken.
    pub faults: u64,
    /// Invalidations applied.
    pub invalidations: u64,
    /// Sum over walks of their duration, in the port's time units (timed runs).
    pub walk_cycles: u64,
    /// The part of `walk_cycles` that was for fetches.
    pub walk_cycles_fetch: u64,
    /// The part of `walk_cycles` that was for data in the watched range.
    pub walk_cycles_watched: u64,
    /// What the scheme counts on its own.
    pub scheme: SchemeCounters,
    trajectories: Trajectories,
    pub(crate) nested_ways: NestedWays,
}

/// Counters that a scheme adds: each is there once it has been added to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemeCounters(Vec<(&'static str, u64)>);

impl SchemeCounters {
    /// Adds to the counter of a name.
    pub fn add(&mut self, name: &'static str, count: u64) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, value)) => *value += count,
            None => self.0.push((name, count)),
        }
    }

    /// The value of a counter.
    pub fn get(&self, name: &str) -> u64 {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map_or(0, |&(_, value)| value)
    }

    /// All of them, by name.
    pub fn all(&self) -> BTreeMap<&'static str, u64> {
        self.0.iter().copied().collect()
    }
}

/// Native walks by trajectory code.
#[derive(Clone, Debug)]
struct Trajectories(Vec<u64>);

impl Default for Trajectories {
    fn default() -> Self {
        Trajectories(vec![0; TRAJECTORIES])
    }
}

impl TranslationStats {
    /// Walks in all.
    pub fn walks(&self) -> u64 {
        self.walks_data + self.walks_fetch
    }

    /// References of all walks, guest and host.
    pub fn walk_refs(&self) -> u64 {
        self.refs_by_level.iter().sum::<u64>() + self.host_refs_by_level.iter().sum::<u64>()
    }

    /// Data walks per access.
    pub fn walk_ratio(&self) -> f64 {
        self.walks_data as f64 / self.accesses.max(1) as f64
    }

    /// Counts one native walk: three bits a reference, the last in the lowest bits.
    #[inline(always)]
    pub(crate) fn trajectory(&mut self, code: u64) {
        self.trajectories.0[code as usize & (TRAJECTORIES - 1)] += 1;
    }

    /// Counts `count` walks with a reference at each level from `from` down to their leaf at `to`,
    /// in memory that nobody looks up.
    pub(crate) fn walked_unseen(&mut self, from: u8, to: u8, count: u64) {
        let mut code = 0;
        for level in usize::from(to)..=usize::from(from) {
            self.refs_by_level[level] += count;
            self.refs_at[level][HitLevel::Unknown as usize] += count;
            code = code << 3 | HitLevel::Unknown as usize;
        }
        self.trajectories.0[code & (TRAJECTORIES - 1)] += count;
        self.longest_walk_refs = self.longest_walk_refs.max(u64::from(from - to) + 1);
    }

    /// Walks of a virtual machine by the ways they took: `LEVEL:HOST:PLACE` for each guest level,
    /// the first one that of the start, and `page:HOST`. HOST says how the host found the entry, or
    /// the page: `held` (its place was in the guest's page-walk caches), `tlb` (the nested TLB),
    /// `segment`, or `FROM-TO`, the levels of a walk of the host; PLACE is where the guest's
    /// reference hit. Hole bitmaps and entries of holes are left out, and walks that faulted.
    pub fn nested_trajectory_histogram(&self) -> BTreeMap<String, u64> {
        self.nested_ways.by_name()
    }

    /// The walk-trajectory histogram: for each sequence of places where a walk's references hit
    /// (root side first), the number of walks that took it.
    pub fn trajectory_histogram(&self) -> BTreeMap<String, u64> {
        let mut histogram = BTreeMap::new();
        let taken = self.trajectories.0.iter().enumerate();
        for (code, &count) in taken.filter(|(_, count)| **count > 0) {
            let places = (0..5).rev().map(|i| (code as u64) >> (3 * i) & 7);
            let places = places.filter(|&place| place != 0).map(HitLevel::name);
            let name = places.collect::<Vec<_>>().join(" ");
            let name = if name.is_empty() { "none".into() } else { name };
            histogram.insert(name, count);
        }
        histogram
    }
}
