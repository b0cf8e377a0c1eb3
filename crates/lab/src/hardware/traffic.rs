// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contiguitas §5.3, performance: servers at full load while their network buffers move.

use super::stats::{advance, finite, parallel};
use super::{BUFFER_PAGES, Server, Service, Way};
use crate::charts::{Bars, with_interval};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use ample_kit::statistics::{mean, mean_and_ci};
use ample_machine::multi::{MemoryParams, MultiCore, OsParams};
use ample_report::Unit;
use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrafficParams {
    /// Servers.
    pub services: Vec<Service>,
    /// Movers.
    pub ways: Vec<Way>,
    /// Migrations a second.
    pub rates_per_s: Vec<f64>,
    /// Simulated time of each run, after a warm-up of 0.2 ms.
    pub simulated_ms: f64,
    /// Each rate is run with each seed, and compared with no migrations under the same seed.
    pub seeds: Vec<u64>,
    /// Pages that one migration moves together: those of one mapping of the NIC.
    pub group_pages: u32,
    /// The machine.
    pub memory: MemoryParams,
    /// Costs of the operating system.
    pub os: OsParams,
}

impl Default for TrafficParams {
    fn default() -> Self {
        Self {
            services: vec![Service::Nginx, Service::Memcached],
            ways: Way::ALL.to_vec(),
            rates_per_s: vec![1e4, 1e5, 1e6],
            simulated_ms: 1.0,
            seeds: vec![1, 2, 3, 4, 5],
            group_pages: 1,
            memory: MemoryParams::table1(),
            os: OsParams::default(),
        }
    }
}

/// One server, mover and rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrafficPoint {
    /// Server.
    pub service: Service,
    /// Mover.
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

/// Results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrafficReport {
    /// Parameters, seeds among them.
    pub params: TrafficParams,
    /// Points.
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

/// Simulated before anything moves, and not counted.
const WARM_UP_MS: f64 = 0.2;

/// A server that has run for a while without migrations: one past for all movers and rates.
pub(super) fn warmed(
    params: &TrafficParams,
    service: Service,
    seed: u64,
) -> Result<MultiCore<Server>> {
    let group_pages = params.group_pages.max(1);
    let mut machine = Server::machine(service, &params.memory, params.os, group_pages, seed)?;
    let start = (WARM_UP_MS * params.memory.clock_ghz * 1e6) as u64;
    advance(&mut machine, 0, start);
    Ok(machine)
}

/// How a server goes on when buffers move at a rate, by one mover, or not at all.
pub(super) fn go_on(
    params: &TrafficParams,
    mut machine: MultiCore<Server>,
    moving: Option<(Way, f64)>,
) -> Result<TrafficRun> {
    let way = moving.map_or(Way::NonCacheable, |(way, _)| way);
    machine
        .memory
        .set_engine(way.engine(params.memory.engine))?;
    let per_ms = params.memory.clock_ghz * 1e6;
    let start = (WARM_UP_MS * per_ms) as u64;
    let end = start + (params.simulated_ms * per_ms) as u64;
    let (work, dma) = (
        machine.work(),
        (machine.dma_latency_cycles, machine.dma_accesses),
    );
    let mut now = start;
    if let Some((way, rate_per_s)) = moving {
        now = ask(&mut machine, params, way, rate_per_s, (start, end));
    }
    advance(&mut machine, now, end);
    machine.check_values()?;
    let copies = machine.finished.iter().filter_map(|t| t.copying());
    let whole = machine.finished.iter().filter_map(|t| t.done_cycles);
    let ns = |cycles: u64| cycles as f64 / params.memory.clock_ghz;
    let dma_accesses = (machine.dma_accesses - dma.1).max(1) as f64;
    Ok(TrafficRun {
        work: machine.work() - work,
        migrations: machine.finished.len(),
        dma_latency: (machine.dma_latency_cycles - dma.0) as f64 / dma_accesses,
        seconds: params.simulated_ms / 1000.0,
        refused: machine.refused,
        copy_ns: mean(copies.map(ns)),
        migration_ns: mean(whole.map(ns)),
    })
}

/// Asks for migrations at even intervals; returns the moment of the last one.
fn ask(
    machine: &mut MultiCore<Server>,
    params: &TrafficParams,
    way: Way,
    rate_per_s: f64,
    (start, end): (u64, u64),
) -> u64 {
    let interval = params.memory.clock_ghz * 1e9 / rate_per_s.max(f64::MIN_POSITIVE);
    // The first comes half an interval in, or at a quarter of the run when that is too short.
    let mut next = start as f64 + (interval / 2.0).min((end - start) as f64 / 4.0);
    let (mut page, mut now) = (0, start);
    while next < end as f64 {
        advance(machine, now, next as u64);
        now = next as u64;
        // A backlog longer than the table means that the rate cannot be kept up.
        if machine.requests.len() < 64 {
            machine.requests.push((page % BUFFER_PAGES, way.mover()));
            page += params.group_pages.max(1);
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
        let services = params.services.iter();
        let jobs: Vec<(Service, u64)> = services
            .flat_map(|&service| params.seeds.iter().map(move |&seed| (service, seed)))
            .collect();
        let moving = moving(params);
        // For each server and seed: without migrations, then each mover and rate.
        let outcomes = parallel(&jobs, progress, |&(service, seed)| {
            let past = warmed(params, service, seed)?;
            let with = |&moving| go_on(params, past.clone(), moving);
            moving.iter().map(with).collect::<Result<Vec<_>>>()
        })?;
        let instructions = outcomes
            .iter()
            .flatten()
            .flatten()
            .map(|outcome| outcome.work)
            .sum();
        let mut points = Vec::new();
        for (&service, seeds) in params
            .services
            .iter()
            .zip(outcomes.chunks(params.seeds.len()))
        {
            let seeds: Option<Vec<_>> = seeds.iter().map(Option::as_ref).collect();
            let Some(seeds) = seeds else { continue };
            let of = |place: usize| seeds.iter().map(|runs| runs[place]).collect::<Vec<_>>();
            let still = of(0);
            for (place, moving) in moving.iter().enumerate() {
                let moved = |&(way, rate)| point(service, way, rate, &still, &of(place));
                points.extend(moving.as_ref().map(moved));
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
        let title = "Throughput lost while network buffers move";
        let mut bars = Bars::new(title, Unit::Percent);
        for row in &self.points {
            let bar = with_interval(row.loss, row.loss_ci95, None);
            let group = format!(
                "{} {}",
                row.service.name(),
                Unit::Count.format(row.rate_per_s)
            );
            bars.put(&group, row.way.name(), bar);
        }
        vec![Figure::new("losses", title, bars.svg())]
    }
}

/// The futures of one past: first nothing moves, then each mover at each rate.
fn moving(params: &TrafficParams) -> Vec<Option<(Way, f64)>> {
    let with = |&way| {
        let rates = params.rates_per_s.iter();
        rates.map(move |&rate| Some((way, rate)))
    };
    let moving = params.ways.iter().flat_map(with);
    [None].into_iter().chain(moving).collect()
}

fn point(
    service: Service,
    way: Way,
    rate_per_s: f64,
    still: &[TrafficRun],
    moved: &[TrafficRun],
) -> TrafficPoint {
    let pairs = || still.iter().zip(moved);
    let losses: Vec<f64> = pairs()
        .map(|(s, m)| 1.0 - m.work as f64 / s.work as f64)
        .collect();
    let (loss, loss_ci95) = mean_and_ci(&losses);
    let n = moved.len() as f64;
    TrafficPoint {
        service,
        way,
        rate_per_s,
        reached_per_s: moved
            .iter()
            .map(|m| m.migrations as f64 / m.seconds)
            .sum::<f64>()
            / n,
        loss,
        loss_ci95: finite(loss_ci95),
        refused_each: mean(
            moved
                .iter()
                .map(|m| m.refused as f64 / m.migrations.max(1) as f64),
        )
        .unwrap_or(0.0),
        dma_latency_ratio: pairs()
            .map(|(s, m)| m.dma_latency / s.dma_latency)
            .sum::<f64>()
            / n,
    }
}
