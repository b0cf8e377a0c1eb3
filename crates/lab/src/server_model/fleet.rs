// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contiguitas §2.4 and §2.5: a fleet of simulated servers under stock Linux, each looked at
//! once, at an uptime of its own: free blocks, unmovable memory, correlation with uptime.

use super::{Spread, check_memory, side_by_side};
use crate::charts::{line, lines};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use ample_kit::random::SplitMix64;
use ample_kit::statistics::pearson;
use ample_mm::{Config, PolicyKind, Workload, run};
use ample_pfn::Definition;
use ample_report::Unit;
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetParams {
    /// Number of servers; they take the workloads in turn.
    pub servers: u32,
    /// Memory of each, bytes.
    pub memory_bytes: u64,
    /// Workloads, by name or path.
    pub workloads: Vec<String>,
    /// Least uptime, hours. Uptimes are spread evenly over their logarithm.
    pub least_uptime_h: f64,
    /// Greatest uptime, hours.
    pub greatest_uptime_h: f64,
    /// A server is young up to this uptime, hours.
    pub young_h: f64,
    /// Servers with less free memory are left out of free blocks, as a share of their memory (the
    /// paper: 1 GB of 64 GB).
    pub least_free_ratio: f64,
    /// Share of page-cache traffic that is simulated (see [`Config::event_ratio`]).
    pub event_ratio: f64,
    /// Seed of uptimes; server n has seed + n.
    pub seed: u64,
}

/// One server when it was looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FleetServer {
    /// Workload of the server.
    pub workload: String,
    /// Seed to repeat it with.
    pub seed: u64,
    /// Simulated hours since boot.
    pub uptime_h: f64,
    /// Free memory ÷ memory.
    pub free_ratio: f64,
    /// Free blocks of 2 MB, aligned and whole.
    pub free_blocks_2m: u64,
    /// Free blocks of 32 MB.
    pub free_blocks_32m: u64,
    /// Free blocks of 1 GB.
    pub free_blocks_1g: u64,
    /// Free memory in free blocks of 2 MB ÷ free memory.
    pub free_contiguity_2m: f64,
    /// 2 MB blocks with an unmovable page ÷ all, definition O.
    pub unmovable_2m_ratio: f64,
    /// Unmovable 4 KB pages ÷ all, definition O.
    pub unmovable_page_ratio: f64,
}

/// Servers without a free block of a size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WithoutFreeBlock {
    /// Size of the block, bytes.
    pub size_bytes: u64,
    /// Servers with enough free memory to count.
    pub counted: usize,
    /// Share of them without such a block; none when no server counts.
    pub share: Option<f64>,
    /// The paper's share.
    pub paper: f64,
}

/// Median and range over servers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FleetQuantiles {
    pub median: f64,
    /// Tenth percentile.
    pub p10: f64,
    /// Ninetieth percentile.
    pub p90: f64,
    /// Mean and range.
    pub spread: Spread,
}

/// Correlation of uptime and free 2 MB blocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct UptimeCorrelation {
    pub servers: usize,
    /// Pearson's coefficient; none below three servers or without any variation.
    pub r: Option<f64>,
    /// Without its sign.
    pub absolute_r: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fleet {
    pub params: FleetParams,
    /// Servers without a free block, by size.
    pub without_free_block: Vec<WithoutFreeBlock>,
    /// Correlation over all servers.
    pub uptime: UptimeCorrelation,
    /// Over young ones.
    pub young: UptimeCorrelation,
    /// 2 MB blocks with an unmovable page.
    pub unmovable_2m_ratio: FleetQuantiles,
    /// Unmovable 4 KB pages.
    pub unmovable_page_ratio: FleetQuantiles,
    /// Free memory in 2 MB blocks.
    pub free_contiguity_2m: FleetQuantiles,
    pub servers: Vec<FleetServer>,
}

/// Figures 4 and 5 of Contiguitas.
pub struct FleetModel;

impl Experiment for FleetModel {
    type Parameters = FleetParams;
    type Outcome = Fleet;

    fn run(params: &FleetParams, progress: Progress<'_>) -> Result<Fleet> {
        check(params)?;
        let workloads = params.workloads.iter().map(|name| Workload::load(name));
        let workloads: Vec<Workload> = workloads.collect::<Result<_, _>>()?;
        let uptimes_h = uptimes_h(params);
        // The longest first.
        let mut order: Vec<usize> = (0..uptimes_h.len()).collect();
        order.sort_by(|a, b| uptimes_h[*b].total_cmp(&uptimes_h[*a]));
        let one = |&index: &usize, told: &dyn Fn(f64)| {
            let workload = &workloads[index % workloads.len()];
            let server = server(params, workload, index, uptimes_h[index], told)?;
            Ok((index, server))
        };
        let done = side_by_side(&order, progress, one)?;
        let mut servers: Vec<(usize, FleetServer)> = done.into_iter().flatten().collect();
        servers.sort_by_key(|(index, _)| *index);
        let servers = servers.into_iter().map(|(_, server)| server).collect();
        Ok(summary(params, servers))
    }
}

fn check(params: &FleetParams) -> Result<()> {
    ensure!(params.servers > 0, "servers is 0; give at least one");
    ensure!(
        !params.workloads.is_empty(),
        "workloads lists none; give at least one"
    );
    let (least, greatest) = (params.least_uptime_h, params.greatest_uptime_h);
    ensure!(
        least > 0.0 && least <= greatest && greatest <= 90.0 * 24.0,
        "uptimes go from {least} to {greatest} hours, but must rise from above 0 to 2160"
    );
    check_memory(params.memory_bytes)
}

/// The uptime of each server.
fn uptimes_h(params: &FleetParams) -> Vec<f64> {
    let mut random = SplitMix64::new(params.seed);
    let (least, greatest) = (params.least_uptime_h.ln(), params.greatest_uptime_h.ln());
    let uptime = |_| (least + (greatest - least) * random.unit()).exp();
    (0..params.servers).map(uptime).collect()
}

/// Runs one server.
fn server(
    params: &FleetParams,
    workload: &Workload,
    index: usize,
    uptime_h: f64,
    told: &dyn Fn(f64),
) -> Result<FleetServer> {
    let config = Config {
        memory_bytes: params.memory_bytes,
        seed: params.seed + index as u64,
        event_ratio: params.event_ratio,
        ..Config::new(PolicyKind::Linux)
    };
    let seconds = uptime_h * 3600.0;
    let run = run(&config, workload, seconds, seconds, told)?;
    let total = &run.metrics.total;
    let blocks = |bytes: u64| {
        let size = total.sizes.iter().find(|size| size.size_bytes == bytes);
        size.map_or(0, |size| size.free_blocks)
    };
    let owners = total.definition(Definition::O).unwrap_or(&total.k);
    let smallest = owners.sizes.first();
    let in_blocks = blocks(2 << 20) * (2 << 20);
    Ok(FleetServer {
        workload: workload.name.clone(),
        seed: config.seed,
        uptime_h,
        free_ratio: total.free_bytes as f64 / total.memory_bytes as f64,
        free_blocks_2m: blocks(2 << 20),
        free_blocks_32m: blocks(32 << 20),
        free_blocks_1g: blocks(1 << 30),
        free_contiguity_2m: in_blocks as f64 / total.free_bytes.max(1) as f64,
        unmovable_2m_ratio: smallest
            .and_then(|size| size.unmovable_ratio.high)
            .unwrap_or(0.0),
        unmovable_page_ratio: owners.unmovable_page_ratio.high.unwrap_or(0.0),
    })
}

fn summary(params: &FleetParams, servers: Vec<FleetServer>) -> Fleet {
    let counted: Vec<&FleetServer> = servers
        .iter()
        .filter(|s| s.free_ratio >= params.least_free_ratio)
        .collect();
    let without = |size_bytes: u64, paper: f64, blocks: fn(&FleetServer) -> u64| {
        let none = counted.iter().filter(|server| blocks(server) == 0).count();
        WithoutFreeBlock {
            size_bytes,
            counted: counted.len(),
            share: (!counted.is_empty()).then(|| none as f64 / counted.len() as f64),
            paper,
        }
    };
    let correlation = |upto_h: f64| {
        let pairs: Vec<(f64, f64)> = servers
            .iter()
            .filter(|server| server.uptime_h <= upto_h)
            .map(|server| (server.uptime_h, server.free_blocks_2m as f64))
            .collect();
        let r = (pairs.len() >= 3).then(|| pearson(&pairs)).flatten();
        UptimeCorrelation {
            servers: pairs.len(),
            r,
            absolute_r: r.map(f64::abs),
        }
    };
    let over = |value: fn(&FleetServer) -> f64| quantiles(servers.iter().map(value).collect());
    Fleet {
        params: params.clone(),
        without_free_block: vec![
            without(2 << 20, 0.23, |server| server.free_blocks_2m),
            without(32 << 20, 0.59, |server| server.free_blocks_32m),
            without(1 << 30, 0.9, |server| server.free_blocks_1g),
        ],
        uptime: correlation(f64::INFINITY),
        young: correlation(params.young_h),
        unmovable_2m_ratio: over(|server| server.unmovable_2m_ratio),
        unmovable_page_ratio: over(|server| server.unmovable_page_ratio),
        free_contiguity_2m: over(|server| server.free_contiguity_2m),
        servers,
    }
}

/// Nearest-rank quantiles; all 0 of nothing.
fn quantiles(mut values: Vec<f64>) -> FleetQuantiles {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let rank = (share * values.len() as f64).ceil() as usize;
        values.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
    };
    FleetQuantiles {
        median: at(0.5),
        p10: at(0.1),
        p90: at(0.9),
        spread: Spread::of(values.iter().copied()),
    }
}

/// The points of a cumulative distribution.
fn cumulative(mut values: Vec<f64>) -> Vec<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let point = |(at, value): (usize, f64)| (value * 100.0, (at + 1) as f64 / count * 100.0);
    values.into_iter().enumerate().map(point).collect()
}

impl Outcome for Fleet {
    const SCHEMA: &'static str = "ample.fleet-model/1";

    fn figures(&self) -> Vec<Figure> {
        let of =
            |value: fn(&FleetServer) -> f64| cumulative(self.servers.iter().map(value).collect());
        let title = "Servers (%) with at most so much (%) free memory in 2 MB blocks, \
                     and of their 2 MB blocks unmovable";
        let blocks = of(|server| server.unmovable_2m_ratio);
        let series = vec![
            line("free memory in 2 MB blocks", of(|s| s.free_contiguity_2m)),
            line("2 MB blocks with an unmovable page", blocks),
            line("unmovable 4 KB pages", of(|s| s.unmovable_page_ratio)),
        ];
        let svg = lines(
            title,
            [
                ("per cent of memory", Unit::Count),
                ("per cent of servers", Unit::Count),
            ],
            series,
        )
        .to_svg();
        vec![Figure::new("fleet-model", title, svg)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_of_the_list() {
        let of = quantiles((1..=10).map(f64::from).collect());
        assert_eq!((of.p10, of.median, of.p90), (1.0, 5.0, 9.0));
        assert_eq!(quantiles(Vec::new()).median, 0.0);
        let curve = cumulative(vec![0.2, 0.1]);
        assert_eq!(curve, [(10.0, 50.0), (20.0, 100.0)]);
    }

    #[test]
    fn the_same_fleet_on_any_number_of_threads() {
        let small = crate::shipped_parameters("fleet-model", true).expect("shipped");
        let params = FleetParams {
            servers: 4,
            greatest_uptime_h: 0.3,
            least_uptime_h: 0.05,
            memory_bytes: 256 << 20,
            ..small
        };
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            pool.expect("threads")
                .install(|| FleetModel::run(&params, &|_| ()).expect("runs"))
        };
        let fleet = on(1);
        assert_eq!(fleet, on(2));
        assert_eq!(fleet.servers.len(), 4);
        assert!(
            fleet
                .servers
                .iter()
                .all(|server| server.unmovable_2m_ratio > 0.0)
        );
    }
}
