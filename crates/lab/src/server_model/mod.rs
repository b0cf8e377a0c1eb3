// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiments of Contiguitas §5.2 and what surrounds them, as serialisable results with
//! the paper's values beside. Runs go over (workload, policy, seed) in parallel; the results do
//! not depend on the number of threads.

mod ablation;
mod campaign;
mod charts;
pub mod compaction;
mod convergence;
pub mod denied;
mod figures;
pub mod fleet;
pub mod recorded_kernel;
mod tables;

pub use ablation::{Ablation, AblationExperiment, AblationRow};
pub use convergence::{Convergence, ConvergenceParams, ConvergenceReport};
pub use figures::{
    Fig11, Fig11Experiment, Fig11Row, Fig12, Fig12Experiment, Fig12Row, PolicySummary,
};

pub use ample_kit::statistics::Spread;

use crate::experiment::{About, Progress};
use crate::progress::Shares;
use crate::stop;
use ample_mm::{
    Config, PolicyConfig, PolicyKind, RunResult, Sample, ServerError, Workload, WorkloadError, run,
};
use ample_pfn::format_bytes;
use anyhow::ensure;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Size of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerParams {
    /// Memory of each server.
    pub memory_bytes: u64,
    /// Simulated seconds of each run.
    pub duration_s: f64,
    /// Simulated seconds between samples (the paper: 15 minutes).
    pub sample_every_s: f64,
    /// One run each.
    pub seeds: Vec<u64>,
    /// Share of page-cache traffic that is simulated (see [`Config::event_ratio`]).
    pub event_ratio: f64,
    /// Workloads, by name or path.
    pub workloads: Vec<String>,
    /// Policies.
    pub policies: Vec<PolicyKind>,
    /// The paper's values to print beside ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paper: Vec<PaperValue>,
}

impl ServerParams {
    /// Refuses sizes that mean nothing or that memory cannot hold.
    ///
    /// # Errors
    /// Which field is out of range, and the range.
    pub fn check(&self) -> anyhow::Result<()> {
        let ranges = [
            ("duration_s", self.duration_s, 1.0, 90.0 * 86_400.0),
            ("sample_every_s", self.sample_every_s, 1.0, 90.0 * 86_400.0),
            ("event_ratio", self.event_ratio, 1e-4, 1.0),
        ];
        for (field, value, low, high) in ranges {
            ensure!(
                (low..=high).contains(&value),
                "{field} is {value}, but must be from {low} to {high}"
            );
        }
        check_memory(self.memory_bytes)
    }
}

/// Largest server of the model.
const MOST_MEMORY_BYTES: u64 = 1 << 40;
/// Bytes of this program for a page of a simulated server, roughly.
const BYTES_PER_PAGE: u64 = 8;

/// Refuses a server that the model or the memory of this machine cannot hold.
///
/// # Errors
/// When it does not fit.
pub fn check_memory(memory_bytes: u64) -> anyhow::Result<()> {
    ensure!(
        memory_bytes <= MOST_MEMORY_BYTES,
        "memory_bytes is {memory_bytes}, but the model goes up to {}",
        format_bytes(MOST_MEMORY_BYTES)
    );
    let own = memory_bytes / 4096 * BYTES_PER_PAGE;
    let here = memory_of_this_machine().unwrap_or(u64::MAX);
    ensure!(
        own <= here,
        "memory_bytes is {memory_bytes}: a server of that size takes {} here, and this machine \
         has {}",
        format_bytes(own),
        format_bytes(here)
    );
    Ok(())
}

fn memory_of_this_machine() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// An experiment as it was declared: what its result says of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerExperiment {
    /// Name on the command line.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// What was calibrated, and on what.
    pub calibrated: String,
    /// What is predicted.
    pub predicted: String,
    /// Size.
    pub params: ServerParams,
    /// The paper's values.
    #[serde(default)]
    pub paper: Vec<PaperValue>,
}

impl ServerExperiment {
    fn of(params: &ServerParams) -> ServerExperiment {
        let mut params = params.clone();
        ServerExperiment {
            paper: std::mem::take(&mut params.paper),
            params,
            ..ServerExperiment::default()
        }
    }

    fn declare(&mut self, about: &About) {
        self.name = about.id.clone();
        self.title = about.title.clone();
        self.calibrated = about.calibrated.clone();
        self.predicted = about.predicted.clone();
    }
}

/// A value of the paper to print beside ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperValue {
    /// Id in the list of claims.
    pub claim: String,
    /// Workload it is about; without one it is over all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Policy it is about.
    pub policy: PolicyKind,
    /// Our metric of the same meaning.
    pub metric: String,
    /// Smallest over workloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Mean over workloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Largest over workloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

/// Why an experiment could not run.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// A workload could not be loaded.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A server could not be made.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// Nothing to run.
    #[error("no {what} given; an experiment needs at least one")]
    Empty {
        /// What is missing.
        what: &'static str,
    },
}

/// One point of a curve: means over seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Simulated seconds since boot.
    pub time_s: f64,
    /// 2 MB blocks with an unmovable page ÷ all blocks (definition O).
    pub unmovable_2m_ratio: f64,
    /// Memory in 2 MB blocks without one.
    pub potential_2m_ratio: f64,
    /// Memory in 1 GB blocks without one.
    pub potential_1g_ratio: f64,
}

/// The course of one workload under one policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Workload.
    pub workload: String,
    /// Policy.
    pub policy: PolicyKind,
    /// Points in time order.
    pub points: Vec<CurvePoint>,
}

/// One cell of an experiment: what to run.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) workload: usize,
    pub(crate) policy: PolicyConfig,
    pub(crate) seed: u64,
}

/// Runs every cell, in parallel, and returns the results in the order of the cells; `None` for
/// those that an early end left.
pub(crate) fn run_cells(
    params: &ServerParams,
    workloads: &[Workload],
    cells: &[Cell],
    progress: Progress<'_>,
) -> Result<Vec<Option<RunResult>>, ExperimentError> {
    let done = Shares::new(cells.len());
    let results = cells.par_iter().enumerate().map(|(index, cell)| {
        let config = Config {
            memory_bytes: params.memory_bytes,
            policy: cell.policy.clone(),
            seed: cell.seed,
            event_ratio: params.event_ratio,
            ..Config::new(cell.policy.kind)
        };
        let workload = &workloads[cell.workload];
        let times = (params.duration_s, params.sample_every_s);
        let told = |share| progress(done.set(index, share));
        let run = stop::until_stopped(|| run_server(&config, workload, times.0, times.1, &told));
        run.transpose().map_err(ExperimentError::from)
    });
    results.collect()
}

/// As [`ample_mm::run`], with a checkpoint at each report of progress.
///
/// # Errors
/// When the memory size is out of range.
pub fn run_server(
    config: &Config,
    workload: &Workload,
    duration_s: f64,
    sample_every_s: f64,
    progress: &dyn Fn(f64),
) -> Result<RunResult, ServerError> {
    // Many runs may wait for their turn: none of them starts after an early end was asked for.
    stop::checkpoint();
    let told = |share| {
        stop::checkpoint();
        progress(share);
    };
    run(config, workload, duration_s, sample_every_s, &told)
}

pub(crate) fn load_all(params: &ServerParams) -> Result<Vec<Workload>, ExperimentError> {
    let empty = [
        ("workload", params.workloads.is_empty()),
        ("policy", params.policies.is_empty()),
        ("seed", params.seeds.is_empty()),
    ];
    if let Some((what, _)) = empty.into_iter().find(|(_, is)| *is) {
        return Err(ExperimentError::Empty { what });
    }
    let load = |name: &String| Workload::load(name).map_err(ExperimentError::from);
    params.workloads.iter().map(load).collect()
}

/// The steady state of a run: mean of a metric over the second half of its samples.
pub(crate) fn steady(result: &RunResult, metric: impl Fn(&Sample) -> f64) -> f64 {
    let half = &result.samples[result.samples.len() / 2..];
    half.iter().map(metric).sum::<f64>() / half.len().max(1) as f64
}

pub(crate) fn curve(workload: &str, policy: PolicyKind, runs: &[&RunResult]) -> Curve {
    let count = runs.iter().map(|run| run.samples.len()).min().unwrap_or(0);
    let points = (0..count).map(|at| {
        let mean = |metric: &dyn Fn(&Sample) -> f64| {
            runs.iter().map(|run| metric(&run.samples[at])).sum::<f64>() / runs.len() as f64
        };
        CurvePoint {
            time_s: runs[0].samples[at].time_s,
            unmovable_2m_ratio: mean(&|s| s.unmovable_2m_ratio),
            potential_2m_ratio: mean(&|s| s.potential_2m_ratio),
            potential_1g_ratio: mean(&|s| s.potential_1g_ratio),
        }
    });
    Curve {
        workload: workload.to_string(),
        policy,
        points: points.collect(),
    }
}
