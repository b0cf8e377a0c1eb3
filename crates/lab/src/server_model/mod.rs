// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiments of Contiguitas §5.2 and what surrounds them, as serialisable results with
//! the paper's values beside. Runs go over (workload, policy, seed) in parallel; the results do
//! not depend on the number of threads.

mod ablation;
mod figures;

pub use ablation::{Ablation, AblationRow, ablation};
pub use figures::{Fig11, Fig11Row, Fig12, Fig12Row, PolicySummary, fig11, fig11_and_12, fig12};

pub use ample_kit::statistics::Spread;
use ample_mm::ServerError;
use ample_mm::{Config, PolicyConfig, PolicyKind};
use ample_mm::{RunResult, Sample, run};
use ample_mm::{Workload, WorkloadError};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// Size of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
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
}

impl Params {
    /// Names of the shipped experiments.
    pub const SHIPPED: &[&str] = &["fig11", "fig12", "ablation", "ablation-day"];

    /// The shipped experiment of this name.
    ///
    /// # Panics
    /// Never for a shipped name: their files are tested.
    pub fn shipped(name: &str) -> Option<Experiment> {
        let text = match name {
            "fig11" => include_str!("../../../../experiments/fig11.toml"),
            "fig12" => include_str!("../../../../experiments/fig12.toml"),
            "ablation" => include_str!("../../../../experiments/ablation.toml"),
            "ablation-day" => include_str!("../../../../experiments/ablation-day.toml"),
            _ => return None,
        };
        Some(toml::from_str(text).expect("a shipped experiment parses"))
    }

    /// A smaller version: 1 GB servers, two hours, the same seeds. Churn is not thinned, which
    /// would move the results of stock Linux (RESULTS.md).
    pub fn quick(self) -> Params {
        Params {
            memory_bytes: self.memory_bytes.min(1 << 30),
            duration_s: self.duration_s.min(7200.0),
            ..self
        }
    }
}

/// A declarative experiment: its file under `experiments/`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Name on the command line.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// What was calibrated, and on what.
    pub calibrated: String,
    /// What is predicted.
    pub predicted: String,
    /// Size.
    pub params: Params,
    /// The paper's values.
    #[serde(default)]
    pub paper: Vec<PaperValue>,
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

/// Progress of an experiment: called with the share done, from any thread.
pub type Progress<'a> = &'a (dyn Fn(f64) + Sync);

/// One point of a curve: means over seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize)]
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

/// Runs every cell, in parallel, and returns the results in the order of the cells.
pub(crate) fn run_cells(
    params: &Params,
    workloads: &[Workload],
    cells: &[Cell],
    progress: Progress<'_>,
) -> Result<Vec<RunResult>, ExperimentError> {
    let done = Shares::new(cells.len());
    let results = cells.par_iter().enumerate().map(|(index, cell)| {
        let config = Config {
            memory_bytes: params.memory_bytes,
            policy: cell.policy.clone(),
            seed: cell.seed,
            event_ratio: params.event_ratio,
            ..Config::new(cell.policy.kind)
        };
        run(
            &config,
            &workloads[cell.workload],
            params.duration_s,
            params.sample_every_s,
            &|share| progress(done.set(index, share)),
        )
        .map_err(ExperimentError::from)
    });
    results.collect()
}

/// Shares done of many runs, kept without locks.
pub(crate) struct Shares(Vec<AtomicU64>);

impl Shares {
    pub(crate) fn new(count: usize) -> Shares {
        Shares((0..count).map(|_| AtomicU64::new(0)).collect())
    }

    /// Sets one run's share; the share of all of them.
    pub(crate) fn set(&self, index: usize, share: f64) -> f64 {
        self.0[index].store((share * 1e6) as u64, Ordering::Relaxed);
        let sum: u64 = self.0.iter().map(|s| s.load(Ordering::Relaxed)).sum();
        sum as f64 / 1e6 / self.0.len().max(1) as f64
    }
}

pub(crate) fn load_all(params: &Params) -> Result<Vec<Workload>, ExperimentError> {
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
