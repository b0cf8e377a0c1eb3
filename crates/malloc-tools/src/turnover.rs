// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why best fit ends near 100 % overhead in figure 11 of the paper and at less here: what a
//! strategy holds after a drop of demand depends on how much of the live memory was freed and made
//! anew since then. A turnover is as many replacements of random spans as there are live ones.

use crate::fill::{Heap, Policy};
use crate::{index, rounded, span_pages};
use ample_kit::random::SplitMix64;
use serde::Serialize;
use serde_json::json;

/// Turnovers at the full demand, before the drop.
const BEFORE: f64 = 3.0;
/// Turnovers after it at which the overhead is read.
const READ_AT: [f64; 6] = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0];
/// The demand after the drop, of that before.
const DROPS: [f64; 2] = [0.5, 1.0 / 3.0];

/// Overheads (pages backed ÷ pages in use, less one) after a drop, medians over seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TurnoverRow {
    /// `driver`: lengths as the empirical driver asks for them; `one page`: all the same.
    pub lengths: &'static str,
    /// Demand after the drop ÷ demand before.
    pub drop_to: f64,
    /// Turnovers since the drop.
    pub turnovers: f64,
    /// The shipped filler.
    pub filler: f64,
    /// Most allocations first.
    pub fullness: f64,
    /// The shortest gap of all.
    pub best_fit: f64,
}

/// A heap with its live spans.
struct Load {
    heap: Heap,
    random: SplitMix64,
    one_page: bool,
    live: Vec<(usize, usize)>,
    used: usize,
}

impl Load {
    fn free_one(&mut self) {
        let at = index(&mut self.random, self.live.len());
        let (page, len) = self.live.swap_remove(at);
        self.heap.free(page, len);
        self.used -= len;
    }

    /// Frees or allocates until `pages` are in use, or a little more.
    fn hold(&mut self, pages: usize) {
        while self.used > pages {
            self.free_one();
        }
        while self.used < pages {
            let len = if self.one_page {
                1
            } else {
                span_pages(&mut self.random)
            };
            self.live.push((self.heap.allocate(len), len));
            self.used += len;
        }
    }

    fn turn_over(&mut self, pages: usize, turnovers: f64) {
        let mut turned = 0.0;
        while turned < turnovers {
            turned += 1.0 / self.live.len() as f64;
            self.free_one();
            self.hold(pages);
        }
    }
}

/// The overheads at [`READ_AT`].
fn overheads(policy: Policy, pages: usize, drop_to: f64, one_page: bool, seed: u64) -> Vec<f64> {
    let mut load = Load {
        heap: Heap::new(policy),
        random: SplitMix64::new(seed),
        one_page,
        live: Vec::new(),
        used: 0,
    };
    load.hold(pages);
    load.turn_over(pages, BEFORE);
    let pages = (pages as f64 * drop_to) as usize;
    load.hold(pages);
    let mut turned = 0.0;
    let read = |at: f64| {
        load.turn_over(pages, at - turned);
        turned = at;
        load.heap.backed_pages() as f64 / load.used as f64 - 1.0
    };
    READ_AT.into_iter().map(read).collect()
}

/// All rows for a demand of so many pages before the drop, as one JSON object.
pub fn json(pages: usize, seeds: u64) -> String {
    let mut rows = Vec::new();
    for (lengths, one_page) in [("driver", false), ("one page", true)] {
        for drop_to in DROPS {
            let medians = |policy: Policy| -> Vec<f64> {
                let runs: Vec<Vec<f64>> = (1..=seeds)
                    .map(|seed| overheads(policy, pages, drop_to, one_page, seed))
                    .collect();
                let median = |at: usize| {
                    let mut all: Vec<f64> = runs.iter().map(|run| run[at]).collect();
                    all.sort_by(f64::total_cmp);
                    rounded(all[all.len() / 2], 4)
                };
                (0..READ_AT.len()).map(median).collect()
            };
            let policies = [Policy::Filler, Policy::Fullness, Policy::BestFit];
            let [filler, fullness, best_fit] = policies.map(medians);
            rows.extend((0..READ_AT.len()).map(|at| TurnoverRow {
                lengths,
                drop_to: rounded(drop_to, 4),
                turnovers: READ_AT[at],
                filler: filler[at],
                fullness: fullness[at],
                best_fit: best_fit[at],
            }));
        }
    }
    json!({"schema": "ample.malloc-drops/1", "seeds": seeds, "rows": rows}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_fit_takes_many_turnovers_where_the_filler_takes_two() {
        let at = |policy, turnovers: f64| {
            let place = READ_AT.iter().position(|&read| read == turnovers);
            overheads(policy, 20_000, 1.0 / 3.0, false, 5)[place.expect("it is read")]
        };
        assert!(at(Policy::Filler, 0.5) > 1.0 && at(Policy::BestFit, 0.5) > 1.0);
        assert!(at(Policy::Filler, 4.0) < 0.3);
        assert!(at(Policy::BestFit, 4.0) > 0.6);
    }
}
