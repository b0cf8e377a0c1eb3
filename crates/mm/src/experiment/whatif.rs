// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every policy would make of one real machine under a workload.

use super::{Curve, ExperimentError, Params, Progress, Shares, curve, load_all};
use crate::config::{Config, PolicyKind};
use crate::run::{HugeResult, RunResult, Sample, run_on};
use crate::server::{Server, ServerError};
use ample_pfn::{BlockTally, Layout, PageClass, Pfn};
use rayon::prelude::*;
use serde::Serialize;

/// One policy on this machine.
#[derive(Clone, Debug, Serialize)]
pub struct WhatIfRow {
    /// Policy.
    pub policy: PolicyKind,
    /// Seed of the run shown.
    pub seed: u64,
    /// Right after the pages of the snapshot and the boot memory of the workload were placed.
    pub before: Sample,
    /// At the end of the run.
    pub after: Sample,
    /// Huge pages that could be had at the end.
    pub huge: HugeResult,
    /// Failed kernel allocations.
    pub failed_unmovable: u64,
    /// Stall time for kernel memory, in ns.
    pub stall_unmovable_ns: u64,
    /// Stall time for user memory, in ns.
    pub stall_movable_ns: u64,
    /// First frame of the maps.
    #[serde(skip)]
    pub map_first: Pfn,
    /// 2 MB blocks before.
    #[serde(skip)]
    pub map_before: Vec<BlockTally>,
    /// 2 MB blocks after.
    #[serde(skip)]
    pub map_after: Vec<BlockTally>,
}

/// All policies on this machine.
#[derive(Clone, Debug, Serialize)]
pub struct WhatIf {
    /// `ample.whatif/1`.
    pub schema: &'static str,
    /// Size of the experiment; `memory_bytes` is the machine's own span.
    pub params: Params,
    /// Workload.
    pub workload: String,
    /// One row a policy.
    pub rows: Vec<WhatIfRow>,
    /// Over time, one curve a policy.
    pub curves: Vec<Curve>,
}

/// Starts from the pages of a snapshot (`classes[i]` is the use of frame `i` of the layout's
/// span) and runs the first workload of `params`, scaled to the memory that is free, under each
/// policy with the first seed.
///
/// # Errors
/// [`ExperimentError`] when the workload or the machine's size is wrong.
pub fn whatif(
    layout: &Layout,
    classes: &[PageClass],
    params: &Params,
    progress: Progress<'_>,
) -> Result<WhatIf, ExperimentError> {
    let workloads = load_all(params)?;
    let workload = &workloads[0];
    let params = Params {
        memory_bytes: layout.span().pages() * ample_pfn::BASE_PAGE_BYTES,
        ..params.clone()
    };
    let done = Shares::new(params.policies.len());
    let run_one = |(index, &kind): (usize, &PolicyKind)| -> Result<RunResult, ServerError> {
        let config = Config {
            memory_bytes: params.memory_bytes,
            seed: params.seeds[0],
            event_ratio: params.event_ratio,
            ..Config::new(kind)
        };
        let server = Server::from_pages(&config, layout, classes)?;
        let tell = |share: f64| progress(done.set(index, share));
        let (duration_s, every_s) = (params.duration_s, params.sample_every_s);
        Ok(run_on(
            server, &config, workload, duration_s, every_s, &tell,
        ))
    };
    let results: Vec<RunResult> = params
        .policies
        .par_iter()
        .enumerate()
        .map(run_one)
        .collect::<Result<_, _>>()?;
    Ok(WhatIf {
        schema: "ample.whatif/1",
        workload: workload.name.clone(),
        curves: results
            .iter()
            .map(|run| curve(&workload.name, run.policy, &[run]))
            .collect(),
        rows: results.into_iter().filter_map(row).collect(),
        params,
    })
}

fn row(run: RunResult) -> Option<WhatIfRow> {
    Some(WhatIfRow {
        policy: run.policy,
        seed: run.seed,
        before: run.samples.first()?.clone(),
        after: run.samples.last()?.clone(),
        huge: run.huge,
        failed_unmovable: run.counters.failed_unmovable,
        stall_unmovable_ns: run.stall_unmovable_ns,
        stall_movable_ns: run.stall_movable_ns,
        map_first: run.map_first,
        map_before: run.map_before,
        map_after: run.map_after,
    })
}
