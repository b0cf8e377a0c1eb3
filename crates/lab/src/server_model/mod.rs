// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiments of Contiguitas §5.2 and what surrounds them, as serialisable results with
//! the paper's values beside. Runs go over (workload, policy, seed) in parallel; the results do
//! not depend on the number of threads.

mod ablation;
mod campaign;
pub(crate) mod compaction;
mod convergence;
pub(crate) mod denied;
pub mod drawn_fleet;
pub(crate) mod drift;
mod figures;
pub(crate) mod fleet;
pub(crate) mod foresight;
mod hw_classes;
pub mod recorded_kernel;
pub(crate) mod restart_pages;
pub(crate) mod scatter;
mod sensitivity;

pub(crate) use ablation::AblationExperiment;
pub(crate) use campaign::side_by_side;
pub(crate) use convergence::Convergence;
pub(crate) use figures::{Fig11Experiment, Fig12Experiment};
pub(crate) use hw_classes::HwClassesExperiment;
pub(crate) use sensitivity::{FACTOR, FITTED, FittedNumbers};

pub(crate) use ample_kit::statistics::Spread;

use crate::experiment::About;
use crate::needs::meminfo_bytes;
use crate::stop;
use ample_mm::{
    Config, CostlyRequests, PolicyKind, Resizer, RunResult, Sample, ServerError, Workload, run,
};
use ample_pfn::format_bytes;
use ample_report::Unit;
use anyhow::ensure;
use serde::{Deserialize, Serialize};

/// Size of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Kernel memory ÷ that of the workloads.
    #[serde(default = "one")]
    pub kernel_factor: f64,
    /// How many times higher and rarer bursts of kernel memory are than in the workloads.
    #[serde(default = "one")]
    pub burst_factor: f64,
    /// Policies of the memory manager.
    pub policies: Vec<PolicyKind>,
    /// Whose parameters and rounds move the border of Contiguitas: `model` or `kernel`.
    #[serde(default, skip_serializing_if = "Resizer::is_kernel")]
    pub resizer: Resizer,
    /// How far the allocator goes for 2 MB pages: `patient` or `kernel`.
    #[serde(default, skip_serializing_if = "CostlyRequests::is_kernel")]
    pub costly: CostlyRequests,
    /// The paper's values to print beside ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paper: Vec<PaperValue>,
}

fn one() -> f64 {
    1.0
}

impl Default for ServerParams {
    /// Nothing runs; workloads are as they are.
    fn default() -> ServerParams {
        ServerParams {
            memory_bytes: 0,
            duration_s: 0.0,
            sample_every_s: 0.0,
            seeds: Vec::new(),
            event_ratio: 1.0,
            workloads: Vec::new(),
            kernel_factor: one(),
            burst_factor: one(),
            policies: Vec::new(),
            resizer: Resizer::default(),
            costly: CostlyRequests::default(),
            paper: Vec::new(),
        }
    }
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
            ("kernel_factor", self.kernel_factor, 0.0, 4.0),
            ("burst_factor", self.burst_factor, 0.01, 1000.0),
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
    let here = meminfo_bytes("MemTotal").unwrap_or(u64::MAX);
    ensure!(
        own <= here,
        "memory_bytes is {memory_bytes}: a server of that size takes {} here, and this machine \
         has {}",
        format_bytes(own),
        format_bytes(here)
    );
    Ok(())
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
    /// Sizes and lengths.
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

    /// What was run, what was calibrated, and how to read the cells of its tables.
    fn head(&self) -> Option<String> {
        let params = &self.params;
        let seeds: Vec<String> = params.seeds.iter().map(u64::to_string).collect();
        Some(format!(
            "{}\nsimulated: {} servers, {} each, seeds {}, event ratio {}\ncalibrated: {}\n\
             predicted: {}\nmean (smallest–largest) over seeds; second half of each run\n",
            self.title,
            format_bytes(params.memory_bytes),
            Unit::Seconds.format(params.duration_s),
            seeds.join(" "),
            params.event_ratio,
            self.calibrated,
            self.predicted
        ))
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
    /// Workload that ran.
    pub workload: String,
    /// Policy it ran under.
    pub policy: PolicyKind,
    /// Points in time order.
    pub points: Vec<CurvePoint>,
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
    stop::checkpoint();
    let told = |share| {
        stop::checkpoint();
        progress(share);
    };
    run(config, workload, duration_s, sample_every_s, &told)
}

/// The steady state of a run: mean of a metric over the second half of its samples.
pub(crate) fn steady(result: &RunResult, metric: impl Fn(&Sample) -> f64) -> f64 {
    let half = &result.samples[result.samples.len() / 2..];
    half.iter().map(metric).sum::<f64>() / half.len().max(1) as f64
}

fn curve(workload: &str, policy: PolicyKind, runs: &[RunResult]) -> Curve {
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
