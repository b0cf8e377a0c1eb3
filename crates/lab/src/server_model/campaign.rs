// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every workload under every policy with every seed, and the runs of each pair.

use super::{Cell, ServerParams, Spread, load_all, run_cells, steady};
use crate::experiment::Progress;
use ample_mm::{PolicyConfig, PolicyKind, RunResult};
use anyhow::Result;

/// All runs of one workload under one policy.
pub(super) struct Group<'a> {
    pub(super) workload: String,
    pub(super) policy: PolicyKind,
    pub(super) runs: Vec<&'a RunResult>,
}

impl Group<'_> {
    pub(super) fn over(&self, metric: impl Fn(&RunResult) -> f64) -> Spread {
        Spread::of(self.runs.iter().map(|run| metric(run)))
    }

    /// Over the runs that have the metric; `None` if none has.
    pub(super) fn over_known(&self, metric: impl Fn(&RunResult) -> Option<f64>) -> Option<Spread> {
        let values: Vec<f64> = self.runs.iter().filter_map(|run| metric(run)).collect();
        (!values.is_empty()).then(|| Spread::of(values))
    }

    pub(super) fn low_ratio(&self) -> Option<Spread> {
        self.runs
            .iter()
            .all(|run| run.samples[0].low_region_bytes.is_some())
            .then(|| {
                self.over(|run| {
                    steady(run, |s| s.low_region_bytes.unwrap_or(0) as f64)
                        / run.memory_bytes as f64
                })
            })
    }
}

/// Every workload under every policy with every seed.
pub(super) fn campaign(
    params: &ServerParams,
    progress: Progress<'_>,
) -> Result<Vec<Option<RunResult>>> {
    params.check()?;
    let workloads = load_all(params)?;
    let mut cells = Vec::new();
    for workload in 0..workloads.len() {
        for &kind in &params.policies {
            for &seed in &params.seeds {
                let policy = PolicyConfig::new(kind);
                cells.push(Cell {
                    workload,
                    policy,
                    seed,
                });
            }
        }
    }
    Ok(run_cells(params, &workloads, &cells, progress)?)
}

/// Those of which every seed has run.
pub(super) fn groups<'a>(
    params: &ServerParams,
    results: &'a [Option<RunResult>],
) -> Vec<Group<'a>> {
    results
        .chunks(params.seeds.len())
        .filter_map(|runs| runs.iter().map(Option::as_ref).collect())
        .map(|runs: Vec<&RunResult>| Group {
            workload: runs[0].workload.clone(),
            policy: runs[0].policy,
            runs,
        })
        .collect()
}
