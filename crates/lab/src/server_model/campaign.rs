// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many servers side by side: every workload under every policy with every seed, and the runs of
//! each pair.

use super::{ServerParams, Spread, steady};
use crate::experiment::Progress;
use crate::progress::Shares;
use crate::stop;
use ample_mm::{Config, PolicyConfig, PolicyKind, RunResult, Sample, Workload, run};
use anyhow::{Result, ensure};
use rayon::prelude::*;

/// Runs jobs side by side, handed out in their order so that no long one begins when the others
/// are nearly done. Results are in the order of the jobs whatever the number of threads; `None`
/// for those that an early end left, at its next report of the share done.
pub(crate) fn side_by_side<J: Sync, R: Send>(
    jobs: &[J],
    progress: Progress<'_>,
    run: impl Fn(&J, &dyn Fn(f64)) -> Result<R> + Sync,
) -> Result<Vec<Option<R>>> {
    let shares = Shares::new(jobs.len());
    let one = |(index, job): (usize, &J)| {
        let told = |share| {
            stop::checkpoint();
            progress(shares.set(index, share));
        };
        let done = stop::until_stopped(|| {
            stop::checkpoint();
            run(job, &told)
        });
        done.transpose().map(|done| (index, done))
    };
    let done: Result<Vec<_>> = jobs.iter().enumerate().par_bridge().map(one).collect();
    let mut done = done?;
    done.sort_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, done)| done).collect())
}

/// All runs of one workload under one policy.
pub(super) struct Group {
    pub(super) workload: String,
    /// Place of the policy in the list that was run.
    pub(super) policy_index: usize,
    pub(super) policy: PolicyKind,
    pub(super) runs: Vec<RunResult>,
}

impl Group {
    /// The run of one seed alone, by its place in the list of seeds.
    pub(super) fn of_seed(&self, at: usize) -> Group {
        Group {
            workload: self.workload.clone(),
            runs: vec![self.runs[at].clone()],
            ..*self
        }
    }

    pub(super) fn over(&self, metric: impl Fn(&RunResult) -> f64) -> Spread {
        Spread::of(self.runs.iter().map(metric))
    }

    /// The steady state of a metric of samples.
    pub(super) fn steady(&self, metric: impl Fn(&Sample) -> f64) -> Spread {
        self.over(|run| steady(run, &metric))
    }

    /// Over the runs that have the metric; `None` if none has.
    pub(super) fn over_known(&self, metric: impl Fn(&RunResult) -> Option<f64>) -> Option<Spread> {
        let values: Vec<f64> = self.runs.iter().filter_map(metric).collect();
        (!values.is_empty()).then(|| Spread::of(values))
    }

    /// Memory below the border ÷ all memory, steady state; `None` without a border.
    pub(super) fn low_ratio(&self) -> Option<Spread> {
        let bounded = |run: &RunResult| run.samples[0].low_region_bytes.is_some();
        let low = |run: &RunResult| {
            steady(run, |s| s.low_region_bytes.unwrap_or(0) as f64) / run.memory_bytes as f64
        };
        self.runs.iter().all(bounded).then(|| self.over(low))
    }
}

/// Every workload under every policy with every seed, in this order; groups of which not every
/// seed has run are left out.
pub(super) fn campaign(
    params: &ServerParams,
    policies: &[PolicyConfig],
    progress: Progress<'_>,
) -> Result<Vec<Group>> {
    campaign_of(params, &workloads(params)?, policies, progress)
}

/// The workloads of an experiment, with its kernel memory.
pub(super) fn workloads(params: &ServerParams) -> Result<Vec<Workload>> {
    let load = |name: &String| {
        let workload = Workload::load(name)?;
        Ok(workload.with_kernel(params.kernel_factor, params.burst_factor))
    };
    params.workloads.iter().map(load).collect()
}

/// As [`campaign`], with these workloads instead of those that are named.
pub(super) fn campaign_of(
    params: &ServerParams,
    workloads: &[Workload],
    policies: &[PolicyConfig],
    progress: Progress<'_>,
) -> Result<Vec<Group>> {
    params.check()?;
    let empty = [
        ("workload", workloads.is_empty()),
        ("policy", policies.is_empty()),
        ("seed", params.seeds.is_empty()),
    ];
    for (what, is_empty) in empty {
        ensure!(
            !is_empty,
            "no {what} given; an experiment needs at least one"
        );
    }
    let mut cells = Vec::new();
    for workload in workloads {
        for policy in policies {
            cells.extend(params.seeds.iter().map(|&seed| (workload, policy, seed)));
        }
    }
    let one = |&(workload, policy, seed): &(&Workload, &PolicyConfig, u64), told: &dyn Fn(f64)| {
        let config = Config {
            memory_bytes: params.memory_bytes,
            policy: PolicyConfig {
                resizer: params.resizer,
                ..policy.clone()
            },
            seed,
            event_ratio: params.event_ratio,
            costly: params.costly,
            ..Config::new(policy.kind)
        };
        let (seconds, every) = (params.duration_s, params.sample_every_s);
        Ok(run(&config, workload, seconds, every, told)?)
    };
    let mut runs = side_by_side(&cells, progress, one)?.into_iter();
    let mut groups = Vec::new();
    for pair in 0..workloads.len() * policies.len() {
        let seeds: Vec<_> = runs.by_ref().take(params.seeds.len()).collect();
        if let Some(runs) = seeds.into_iter().collect::<Option<Vec<RunResult>>>() {
            groups.push(Group {
                workload: runs[0].workload.clone(),
                policy_index: pair % policies.len(),
                policy: runs[0].policy,
                runs,
            });
        }
    }
    Ok(groups)
}

/// The policies of an experiment, with all mechanisms.
pub(super) fn policies(params: &ServerParams) -> Vec<PolicyConfig> {
    let all = params.policies.iter();
    all.map(|&kind| PolicyConfig::new(kind)).collect()
}
