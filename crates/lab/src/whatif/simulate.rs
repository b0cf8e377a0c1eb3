// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every policy would make of one real machine under a workload, and beside it freshly
//! booted servers under the shipped workloads.

use crate::experiment::Progress;
use crate::server_model::{check_memory, side_by_side};
use ample_mm::Workload;
use ample_mm::{Config, Mechanisms, PolicyConfig, PolicyKind};
use ample_mm::{RunResult, run, run_on};
use ample_mm::{ServerError, ServerModel};
use ample_pfn::{BlockTally, Layout, Metrics, Order, PageClass};
use anyhow::{Context, Result};

/// The shipped server workloads, in the order of figure 11.
const SERVERS: [&str; 4] = ["ci", "web", "cache-a", "cache-b"];
/// Workload of the ablation, and the part of the servers' memory that it uses: eight runs more
/// that compare Contiguitas with itself only.
const ABLATION: &str = "web";
const ABLATION_MEMORY_DIVISOR: u64 = 4;
/// Samples of each run.
const SAMPLES: f64 = 18.0;

/// Size of the freshly booted servers.
#[derive(Clone, Debug, PartialEq)]
pub struct FreshServers {
    /// Memory of each.
    pub memory_bytes: u64,
    /// Simulated seconds of each.
    pub duration_s: f64,
    /// Runs of each; their seeds count up from that of the machine.
    pub seeds: u64,
}

/// What to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIfPlan {
    /// The load on the machine.
    pub workload: Workload,
    /// Simulated seconds of it.
    pub duration_s: f64,
    /// Seed of the model; fresh servers count up from it.
    pub seed: u64,
    /// Share of the page-cache traffic that is simulated (see [`Config::event_ratio`]).
    pub event_ratio: f64,
    /// Also run fresh servers and the ablation.
    pub servers: Option<FreshServers>,
}

/// Everything that was simulated.
#[derive(Clone, Debug)]
pub struct SimulatedRuns {
    /// The machine under each policy; `linux` first.
    pub futures: Vec<RunResult>,
    /// Fresh servers: workload by policy by seed.
    pub servers: Vec<RunResult>,
    /// Contiguitas complete, then without each mechanism, by name.
    pub ablation: Vec<(String, RunResult)>,
    /// Ended early: runs that did not end are left out.
    pub partial: bool,
}

/// A machine as it was scanned.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Host name, or the name of the snapshot.
    pub name: String,
    /// Kernel release.
    pub kernel: String,
    /// Reader that saw the pages.
    pub reader: String,
    /// Uptime in seconds, if known.
    pub uptime_s: Option<u64>,
    /// How long the scan took.
    pub scan_duration_ns: u64,
    /// All its metrics, by zone and node.
    pub metrics: Metrics,
    /// Its 2 MB blocks, for the map.
    pub blocks: Vec<BlockTally>,
    /// Order of those blocks.
    pub base: Order,
}

/// Everything the page shows.
#[derive(Clone, Debug)]
pub struct WhatIf {
    /// The scanned machine.
    pub machine: Machine,
    /// What was simulated.
    pub runs: SimulatedRuns,
    /// Share of the page cache's traffic that was simulated.
    pub event_ratio: f64,
    /// Command that makes this page again.
    pub command: String,
}

impl WhatIf {
    /// The future under one policy.
    pub fn future(&self, policy: PolicyKind) -> Option<&RunResult> {
        self.runs.futures.iter().find(|run| run.policy == policy)
    }

    /// What thinning the page cache's traffic does to the figures; empty where nothing was thinned.
    pub(super) fn thinning(&self) -> String {
        if self.event_ratio >= 1.0 {
            return String::new();
        }
        format!(
            " Of the page cache’s traffic {:.0} % is simulated, which makes stock Linux look \
             better than it is, by up to 6 points under ci and cache-b, and leaves the other \
             policies as they are (results/predict.md, convergence).",
            100.0 * self.event_ratio
        )
    }
}

/// One simulation to be done.
enum Job<'a> {
    Future(PolicyKind),
    Server(PolicyKind, &'a Workload, u64),
    Ablation(Option<&'static str>, &'a Workload),
}

/// Starts from the pages of a snapshot (`classes[i]` is the use of frame `i` of the layout's
/// span) and runs the plan's workload, scaled to the memory that is free, under each policy.
/// Simulations run in parallel; the results do not depend on the number of threads. An early end
/// ([`crate::stop`]) gives a partial result.
///
/// # Errors
/// When a shipped workload is broken or a machine's size is out of the model's range.
pub fn whatif(
    layout: &Layout,
    classes: &[PageClass],
    plan: &WhatIfPlan,
    progress: Progress<'_>,
) -> Result<SimulatedRuns> {
    if let Some(servers) = &plan.servers {
        check_memory(servers.memory_bytes).context("servers of the report")?;
    }
    let shipped = SERVERS.iter().map(|name| Workload::load(name));
    let shipped: Vec<Workload> = shipped.collect::<Result<_, _>>()?;
    let jobs = jobs(plan, &shipped);
    let runs = side_by_side(&jobs, progress, |job, told| {
        Ok(simulate(layout, classes, plan, job, told)?)
    })?;
    let mut sorted = SimulatedRuns {
        futures: Vec::new(),
        servers: Vec::new(),
        ablation: Vec::new(),
        partial: runs.iter().any(Option::is_none),
    };
    let done = jobs.iter().zip(runs);
    for (job, run) in done.filter_map(|(job, run)| Some((job, run?))) {
        match job {
            Job::Future(_) => sorted.futures.push(run),
            Job::Server(..) => sorted.servers.push(run),
            Job::Ablation(None, _) => sorted.ablation.push(("complete".into(), run)),
            Job::Ablation(Some(name), _) => sorted.ablation.push((format!("without {name}"), run)),
        }
    }
    Ok(sorted)
}

/// The jobs, the longest first.
fn jobs<'a>(plan: &WhatIfPlan, shipped: &'a [Workload]) -> Vec<Job<'a>> {
    let mut jobs = Vec::new();
    if let Some(servers) = &plan.servers {
        for workload in shipped {
            for kind in PolicyKind::ALL {
                let seeds = plan.seed..plan.seed + servers.seeds;
                jobs.extend(seeds.map(|seed| Job::Server(kind, workload, seed)));
            }
        }
    }
    jobs.extend(PolicyKind::ALL.into_iter().map(Job::Future));
    let ablated = shipped.iter().find(|workload| workload.name == ABLATION);
    if let (Some(_), Some(workload)) = (&plan.servers, ablated) {
        let without = Mechanisms::NAMES.iter().map(|&name| Some(name));
        let variants = std::iter::once(None).chain(without);
        jobs.extend(variants.map(|name| Job::Ablation(name, workload)));
    }
    jobs
}

fn simulate(
    layout: &Layout,
    classes: &[PageClass],
    plan: &WhatIfPlan,
    job: &Job,
    progress: &dyn Fn(f64),
) -> Result<RunResult, ServerError> {
    let fresh = plan.servers.as_ref();
    let config = |kind| Config {
        seed: plan.seed,
        event_ratio: plan.event_ratio,
        memory_bytes: fresh.map_or(0, |servers| servers.memory_bytes),
        ..Config::new(kind)
    };
    let boot_and_run = |config: &Config, workload: &Workload| {
        let seconds = fresh.map_or(0.0, |servers| servers.duration_s);
        run(config, workload, seconds, seconds / SAMPLES, progress)
    };
    match *job {
        Job::Future(kind) => {
            let config = config(kind);
            let server = ServerModel::from_pages(&config, layout, classes)?;
            let (seconds, every_s) = (plan.duration_s, plan.duration_s / SAMPLES);
            let workload = &plan.workload;
            Ok(run_on(
                server, &config, workload, seconds, every_s, progress,
            ))
        }
        Job::Server(kind, workload, seed) => {
            let config = Config {
                seed,
                ..config(kind)
            };
            boot_and_run(&config, workload)
        }
        Job::Ablation(name, workload) => {
            let mut config = config(PolicyKind::Contiguitas);
            config.memory_bytes /= ABLATION_MEMORY_DIVISOR;
            if let Some(mechanisms) = name.and_then(Mechanisms::without) {
                config.policy = PolicyConfig {
                    mechanisms,
                    ..config.policy
                };
            }
            boot_and_run(&config, workload)
        }
    }
}
