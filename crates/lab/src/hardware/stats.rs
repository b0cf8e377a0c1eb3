// SPDX-License-Identifier: MIT OR Apache-2.0
//! The run of independent simulations on all threads of the host.

use crate::experiment::Progress;
use crate::progress::Steps;
use crate::stop;
use ample_machine::multi::{CoreProgram, MultiCore};
use anyhow::Result;
use rayon::prelude::*;

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

/// The half width of an interval, which a single seed has not.
pub(super) fn finite(half_width: f64) -> Option<f64> {
    half_width.is_finite().then_some(half_width)
}
