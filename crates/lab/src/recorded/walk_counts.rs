// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the walks of a run went, in the terms of published logs of walks.

use ample_translate::{HitLevel, TranslationStats};
use serde::Serialize;
use std::collections::BTreeMap;

/// References of one level of a page table by where they hit: l1, l2, llc, mem.
pub type PlaceCounts = BTreeMap<&'static str, u64>;

/// Walks, what saved them and where their references hit. Levels count from the leaves: 1 is that
/// of 4 KB pages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WalkCounts {
    /// Walks for data and instructions, one load or store.
    pub walks_per_access: f64,
    /// Walks that found nothing mapped: the first touch of a page faults.
    pub faulted_walks: u64,
    /// Duration of a walk that did not fault, mean, cycles; null without walks.
    pub mean_walk_cycles: Option<f64>,
    /// References of a walk, mean, guest and host together; null without walks.
    pub mean_walk_references: Option<f64>,
    /// First-level misses that found their translation in the second level.
    pub second_level_hits: u64,
    /// The same ÷ first-level misses of data and instructions; null without misses.
    pub second_level_hit_ratio: Option<f64>,
    /// Walks by the level of the entry that the walk caches had, `none` if they had none.
    pub walk_cache_hits: BTreeMap<String, u64>,
    /// Hits of the nested TLB (virtual machines).
    pub nested_tlb_hits: u64,
    /// References by level and place: the only, or the guest's, page table.
    pub references: BTreeMap<String, PlaceCounts>,
    /// References by level and place: the host's page table (virtual machines).
    pub host_references: BTreeMap<String, PlaceCounts>,
}

/// Counts by level and place without what is zero; level 0 are hole bitmaps.
fn by_level(counts: &[[u64; 6]; 6]) -> BTreeMap<String, PlaceCounts> {
    let levels = counts.iter().enumerate();
    let levels = levels.filter(|(_, places)| places.iter().any(|&count| count > 0));
    let of = |(level, places): (usize, &[u64; 6])| {
        let name = match level {
            0 => "bitmap".into(),
            _ => level.to_string(),
        };
        let places = (0..).zip(places).filter(|(_, count)| **count > 0);
        let places = places.map(|(code, &count)| (HitLevel::name(code), count));
        (name, places.collect())
    };
    levels.map(of).collect()
}

impl WalkCounts {
    /// What the counters of a run say; `units` of their time make a cycle.
    pub fn of(stats: &TranslationStats, units: u64) -> Self {
        let ratio = |part: u64, of: u64| (of > 0).then(|| part as f64 / of as f64);
        let walks = stats.walks();
        let levels = stats.pwc_hits.iter().enumerate();
        let held = levels.filter(|(_, count)| **count > 0);
        let name = |level| match level {
            0 => "none".into(),
            _ => usize::to_string(&level),
        };
        WalkCounts {
            walks_per_access: walks as f64 / stats.accesses.max(1) as f64,
            faulted_walks: walks.saturating_sub(stats.walks_ended),
            mean_walk_cycles: ratio(stats.walk_cycles, stats.walks_ended)
                .map(|mean| mean / units as f64),
            mean_walk_references: ratio(stats.walk_refs(), walks),
            second_level_hits: stats.l2_hits,
            second_level_hit_ratio: ratio(stats.l2_hits, stats.l1d_misses + stats.l1i_misses),
            walk_cache_hits: held.map(|(level, &count)| (name(level), count)).collect(),
            nested_tlb_hits: stats.nested_tlb_hits,
            references: by_level(&stats.refs_at),
            host_references: by_level(&stats.host_refs_at),
        }
    }
}
