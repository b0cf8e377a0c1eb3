// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verdict while seeds are still coming in.

use super::estimate::PERCENT;
use super::options::Choice;
use super::simulate::{FutureRun, SimulatedRuns, in_order};
use crate::server_model::steady;
use ample_kit::statistics::MedianRange;

/// What the early sentence compares.
pub(super) const COMPARED: [Choice; 2] = [Choice::Nothing, Choice::Contiguitas];

/// Shares of spoiled blocks by seed, and all that has been simulated.
pub(super) struct SoFar {
    seeds: u64,
    spoiled: [Vec<f64>; 2],
    futures: Vec<FutureRun>,
}

impl SoFar {
    pub(super) fn new(seeds: u64) -> SoFar {
        SoFar {
            seeds,
            spoiled: Default::default(),
            futures: Vec::new(),
        }
    }

    /// All runs so far, when this one completes another seed of all that is compared.
    pub(super) fn add(&mut self, future: &FutureRun) -> Option<SimulatedRuns> {
        self.futures.push(future.clone());
        let at = COMPARED.iter().position(|&own| own == future.choice)?;
        let seeds = self.complete();
        self.spoiled[at].push(steady(&future.run, |sample| sample.unmovable_2m_ratio));
        if self.complete() == seeds {
            return None;
        }
        let [stock, contiguitas] = &self.spoiled;
        let of = |all: &Vec<f64>| MedianRange::of(all.clone()).map(|all| PERCENT.of(&all));
        let sentence = format!(
            "After {} of {} seeds: {} of the 2 MB blocks spoiled as the machine is, {} under \
             Contiguitas.",
            self.complete(),
            self.seeds,
            of(stock)?,
            of(contiguitas)?
        );
        Some(SimulatedRuns {
            futures: in_order(self.futures.clone()),
            partial: false,
            under_way: Some(sentence),
        })
    }

    fn complete(&self) -> usize {
        self.spoiled.iter().map(Vec::len).min().unwrap_or(0)
    }
}
