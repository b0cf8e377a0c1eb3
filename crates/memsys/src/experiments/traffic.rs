// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contiguitas §5.3, performance: servers at full load while their network buffers move.

use super::stats::{mean, mean_and_ci, parallel};
use super::{BUFFER_PAGES, Server, Service, Way};
use crate::timed::{BadParams, CoreParams, Machine, MemoryParams, OsParams, Placement};
use serde::{Deserialize, Serialize};

/// What to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
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

impl Default for Params {
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
#[derive(Clone, Debug, Serialize)]
pub struct Point {
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
    pub loss_ci95: f64,
    /// Commands that met a full table, each migration, mean.
    pub refused_each: f64,
    /// Mean latency of the NIC's accesses over that without migrations.
    pub dma_latency_ratio: f64,
}

/// Results.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Format of this object.
    pub schema: &'static str,
    /// Parameters, seeds among them.
    pub params: Params,
    /// Points.
    pub points: Vec<Point>,
    /// Instructions simulated.
    pub instructions: u64,
    /// Loads compared with the shadow memory that were wrong; always 0, else `run` fails.
    pub wrong_values: u64,
}

/// What one run yields.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Outcome {
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

pub(super) fn simulate(
    params: &Params,
    service: Service,
    way: Option<Way>,
    rate_per_s: f64,
    seed: u64,
) -> Result<Outcome, BadParams> {
    let mut memory = params.memory;
    memory.engine.design = way.unwrap_or(Way::NonCacheable).design();
    let program = Server::new(service, memory.cores, seed);
    let pages = Server::pages(service, memory.cores);
    let core = CoreParams {
        width: 4,
        window: 200,
    };
    let group_pages = params.group_pages.max(1);
    let placement = Placement {
        pages: pages.next_multiple_of(group_pages),
        spare: 64,
        group_pages,
    };
    let mut machine = Machine::new(&memory, core, params.os, program, placement, seed)?;
    let per_ms = memory.clock_ghz * 1e6;
    let start = (0.2 * per_ms) as u64;
    machine.run_until(start);
    let before: u64 = machine.cores.iter().map(|c| c.work()).sum();
    let end = start + (params.simulated_ms * per_ms) as u64;
    let mover = way.unwrap_or(Way::NonCacheable).mover();
    let interval = per_ms * 1000.0 / rate_per_s.max(f64::MIN_POSITIVE);
    // The first comes half an interval in, or at a quarter of the run when that is too short.
    let mut next = start as f64 + (interval / 2.0).min((end - start) as f64 / 4.0);
    let mut page = 0;
    while way.is_some() && next < end as f64 {
        machine.run_until(next as u64);
        // A backlog longer than the table means that the rate cannot be kept up.
        if machine.requests.len() < 64 {
            machine.requests.push((page % BUFFER_PAGES, mover));
            page += group_pages;
        }
        next += interval;
    }
    machine.run_until(end);
    if machine.memory.wrong_values() > 0 {
        return Err(BadParams {
            field: "memory",
            reason: format!(
                "{} loads returned a wrong value with seed {seed}: an error of the simulator",
                machine.memory.wrong_values()
            ),
        });
    }
    let copies = machine.finished.iter().filter_map(|t| t.copying());
    let whole = machine.finished.iter().filter_map(|t| t.done_cycles);
    let ns = |cycles: u64| cycles as f64 / memory.clock_ghz;
    let after: u64 = machine.cores.iter().map(|c| c.work()).sum();
    Ok(Outcome {
        work: after - before,
        migrations: machine.finished.len(),
        dma_latency: machine.dma_latency_cycles as f64 / machine.dma_accesses.max(1) as f64,
        seconds: params.simulated_ms / 1000.0,
        refused: machine.refused,
        copy_ns: mean(copies.map(ns)),
        migration_ns: mean(whole.map(ns)),
    })
}

/// Greater than zero and a number.
fn is_positive(x: f64) -> bool {
    x.is_finite() && x > 0.0
}

/// Runs it.
///
/// # Errors
/// When the machine cannot be built, a list is empty, or a load returned a wrong value.
pub fn run(params: &Params) -> Result<Report, BadParams> {
    let lists = [
        params.seeds.len(),
        params.rates_per_s.len(),
        params.ways.len(),
    ];
    if lists.contains(&0) || !is_positive(params.simulated_ms) {
        return Err(BadParams {
            field: "seeds, rates_per_s, ways, simulated_ms",
            reason: "must not be empty or zero".into(),
        });
    }
    if params.rates_per_s.iter().any(|r| !is_positive(*r)) {
        return Err(BadParams {
            field: "rates_per_s",
            reason: "must be positive".into(),
        });
    }
    let jobs = jobs(params);
    let outcomes = parallel(&jobs, |&(service, way, rate, seed)| {
        simulate(params, service, way, rate, seed)
    })?;
    let instructions = outcomes.iter().map(|outcome| outcome.work).sum();
    let mut points = Vec::new();
    let mut runs = jobs
        .chunks(params.seeds.len())
        .zip(outcomes.chunks(params.seeds.len()));
    let mut still: &[Outcome] = &[];
    while let Some((&[(service, way, rate_per_s, _), ..], outcomes)) = runs.next() {
        match way {
            None => still = outcomes,
            Some(way) => points.push(point(service, way, rate_per_s, still, outcomes)),
        }
    }
    Ok(Report {
        schema: "ample.hw-traffic/1",
        params: params.clone(),
        points,
        instructions,
        wrong_values: 0,
    })
}

/// All runs: for each server first those without migrations; the seeds of a point are adjacent.
fn jobs(params: &Params) -> Vec<(Service, Option<Way>, f64, u64)> {
    let mut jobs = Vec::new();
    for &service in &params.services {
        let moving = params.ways.iter().flat_map(|&way| {
            let rates = params.rates_per_s.iter();
            rates.map(move |&rate| (Some(way), rate))
        });
        for (way, rate) in [(None, 1.0)].into_iter().chain(moving) {
            jobs.extend(params.seeds.iter().map(|&seed| (service, way, rate, seed)));
        }
    }
    jobs
}

fn point(
    service: Service,
    way: Way,
    rate_per_s: f64,
    still: &[Outcome],
    moved: &[Outcome],
) -> Point {
    let pairs = || still.iter().zip(moved);
    let losses: Vec<f64> = pairs()
        .map(|(s, m)| 1.0 - m.work as f64 / s.work as f64)
        .collect();
    let (loss, loss_ci95) = mean_and_ci(&losses);
    let n = moved.len() as f64;
    Point {
        service,
        way,
        rate_per_s,
        reached_per_s: moved
            .iter()
            .map(|m| m.migrations as f64 / m.seconds)
            .sum::<f64>()
            / n,
        loss,
        loss_ci95,
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
