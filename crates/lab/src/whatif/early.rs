// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verdict while seeds are still coming in.

use super::estimate::PERCENT;
use super::options::Choice;
use crate::server_model::steady;
use ample_kit::statistics::MedianRange;
use ample_mm::RunResult;

/// What the early sentence compares.
pub(super) const COMPARED: [Choice; 2] = [Choice::Nothing, Choice::Contiguitas];

/// Shares of spoiled blocks by seed.
pub(super) struct SoFar {
    seeds: u64,
    spoiled: [Vec<f64>; 2],
}

impl SoFar {
    pub(super) fn new(seeds: u64) -> SoFar {
        let spoiled = Default::default();
        SoFar { seeds, spoiled }
    }

    /// The sentence, when this run completes another seed of all that is compared.
    pub(super) fn add(&mut self, choice: Choice, run: &RunResult) -> Option<String> {
        let at = COMPARED.iter().position(|&compared| compared == choice)?;
        let seeds = self.complete();
        self.spoiled[at].push(steady(run, |sample| sample.unmovable_2m_ratio));
        if self.complete() == seeds {
            return None;
        }
        let [stock, contiguitas] = &self.spoiled;
        let of = |all: &Vec<f64>| MedianRange::of(all.clone()).map(|all| PERCENT.of(&all));
        Some(format!(
            "after {} of {} seeds: {} of the 2 MB blocks spoiled as the machine is, {} under \
             Contiguitas",
            self.complete(),
            self.seeds,
            of(stock)?,
            of(contiguitas)?
        ))
    }

    fn complete(&self) -> usize {
        self.spoiled.iter().map(Vec::len).min().unwrap_or(0)
    }
}
