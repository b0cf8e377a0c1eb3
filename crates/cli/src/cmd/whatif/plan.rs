// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which simulations a `whatif` needs, and running them on all cores. The results do not depend
//! on the number of threads: every run has its own server and seed.

use super::Args;
use ample_host::Scan;
use ample_mm::{
    Config, Mechanisms, PolicyConfig, PolicyKind, RunResult, Server, ServerError, Workload,
};
use ample_pfn::PageClass;
use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// The shipped server workloads, in the order of figure 11.
const SERVERS: [&str; 4] = ["ci", "web", "cache-a", "cache-b"];
/// Workload of the ablation, and the part of the servers' memory that it uses: eight runs more
/// that compare Contiguitas with itself only.
const ABLATION: &str = "web";
const ABLATION_MEMORY_DIVISOR: u64 = 4;
const SAMPLES: f64 = 18.0;
const TICKS: u64 = 1000;

/// Everything that was simulated.
pub(super) struct Results {
    pub(super) futures: Vec<RunResult>,
    pub(super) servers: Vec<RunResult>,
    pub(super) ablation: Vec<(String, RunResult)>,
}

/// One simulation to be done.
enum Job<'a> {
    Future(PolicyKind),
    Server(PolicyKind, &'a Workload, u64),
    Ablation(&'static str, &'a Workload),
}

fn simulate(
    args: &Args,
    scan: &Scan,
    workload: &Workload,
    jobs: &[Job],
) -> anyhow::Result<Vec<RunResult>> {
    let pages = scan.pages.expand();
    let progress = Progress::new(jobs.len());
    let results: Result<Vec<RunResult>, ServerError> = jobs
        .par_iter()
        .map(|job| {
            let share = progress.share();
            let report = |done: f64| share.set(done);
            one(args, scan, &pages, workload, job, &report)
        })
        .collect();
    progress.finish();
    results.context("cannot simulate this machine")
}

fn one(
    args: &Args,
    scan: &Scan,
    pages: &[PageClass],
    workload: &Workload,
    job: &Job,
    report: &dyn Fn(f64),
) -> Result<RunResult, ServerError> {
    let config = |kind| Config {
        seed: args.seed,
        event_ratio: args.event_ratio,
        memory_bytes: args.server_memory,
        ..Config::new(kind)
    };
    let fresh = |config: &Config, workload: &Workload| {
        let seconds = args.server_hours * 3600.0;
        ample_mm::run(config, workload, seconds, seconds / SAMPLES, report)
    };
    match *job {
        Job::Future(kind) => {
            let config = config(kind);
            let seconds = args.hours * 3600.0;
            let server = Server::from_pages(&config, &scan.layout, pages)?;
            Ok(ample_mm::run_on(
                server,
                &config,
                workload,
                seconds,
                seconds / SAMPLES,
                report,
            ))
        }
        Job::Server(kind, workload, seed) => fresh(
            &Config {
                seed,
                ..config(kind)
            },
            workload,
        ),
        Job::Ablation(name, workload) => {
            let mut config = config(PolicyKind::Contiguitas);
            config.memory_bytes /= ABLATION_MEMORY_DIVISOR;
            if let Some(mechanisms) = Mechanisms::without(name) {
                config.policy = PolicyConfig {
                    mechanisms,
                    ..config.policy
                };
            }
            fresh(&config, workload)
        }
    }
}

/// Runs the futures, and with a report also the servers and the ablation.
///
/// # Errors
/// When a shipped workload is broken or the machine's size is out of the model's range.
pub(super) fn run(args: &Args, scan: &Scan, workload: &Workload) -> anyhow::Result<Results> {
    let shipped = SERVERS
        .iter()
        .map(|name| Workload::load(name))
        .collect::<Result<Vec<Workload>, _>>()?;
    let mut jobs: Vec<Job> = PolicyKind::ALL.into_iter().map(Job::Future).collect();
    if args.report.is_some() {
        for server in &shipped {
            for kind in PolicyKind::ALL {
                let seeds = args.seed..args.seed + args.seeds;
                jobs.extend(seeds.map(|seed| Job::Server(kind, server, seed)));
            }
        }
        let web = shipped.iter().find(|workload| workload.name == ABLATION);
        if let Some(web) = web {
            jobs.push(Job::Ablation("complete", web));
            jobs.extend(
                Mechanisms::NAMES
                    .iter()
                    .map(|name| Job::Ablation(name, web)),
            );
        }
    }
    let runs = simulate(args, scan, workload, &jobs)?;
    let mut results = Results {
        futures: Vec::new(),
        servers: Vec::new(),
        ablation: Vec::new(),
    };
    for (job, run) in jobs.iter().zip(runs) {
        match job {
            Job::Future(_) => results.futures.push(run),
            Job::Server(..) => results.servers.push(run),
            Job::Ablation("complete", _) => results.ablation.push(("complete".into(), run)),
            Job::Ablation(name, _) => results.ablation.push((format!("without {name}"), run)),
        }
    }
    Ok(results)
}

/// One bar for all simulations together, on standard error, if that is a terminal.
struct Progress {
    bar: ProgressBar,
    done: AtomicU64,
}

/// The part of one simulation in the common bar.
struct Share<'a> {
    progress: &'a Progress,
    told: std::cell::Cell<u64>,
}

impl Progress {
    fn new(jobs: usize) -> Progress {
        let bar = ProgressBar::new(jobs as u64 * TICKS);
        let template = "simulating {bar:40} {percent:>3} %  {elapsed} of about {duration}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress {
            bar,
            done: AtomicU64::new(0),
        }
    }

    fn share(&self) -> Share<'_> {
        Share {
            progress: self,
            told: std::cell::Cell::new(0),
        }
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Share<'_> {
    fn set(&self, share: f64) {
        let ticks = (share.clamp(0.0, 1.0) * TICKS as f64) as u64;
        let more = ticks.saturating_sub(self.told.replace(ticks));
        let done = self.progress.done.fetch_add(more, Ordering::Relaxed) + more;
        self.progress.bar.set_position(done);
    }
}
