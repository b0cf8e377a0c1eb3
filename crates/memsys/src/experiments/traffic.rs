// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contiguitas §5.3, performance: servers at full load while their network buffers move.

use super::{BUFFER_PAGES, Server, Service};
use crate::protocol::Design;
use crate::timed::{BadParams, CoreParams, Machine, MemoryParams, Mover, OsParams};
use serde::{Deserialize, Serialize};

/// Who moves the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Hardware, lines under migration bypass the private caches.
    NonCacheable,
    /// Hardware, private caches stay usable.
    Cacheable,
    /// Software with interrupts.
    Software,
}

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
    /// The machine.
    pub memory: MemoryParams,
    /// Costs of the operating system.
    pub os: OsParams,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            services: vec![Service::Nginx, Service::Memcached],
            ways: vec![Way::NonCacheable, Way::Cacheable, Way::Software],
            rates_per_s: vec![1e3, 1e4, 1e5, 1e6],
            simulated_ms: 1.0,
            seeds: vec![1, 2, 3, 4, 5],
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
}

pub(super) fn simulate(
    params: &Params,
    service: Service,
    way: Option<Way>,
    rate_per_s: f64,
    seed: u64,
) -> Result<Outcome, BadParams> {
    let mut memory = params.memory;
    memory.engine.design = match way {
        Some(Way::Cacheable) => Design::Cacheable,
        _ => Design::NonCacheable,
    };
    let program = Server::new(service, memory.cores, seed);
    let pages = Server::pages(service, memory.cores);
    let core = CoreParams {
        width: 4,
        window: 200,
    };
    let mut machine = Machine::new(&memory, core, params.os, program, (pages, 64), seed)?;
    let per_ms = memory.clock_ghz * 1e6;
    let start = (0.2 * per_ms) as u64;
    machine.run_until(start);
    let before: u64 = machine.cores.iter().map(|c| c.work()).sum();
    let end = start + (params.simulated_ms * per_ms) as u64;
    let mover = match way {
        Some(Way::Software) => Mover::Software,
        _ => Mover::Hardware,
    };
    let interval = per_ms * 1000.0 / rate_per_s.max(f64::MIN_POSITIVE);
    // The first comes half an interval in, or at a quarter of the run when that is too short.
    let mut next = start as f64 + (interval / 2.0).min((end - start) as f64 / 4.0);
    let mut page = 0;
    while way.is_some() && next < end as f64 {
        machine.run_until(next as u64);
        // A backlog longer than the table means that the rate cannot be kept up.
        if machine.requests.len() < 64 {
            machine.requests.push((page % BUFFER_PAGES, mover));
            page += 1;
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
    let copies: Vec<u64> = machine
        .finished
        .iter()
        .filter_map(|t| t.copying())
        .collect();
    let after: u64 = machine.cores.iter().map(|c| c.work()).sum();
    Ok(Outcome {
        work: after - before,
        migrations: machine.finished.len(),
        dma_latency: machine.dma_latency_cycles as f64 / machine.dma_accesses.max(1) as f64,
        seconds: params.simulated_ms / 1000.0,
        copy_ns: (!copies.is_empty())
            .then(|| copies.iter().sum::<u64>() as f64 / copies.len() as f64 / memory.clock_ghz),
    })
}

/// Two-sided 95 % quantile of Student's t.
fn student_t(degrees: usize) -> f64 {
    const TABLE: [f64; 10] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    ];
    match degrees {
        0 => f64::INFINITY,
        1..=10 => TABLE[degrees - 1],
        _ => 1.96 + 2.5 / degrees as f64,
    }
}

fn mean_and_ci(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < 2 {
        return (mean, f64::INFINITY);
    }
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, student_t(values.len() - 1) * (variance / n).sqrt())
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
    let mut points = Vec::new();
    let mut instructions = 0;
    for &service in &params.services {
        let still: Vec<Outcome> = params
            .seeds
            .iter()
            .map(|&seed| simulate(params, service, None, 1.0, seed))
            .collect::<Result<_, _>>()?;
        instructions += still.iter().map(|o| o.work).sum::<u64>();
        for &way in &params.ways {
            for &rate_per_s in &params.rates_per_s {
                let moved: Vec<Outcome> = params
                    .seeds
                    .iter()
                    .map(|&seed| simulate(params, service, Some(way), rate_per_s, seed))
                    .collect::<Result<_, _>>()?;
                instructions += moved.iter().map(|o| o.work).sum::<u64>();
                points.push(point(service, way, rate_per_s, &still, &moved));
            }
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
        dma_latency_ratio: pairs()
            .map(|(s, m)| m.dma_latency / s.dma_latency)
            .sum::<f64>()
            / n,
    }
}
