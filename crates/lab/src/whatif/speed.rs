// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the page sizes that an option delivers are worth in speed: the server model's mix of 4 KB,
//! 2 MB and 1 GB pages, priced with the translation simulator's table.

use crate::setup::PageMix;
use crate::translation::speedup::{SpeedTable, Speedups, page_mix, program_of, shipped};
use ample_kit::statistics::MedianRange;
use ample_mm::RunResult;
use serde::Serialize;

/// The gain of one kind of program.
#[derive(Clone, Debug, Serialize)]
pub struct KindGain {
    /// The program that was simulated.
    pub program: String,
    /// Speed over that of stock Linux with the same seed, minus one.
    pub over_stock: MedianRange,
}

impl KindGain {
    /// Whether the program stands for a workload of the server model.
    pub(super) fn stands_for(&self, workload: &str) -> bool {
        program_of(workload) == Some(&self.program)
    }
}

/// Prices page mixes, for each kind of program in the shipped table.
pub(super) struct Prices(Speedups);

impl Prices {
    pub(super) fn shipped() -> Prices {
        Prices(shipped())
    }

    /// Gains of runs over the stock run beside each.
    pub(super) fn gains(&self, pairs: &[(RunResult, &RunResult)]) -> Vec<KindGain> {
        let mixes: Vec<[PageMix; 2]> = pairs
            .iter()
            .map(|(run, stock)| [page_mix(run), page_mix(stock)])
            .collect();
        self.over_kinds(&mixes)
    }

    /// What another tenth of memory in 2 MB pages instead of 4 KB pages is worth; empty where a
    /// run has no tenth left in 4 KB pages.
    pub(super) fn another_tenth<'a>(
        &self,
        stock: impl Iterator<Item = &'a RunResult>,
    ) -> Vec<KindGain> {
        let mixes: Option<Vec<[PageMix; 2]>> = stock.map(|run| tenth_more(page_mix(run))).collect();
        mixes.map_or_else(Vec::new, |mixes| self.over_kinds(&mixes))
    }

    fn over_kinds(&self, mixes: &[[PageMix; 2]]) -> Vec<KindGain> {
        let of_table = |table: &SpeedTable| {
            let gain = |[new, old]: &[PageMix; 2]| {
                Some(table.speedup(new).ok()? / table.speedup(old).ok()? - 1.0)
            };
            let over_stock = MedianRange::of(mixes.iter().filter_map(gain).collect())?;
            let program = table.program.clone();
            Some(KindGain {
                program,
                over_stock,
            })
        };
        self.0.tables.iter().filter_map(of_table).collect()
    }
}

/// A mix with a tenth more in 2 MB pages, and the mix; `None` where 4 KB pages have less.
fn tenth_more(mix: PageMix) -> Option<[PageMix; 2]> {
    let share_2m = mix.share_2m + 0.1;
    (share_2m + mix.share_1g <= 1.0).then_some([PageMix { share_2m, ..mix }, mix])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_huge_already_has_no_tenth_to_win() {
        let mix = |share_2m, share_1g| PageMix {
            share_2m,
            share_1g,
            ..PageMix::SMALL
        };
        assert!(tenth_more(mix(0.95, 0.0)).is_none());
        assert!(tenth_more(mix(0.5, 0.45)).is_none());
        let [more, before] = tenth_more(mix(0.5, 0.0)).unwrap();
        assert!((more.share_2m - before.share_2m - 0.1).abs() < 1e-12);
    }
}
