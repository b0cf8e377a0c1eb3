// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each option would make of one real machine under a workload, with several seeds.

use super::early;
use super::options::{Basis, Choice, OPTIONS};
use super::recording::RecordedLoad;
use crate::experiment::Progress;
use crate::server_model::side_by_side;
use ample_host::Who;
use ample_mm::{Config, Marks, RunResult, ServerModel, Workload, run_on};
use ample_pfn::{BlockTally, Culprit, Layout, Metrics, Order, PageClass, Pfn};
use anyhow::{Result, ensure};
use std::sync::Mutex;

/// Samples of each run, of which the last half counts.
const SAMPLES: f64 = 36.0;
/// Seeds that an interval needs: it holds the median with a probability of 94 %.
pub const FEWEST_SEEDS: u64 = 5;

/// What to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIfPlan {
    /// The load on the machine.
    pub workload: Workload,
    /// Simulated seconds of it.
    pub duration_s: f64,
    /// First seed of the model.
    pub seed: u64,
    /// Seeds, which count up from the first: at least [`FEWEST_SEEDS`].
    pub seeds: u64,
    /// Share of the page-cache traffic that is simulated (see [`Config::event_ratio`]).
    pub event_ratio: f64,
    /// Watermarks of the machine, if they are known (see [`Config::marks`]).
    pub marks: Option<Marks>,
}

/// One run of an option that is simulated.
#[derive(Clone, Debug)]
pub struct FutureRun {
    /// What was done to the machine.
    pub choice: Choice,
    /// What came of it. The maps are there for the first seed only.
    pub run: RunResult,
}

/// Everything that was simulated.
#[derive(Clone, Debug, Default)]
pub struct SimulatedRuns {
    /// Seed by option, in the order of [`OPTIONS`].
    pub futures: Vec<FutureRun>,
    /// Ended early: runs that did not end are left out.
    pub partial: bool,
    /// What is known so far, in a sentence, while others still run.
    pub under_way: Option<String>,
}

impl SimulatedRuns {
    /// The runs of an option, by seed.
    pub fn of(&self, choice: Choice) -> impl Iterator<Item = &RunResult> {
        let own = self
            .futures
            .iter()
            .filter(move |future| future.choice == choice);
        own.map(|future| &future.run)
    }
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
    /// What each source spoils.
    pub culprits: Vec<Culprit>,
    /// Who holds its unmovable pages by name, where the scan saw that.
    pub who: Option<Who>,
    /// First frame of the first block.
    pub first: Pfn,
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
    /// The machine's own load, if that was recorded.
    pub recorded: Option<RecordedLoad>,
    /// Share of the page cache's traffic that was simulated.
    pub event_ratio: f64,
    /// Command that makes this page again.
    pub command: String,
}

impl WhatIf {
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

/// Starts from the pages of a snapshot (`classes[i]` is the use of frame `i` of the layout's
/// span) and runs the plan's workload, scaled to the memory that is free, under each option that is
/// simulated, with each seed. Simulations run in parallel, seed after seed; the results do not
/// depend on the number of threads. `sharpened` is told the runs so far whenever another seed has
/// added to the verdict. An early end ([`crate::stop`]) gives a partial result.
///
/// # Errors
/// When there are too few seeds or the machine's size is out of the model's range.
pub fn whatif(
    layout: &Layout,
    classes: &[PageClass],
    plan: &WhatIfPlan,
    progress: Progress<'_>,
    sharpened: &(dyn Fn(&SimulatedRuns) + Sync),
) -> Result<SimulatedRuns> {
    ensure!(
        plan.seeds >= FEWEST_SEEDS,
        "{} seeds give no interval; at least {FEWEST_SEEDS} are needed",
        plan.seeds
    );
    let simulated = |seed| {
        let choices = OPTIONS.iter().map(|option| option.choice);
        choices.map(move |choice| (choice, seed))
    };
    let is_simulated = |job: &(Choice, u64)| matches!(job.0.info().basis, Basis::Simulated(..));
    let mut jobs: Vec<(Choice, u64)> = (plan.seed..plan.seed + plan.seeds)
        .flat_map(simulated)
        .filter(is_simulated)
        .collect();
    // What the first sentence compares comes first.
    jobs.sort_by_key(|&(choice, seed)| (seed, !early::COMPARED.contains(&choice)));
    let so_far = Mutex::new(early::SoFar::new(plan.seeds));
    let runs = side_by_side(&jobs, progress, |&(choice, seed), told| {
        let run = simulate(layout, classes, plan, choice, seed, told)?;
        let future = FutureRun { choice, run };
        let mut so_far = so_far.lock().unwrap_or_else(|broken| broken.into_inner());
        if let Some(runs) = so_far.add(&future) {
            sharpened(&runs);
        }
        Ok(future)
    })?;
    let partial = runs.iter().any(Option::is_none);
    Ok(SimulatedRuns {
        futures: in_order(runs.into_iter().flatten().collect()),
        partial,
        under_way: None,
    })
}

/// By seed, then by option.
pub(super) fn in_order(mut futures: Vec<FutureRun>) -> Vec<FutureRun> {
    futures.sort_by_key(|future| (future.run.seed, future.choice as usize));
    futures
}

/// One option with one seed.
fn simulate(
    layout: &Layout,
    classes: &[PageClass],
    plan: &WhatIfPlan,
    choice: Choice,
    seed: u64,
    told: &dyn Fn(f64),
) -> Result<RunResult> {
    let Basis::Simulated(kind, tuning) = choice.info().basis else {
        unreachable!("{choice:?} is not simulated");
    };
    let config = Config {
        seed,
        event_ratio: plan.event_ratio,
        tuning,
        marks: plan.marks,
        ..Config::new(kind)
    };
    let server = ServerModel::from_pages(&config, layout, classes)?;
    let (seconds, every_s) = (plan.duration_s, plan.duration_s / SAMPLES);
    let mut run = run_on(server, &config, &plan.workload, seconds, every_s, told);
    if seed != plan.seed {
        (run.map_before, run.map_after) = Default::default();
    }
    Ok(run)
}
