// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is counted of the batches of a block, added to the statistics at its end.

use crate::mmu::Mmu;

/// Levels of page tables, counted from 1, and none.
const LEVELS: usize = 6;

/// A walk for data.
pub(super) const DATA: usize = 0;
/// A walk for a fetch.
pub(super) const FETCH: usize = 1;
/// A walk for data in the range watched.
pub(super) const WATCHED: usize = 2;
/// Kinds of walks.
pub(super) const KINDS: usize = 3;

/// Counts of a block.
#[derive(Default)]
pub(super) struct Tally {
    /// Data accesses of all batches, heads and those that they stand for.
    pub(super) accesses: u64,
    /// Fetches, likewise.
    pub(super) fetches: u64,
    /// Data accesses that missed the first level.
    pub(super) missed_data: u64,
    /// Fetches that missed it.
    pub(super) missed_fetches: u64,
    /// Those of both that hit the second level.
    pub(super) second_hits: u64,
    /// Walks by what they are for, and by the levels of their first and their last reference.
    walks: [[[u64; LEVELS]; LEVELS]; KINDS],
}

impl Tally {
    /// Counts walks of a kind.
    pub(super) fn walked(&mut self, kind: usize, (from, to): (u8, u8), count: u64) {
        self.walks[kind][usize::from(from)][usize::from(to)] += count;
    }

    /// Adds it all to what the hardware has counted.
    pub(super) fn add_to(&self, mmu: &mut Mmu) {
        let levels = mmu.config().levels;
        let stats = &mut mmu.stats;
        stats.accesses += self.accesses;
        stats.fetches += self.fetches;
        stats.l1d_misses += self.missed_data;
        stats.l1i_misses += self.missed_fetches;
        stats.l2_hits += self.second_hits;
        for from in 1..=levels {
            // A walk from the root has found nothing in the page-walk cache.
            let hit = if from == levels { 0 } else { from + 1 };
            for to in 1..=from {
                let of = |kind: usize| self.walks[kind][usize::from(from)][usize::from(to)];
                let [data, fetch, watched] = [DATA, FETCH, WATCHED].map(of);
                let all = data + fetch + watched;
                if all == 0 {
                    continue;
                }
                let refs = u64::from(from - to) + 1;
                let cycles = mmu.pwc_time + refs * mmu.reference_time;
                let stats = &mut mmu.stats;
                stats.pwc_hits[usize::from(hit)] += all;
                stats.walks_data += data + watched;
                stats.walks_fetch += fetch;
                stats.walks_watched += watched;
                stats.walks_ended += all;
                stats.walk_cycles += cycles * all;
                stats.walk_cycles_fetch += cycles * fetch;
                stats.walk_cycles_watched += cycles * watched;
                stats.walked_unseen(from, to, all);
            }
        }
    }
}
