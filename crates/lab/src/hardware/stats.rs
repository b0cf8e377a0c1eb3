// SPDX-License-Identifier: MIT OR Apache-2.0
//! The run of independent simulations on all threads of the host.

use super::Service;
use crate::charts::name_of;
use crate::experiment::Progress;
use crate::progress::Steps;
use crate::stop;
use ample_kit::statistics::{mean, mean_and_ci};
use ample_machine::multi::{CoreProgram, MultiCore};
use ample_report::Unit;
use anyhow::Result;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Figures that a row has over all its seeds, and that each seed alone has too.
pub trait SeedFigures: Copy {
    /// Figure by figure, what `choose` makes of the two.
    fn with(self, other: Self, choose: fn(f64, f64) -> f64) -> Self;
}

/// The least and the greatest of each figure over the seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeedEnds<F> {
    /// Each figure with the seed that has the least of it.
    pub least: F,
    /// Each figure with the seed that has the greatest of it.
    pub greatest: F,
}

impl<F: SeedFigures> SeedEnds<F> {
    /// Of the figures of each seed; `None` without a seed.
    pub fn of(seeds: &[F]) -> Option<SeedEnds<F>> {
        let over = |choose: fn(f64, f64) -> f64| {
            let seeds = seeds.iter().copied();
            seeds.reduce(|one, other| one.with(other, choose))
        };
        Some(SeedEnds {
            least: over(f64::min)?,
            greatest: over(f64::max)?,
        })
    }
}

/// Runs one simulation for each job, on as many threads as the host gives. Results come in the
/// order of the jobs and do not depend on the number of threads; `None` for a job that an early
/// end left at a checkpoint.
pub(super) fn parallel<J: Sync, R: Send>(
    jobs: &[J],
    progress: Progress<'_>,
    run: impl Fn(&J) -> Result<R> + Sync + Send,
) -> Result<Vec<Option<R>>> {
    let steps = Steps::new(progress, jobs.len());
    let one = |job| {
        let result = stop::until_stopped(|| {
            stop::checkpoint();
            run(job)
        });
        steps.step();
        result.transpose()
    };
    jobs.par_iter().map(one).collect()
}

/// Cycles between two checkpoints: some milliseconds of the host.
const CHECKPOINT_CYCLES: u64 = 20_000;

/// Runs a machine from one moment to another, with checkpoints on the way.
pub(super) fn advance<P: CoreProgram>(machine: &mut MultiCore<P>, from: u64, until: u64) {
    let mut now = from;
    while now < until {
        stop::checkpoint();
        now = until.min(now + CHECKPOINT_CYCLES);
        machine.run_until(now);
    }
}

/// Mean and half width of its 95 % confidence interval (Student's t), which a single value has
/// not.
pub(super) fn with_ci(values: &[f64]) -> (f64, Option<f64>) {
    let (mean, half_width) = mean_and_ci(values);
    (mean, half_width.is_finite().then_some(half_width))
}

/// Mean over rows; 0 without any.
pub(super) fn mean_of<T>(rows: &[T], value: impl Fn(&T) -> f64) -> f64 {
    mean(rows.iter().map(value)).unwrap_or(0.0)
}

/// Each of some items with each of others, the latter running fastest.
pub(super) fn pairs<A: Copy, B: Copy>(all: &[A], with: &[B]) -> Vec<(A, B)> {
    let one = |&a: &A| with.iter().map(move |&b| (a, b));
    all.iter().flat_map(one).collect()
}

/// Name of a group of bars: a server and its migrations a second.
pub(super) fn group(service: Service, rate_per_s: f64) -> String {
    format!("{} {}", name_of(&service), Unit::Count.format(rate_per_s))
}
