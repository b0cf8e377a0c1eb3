// SPDX-License-Identifier: MIT OR Apache-2.0
//! The run of independent simulations on all threads of the host.

use ample_memsys::timed::BadParams;
use rayon::prelude::*;

/// Runs one simulation for each job, on as many threads as the host gives. Results come in the
/// order of the jobs and do not depend on the number of threads.
pub(super) fn parallel<J: Sync, R: Send>(
    jobs: &[J],
    run: impl Fn(&J) -> Result<R, BadParams> + Sync + Send,
) -> Result<Vec<R>, BadParams> {
    jobs.par_iter().map(run).collect()
}
