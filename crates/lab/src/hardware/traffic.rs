// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contiguitas §5.3, performance: servers at full load while their network buffers move.

use super::stats::{advance, group, mean_of, pairs, parallel, with_ci};
use super::{Server, Service, Way};
use crate::charts::{bar_figure, name_of, with_interval};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use ample_kit::statistics::mean;
use ample_machine::multi::{MemoryParams, MultiCore, OsParams};
use ample_report::Unit;
use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficParams {
    /// Servers at full load.
    pub services: Vec<Service>,
    /// Ways to move a page.
    pub ways: Vec<Way>,
    /// Migrations a second.
    pub rates_per_s: Vec<f64>,
    /// Simulated time of each run, after a warm-up of 0.2 ms.
    pub simulated_ms: f64,
    /// Each rate is run with each seed, and compared with no migrations under the same seed.
    pub seeds: Vec<u64>,
    /// Pages that one migration moves together: those of one mapping of the NIC.
    pub group_pages: u32,
    /// Cores, caches, DRAM and copy engine.
    #[serde(default = "MemoryParams::table1")]
    pub memory: MemoryParams,
    /// Costs of the operating system.
    #[serde(default)]
    pub os: OsParams,
}

/// A machine under traffic, and how long it is looked at.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Setting {
    pub simulated_ms: f64,
    pub group_pages: u32,
    pub memory: MemoryParams,
    pub os: OsParams,
}

/// One server, mover and rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrafficPoint {
    /// Server at full load.
    pub service: Service,
    /// Way to move a page.
    pub way: Way,
    /// Asked for.
    pub rate_per_s: f64,
    /// Reached: below the rate asked for where the mover breaks.
    pub reached_per_s: f64,
    /// Loss of throughput against no migrations, mean over the seeds.
    pub loss: f64,
    /// Half width of the 95 % confidence interval of `loss` (Student's t).
    pub loss_ci95: Option<f64>,
    /// Commands that met a full table, each migration, mean.
    pub refused_each: f64,
    /// Mean latency of the NIC's accesses over that without migrations.
    pub dma_latency_ratio: f64,
}

/// What `hw-traffic` gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrafficReport {
    /// Parameters, seeds among them.
    pub params: TrafficParams,
    /// Each server with each mover and rate.
    pub points: Vec<TrafficPoint>,
    /// Instructions simulated.
    pub instructions: u64,
    /// Loads compared with the shadow memory that were wrong; always 0, else `run` fails.
    pub wrong_values: u64,
}

/// What one run yields.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TrafficRun {
    /// Instructions of the programs.
    pub work: u64,
    pub migrations: usize,
    pub dma_latency: f64,
    pub seconds: f64,
    /// Copying alone, mean over the migrations.
    pub copy_ns: Option<f64>,
    /// From the start to the freed source, mean.
    pub migration_ns: Option<f64>,
    /// Commands that met a full table.
    pub refused: u64,
}

impl TrafficRun {
    /// Throughput lost against the same run without migrations.
    pub fn loss_against(&self, still: &TrafficRun) -> f64 {
        1.0 - self.work as f64 / still.work as f64
    }

    /// Migrations a second.
    pub fn reached_per_s(&self) -> f64 {
        self.migrations as f64 / self.seconds
    }

    /// Commands that met a full table, for each migration.
    pub fn refused_each(&self) -> f64 {
        self.refused as f64 / self.migrations.max(1) as f64
    }
}

/// Simulated before anything moves, and not counted.
const WARM_UP_MS: f64 = 0.2;

/// A server that has run for a while without migrations: one past for all movers and rates.
pub(super) fn warmed(setting: &Setting, service: Service, seed: u64) -> Result<MultiCore<Server>> {
    let group_pages = setting.group_pages.max(1);
    let mut machine = Server::machine(service, &setting.memory, setting.os, group_pages, seed)?;
    let start = (WARM_UP_MS * setting.memory.clock_ghz * 1e6) as u64;
    advance(&mut machine, 0, start);
    Ok(machine)
}

/// How a server goes on when buffers move at a rate, by one mover, or not at all.
pub(super) fn go_on(
    setting: &Setting,
    mut machine: MultiCore<Server>,
    moving: Option<(Way, f64)>,
) -> Result<TrafficRun> {
    let way = moving.map_or(Way::NonCacheable, |(way, _)| way);
    machine
        .memory
        .set_engine(way.engine(setting.memory.engine))?;
    let per_ms = setting.memory.clock_ghz * 1e6;
    let start = (WARM_UP_MS * per_ms) as u64;
    let end = start + (setting.simulated_ms * per_ms) as u64;
    let (work, dma) = (
        machine.work(),
        (machine.dma_latency_cycles, machine.dma_accesses),
    );
    let mut now = start;
    if let Some((way, rate_per_s)) = moving {
        now = ask(&mut machine, setting, way, rate_per_s, (start, end));
    }
    advance(&mut machine, now, end);
    machine.check_values()?;
    let copies = machine.finished.iter().filter_map(|t| t.copying());
    let whole = machine.finished.iter().filter_map(|t| t.done_cycles);
    let ns = |cycles: u64| cycles as f64 / setting.memory.clock_ghz;
    let dma_accesses = (machine.dma_accesses - dma.1).max(1) as f64;
    Ok(TrafficRun {
        work: machine.work() - work,
        migrations: machine.finished.len(),
        dma_latency: (machine.dma_latency_cycles - dma.0) as f64 / dma_accesses,
        seconds: setting.simulated_ms / 1000.0,
        refused: machine.refused,
        copy_ns: mean(copies.map(ns)),
        migration_ns: mean(whole.map(ns)),
    })
}

/// Asks for migrations at even intervals; returns the moment of the last one.
fn ask(
    machine: &mut MultiCore<Server>,
    setting: &Setting,
    way: Way,
    rate_per_s: f64,
    (start, end): (u64, u64),
) -> u64 {
    // Pages that move at once are asked for at once, half of the run's at most.
    let half = (rate_per_s * setting.simulated_ms / 2000.0) as u32;
    let burst = way.pages_at_once(&setting.os).min(half).max(1);
    let per_s = rate_per_s.max(f64::MIN_POSITIVE) / f64::from(burst);
    let interval = setting.memory.clock_ghz * 1e9 / per_s;
    // The first comes half an interval in, or at a quarter of the run when that is too short.
    let mut next = start as f64 + (interval / 2.0).min((end - start) as f64 / 4.0);
    let buffers = Server::buffer_pages(setting.memory.cores);
    let (mut page, mut now) = (0, start);
    while next < end as f64 {
        advance(machine, now, next as u64);
        now = next as u64;
        // A backlog longer than the table means that the rate cannot be kept up.
        for _ in 0..burst {
            if machine.requests.len() < 64 {
                machine.requests.push((page % buffers, way.mover()));
                page += setting.group_pages.max(1);
            }
        }
        next += interval;
    }
    now
}

/// Greater than zero and a number.
fn is_positive(x: f64) -> bool {
    x.is_finite() && x > 0.0
}

/// Servers at full load while their buffers move.
pub struct Traffic;

impl Experiment for Traffic {
    type Parameters = TrafficParams;
    type Outcome = TrafficReport;

    fn run(params: &TrafficParams, progress: Progress<'_>) -> Result<TrafficReport> {
        let lists = [
            params.seeds.len(),
            params.rates_per_s.len(),
            params.ways.len(),
        ];
        if lists.contains(&0) || !is_positive(params.simulated_ms) {
            bail!("seeds, rates_per_s, ways, simulated_ms: must not be empty or zero");
        }
        ensure!(
            params.rates_per_s.iter().all(|r| is_positive(*r)),
            "rates_per_s: must be positive"
        );
        let jobs = pairs(&params.services, &params.seeds);
        let moving = pairs(&params.ways, &params.rates_per_s);
        let setting = Setting {
            simulated_ms: params.simulated_ms,
            group_pages: params.group_pages,
            memory: params.memory,
            os: params.os,
        };
        // For each server and seed: without migrations, then each mover and rate.
        let outcomes = parallel(&jobs, progress, |&(service, seed)| {
            let past = warmed(&setting, service, seed)?;
            let futures = [None].into_iter().chain(moving.iter().copied().map(Some));
            let with = |moving| go_on(&setting, past.clone(), moving);
            futures.map(with).collect::<Result<Vec<_>>>()
        })?;
        let runs = outcomes.iter().flatten().flatten();
        let instructions = runs.map(|run| run.work).sum();
        let mut points = Vec::new();
        let services = params.services.iter();
        for (&service, seeds) in services.zip(outcomes.chunks(params.seeds.len())) {
            let seeds: Option<Vec<_>> = seeds.iter().map(Option::as_ref).collect();
            let Some(seeds) = seeds else { continue };
            let of = |place: usize| seeds.iter().map(|runs| runs[place]).collect::<Vec<_>>();
            let still = of(0);
            for (place, &(way, rate)) in moving.iter().enumerate() {
                points.push(point(service, way, rate, &still, &of(place + 1)));
            }
        }
        Ok(TrafficReport {
            params: params.clone(),
            points,
            instructions,
            wrong_values: 0,
        })
    }
}

impl Outcome for TrafficReport {
    const SCHEMA: &'static str = "ample.hw-traffic/1";

    fn figures(&self) -> Vec<Figure> {
        let bar = |row: &TrafficPoint| {
            let bar = with_interval(row.loss, row.loss_ci95, None);
            (group(row.service, row.rate_per_s), name_of(&row.way), bar)
        };
        let title = "Throughput lost while network buffers move";
        bar_figure("losses", title, Unit::Percent, self.points.iter().map(bar))
    }
}

fn point(
    service: Service,
    way: Way,
    rate_per_s: f64,
    still: &[TrafficRun],
    moved: &[TrafficRun],
) -> TrafficPoint {
    let pairs: Vec<_> = still.iter().zip(moved).collect();
    let losses: Vec<f64> = pairs.iter().map(|(s, m)| m.loss_against(s)).collect();
    let (loss, loss_ci95) = with_ci(&losses);
    TrafficPoint {
        service,
        way,
        rate_per_s,
        reached_per_s: mean_of(moved, TrafficRun::reached_per_s),
        loss,
        loss_ci95,
        refused_each: mean_of(moved, TrafficRun::refused_each),
        dma_latency_ratio: mean_of(&pairs, |(s, m)| m.dma_latency / s.dma_latency),
    }
}
