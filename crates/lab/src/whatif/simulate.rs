// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every policy would make of one real machine under a workload, and beside it freshly
//! booted servers under the shipped workloads.

use crate::experiment::Progress;
use crate::progress::Shares;
use crate::server_model::ExperimentError;
use ample_mm::Workload;
use ample_mm::{Config, Mechanisms, PolicyConfig, PolicyKind};
use ample_mm::{RunResult, run, run_on};
use ample_mm::{ServerError, ServerModel};
use ample_pfn::{Layout, PageClass};
use rayon::prelude::*;

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
    /// Seed.
    pub seed: u64,
    /// Share of the page-cache traffic that is simulated (see [`Config::event_ratio`]).
    pub event_ratio: f64,
    /// Also run fresh servers and the ablation.
    pub servers: Option<FreshServers>,
}

/// Everything that was simulated.
#[derive(Clone, Debug)]
pub struct WhatIf {
    /// The machine under each policy.
    pub futures: Vec<RunResult>,
    /// Fresh servers: workload by policy by seed.
    pub servers: Vec<RunResult>,
    /// Contiguitas complete, then without each mechanism, by name.
    pub ablation: Vec<(String, RunResult)>,
}

/// One simulation to be done.
enum Job<'a> {
    Future(PolicyKind),
    Server(PolicyKind, &'a Workload, u64),
    Ablation(Option<&'static str>, &'a Workload),
}

/// Starts from the pages of a snapshot (`classes[i]` is the use of frame `i` of the layout's
/// span) and runs the plan's workload, scaled to the memory that is free, under each policy.
/// Simulations run in parallel; the results do not depend on the number of threads.
///
/// # Errors
/// [`ExperimentError`] when a shipped workload is broken or a machine's size is out of the
/// model's range.
pub fn whatif(
    layout: &Layout,
    classes: &[PageClass],
    plan: &WhatIfPlan,
    progress: Progress<'_>,
) -> Result<WhatIf, ExperimentError> {
    let shipped = SERVERS
        .iter()
        .map(|name| Workload::load(name))
        .collect::<Result<Vec<Workload>, _>>()?;
    let jobs = jobs(plan, &shipped);
    let done = Shares::new(jobs.len());
    let run_job = |(index, job): (usize, &Job)| {
        let tell = |share: f64| progress(done.set(index, share));
        simulate(layout, classes, plan, job, &tell).map(|run| (index, run))
    };
    // Handed out in their order, so that no long job begins when the others are nearly done.
    let runs: Result<Vec<(usize, RunResult)>, ServerError> =
        jobs.iter().enumerate().par_bridge().map(run_job).collect();
    let mut runs = runs?;
    runs.sort_by_key(|&(index, _)| index);
    let mut whatif = WhatIf {
        futures: Vec::new(),
        servers: Vec::new(),
        ablation: Vec::new(),
    };
    for (job, (_, run)) in jobs.iter().zip(runs) {
        match job {
            Job::Future(_) => whatif.futures.push(run),
            Job::Server(..) => whatif.servers.push(run),
            Job::Ablation(None, _) => whatif.ablation.push(("complete".into(), run)),
            Job::Ablation(Some(name), _) => whatif.ablation.push((format!("without {name}"), run)),
        }
    }
    Ok(whatif)
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
