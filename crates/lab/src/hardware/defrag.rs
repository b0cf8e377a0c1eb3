// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defragmenting the unmovable region with the migration hardware (Contiguitas §5.3: it can
//! unblock 22 % of the region's memory).
//!
//! Twice, on servers of the server model: what a perfect packing of Contiguitas' region would
//! give back, with how many migrations and in what time; and what the simulated policy
//! `contiguitas-hw`, which migrates 1,000 pages a second at most, has given back. The region's
//! free share swings with the load, so that it is given for the last moment, which is the one
//! packed, and over the second half of the run, which is how the paper's §5.2 measures it.

use super::stats::pairs;
use crate::charts::{bar_figure, with_range};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::progress::Steps;
use crate::server_model::Spread;
use crate::server_model::run_server;
use crate::stop;
use ample_mm::{Config, PolicyKind, RunResult, Workload};
use ample_report::Unit;
use anyhow::{Context, Result, ensure};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Servers, workloads and rates of migration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefragParams {
    /// Memory of each server.
    pub memory_bytes: u64,
    /// Simulated time of each.
    pub duration_s: f64,
    /// Workloads of the server model, by name.
    pub workloads: Vec<String>,
    /// One server of each policy a seed.
    pub seeds: Vec<u64>,
    /// Migrations a second for which the time of the packing is given.
    pub rates_per_s: Vec<f64>,
}

/// One workload, over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DefragRow {
    /// Name of the workload.
    pub workload: String,
    /// Contiguitas: memory below the border ÷ all memory.
    pub region_ratio: Spread,
    /// Contiguitas: free pages of that region ÷ its pages.
    pub free_inside_ratio: Spread,
    /// Contiguitas: free pages in blocks with an unmovable page ÷ pages of those blocks, mean of
    /// the samples of the second half.
    pub free_over_time_ratio: Spread,
    /// The least such sample of each seed.
    pub free_least_ratio: Spread,
    /// The greatest such sample of each seed.
    pub free_most_ratio: Spread,
    /// Perfect packing: whole 2 MB blocks given back ÷ blocks of the region.
    pub recovered_ratio: Spread,
    /// Perfect packing: pages to migrate.
    pub migrations: Spread,
    /// Pages to migrate for each 2 MB block given back.
    pub migrations_per_block: Spread,
    /// Time of the packing at each of `rates_per_s`.
    pub packing_s: Vec<f64>,
    /// Simulated `contiguitas-hw`: memory below the border ÷ all memory.
    pub hw_region_ratio: Spread,
    /// Simulated: smaller than Contiguitas' region by this share of it.
    pub hw_recovered_ratio: Spread,
    /// Simulated: pages the hardware has migrated, a second.
    pub hw_migrations_per_s: Spread,
    /// Simulated: free pages inside the region that is left ÷ its pages.
    pub hw_free_inside_ratio: Spread,
    /// The paper: recovered share.
    pub paper_recovered_ratio: f64,
}

/// What `hw-defrag` gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DefragReport {
    /// DefragParams, seeds among them.
    pub parameters: DefragParams,
    /// One row a workload.
    pub rows: Vec<DefragRow>,
}

const BLOCK_PAGES: u64 = 512;
/// Samples of each run.
const SAMPLES: f64 = 24.0;

/// Blocks that a packing frees of blocks with these used pages, and the pages it moves: the
/// emptiest blocks are emptied into the free pages of the others. No packing frees more, and none
/// that frees as many moves less.
fn pack(mut used: Vec<u64>) -> (u64, u64) {
    let total: u64 = used.iter().sum();
    let kept = total.div_ceil(BLOCK_PAGES);
    let freed = used.len() as u64 - kept;
    used.sort_unstable();
    let moved = used.iter().take(freed as usize).sum();
    // Blocks that were empty already are given back without a migration.
    (freed, moved)
}

/// Used pages of each block below the border.
fn region(run: &RunResult) -> Result<Vec<u64>> {
    let bytes = run.samples.last().and_then(|s| s.low_region_bytes);
    let bytes = bytes.context("the policy has no border")?;
    let blocks = (bytes / (2 << 20)) as usize;
    let used = |b: &ample_pfn::BlockTally| BLOCK_PAGES - u64::from(b.free) - u64::from(b.hole);
    Ok(run.map_after.iter().take(blocks).map(used).collect())
}

fn simulate(
    parameters: &DefragParams,
    workload: &Workload,
    kind: PolicyKind,
    seed: u64,
) -> Result<RunResult> {
    let config = Config {
        memory_bytes: parameters.memory_bytes,
        seed,
        ..Config::new(kind)
    };
    let duration = parameters.duration_s;
    Ok(run_server(
        &config,
        workload,
        duration,
        duration / SAMPLES,
        &|_| {},
    )?)
}

/// Free share of blocks with an unmovable page in the samples of the second half.
fn over_time(run: &RunResult) -> Spread {
    let second = &run.samples[run.samples.len() / 2..];
    Spread::of(second.iter().map(|s| s.internal_fragmentation_ratio))
}

/// One seed under both policies.
struct Packing {
    region_ratio: f64,
    free_inside: f64,
    over_time: Spread,
    /// Blocks of the region, and those of them that a perfect packing frees.
    blocks: f64,
    freed: f64,
    moved: f64,
    hw_blocks: f64,
    hw_region_ratio: f64,
    hw_free_inside: f64,
    hw_migrations_per_s: f64,
}

impl Packing {
    fn of(parameters: &DefragParams, plain: &RunResult, hw: &RunResult) -> Result<Packing> {
        let (used, hw_used) = (region(plain)?, region(hw)?);
        let (freed, moved) = pack(used.clone());
        let memory = parameters.memory_bytes as f64 / 4096.0;
        let pages = |used: &[u64]| (used.len() as u64 * BLOCK_PAGES) as f64;
        let free = |used: &[u64]| 1.0 - used.iter().sum::<u64>() as f64 / pages(used);
        Ok(Packing {
            region_ratio: pages(&used) / memory,
            free_inside: free(&used),
            over_time: over_time(plain),
            blocks: used.len() as f64,
            freed: freed as f64,
            moved: moved as f64,
            hw_blocks: hw_used.len() as f64,
            hw_region_ratio: pages(&hw_used) / memory,
            hw_free_inside: free(&hw_used),
            hw_migrations_per_s: hw.counters.hw_migrated_pages as f64 / parameters.duration_s,
        })
    }
}

fn row(parameters: &DefragParams, name: &str, steps: &Steps<'_>) -> Result<DefragRow> {
    let workload = Workload::load(name)?;
    let jobs = pairs(
        &parameters.seeds,
        &[PolicyKind::Contiguitas, PolicyKind::ContiguitasHw],
    );
    let one = |&(seed, kind): &(u64, PolicyKind)| {
        let run = simulate(parameters, &workload, kind, seed);
        steps.step();
        run
    };
    let runs: Vec<RunResult> = jobs.par_iter().map(one).collect::<Result<_>>()?;
    let seeds = runs
        .chunks(2)
        .map(|pair| Packing::of(parameters, &pair[0], &pair[1]));
    let seeds: Vec<Packing> = seeds.collect::<Result<_>>()?;
    let over = |value: fn(&Packing) -> f64| Spread::of(seeds.iter().map(value));
    let migrations = over(|p| p.moved);
    let rates = parameters.rates_per_s.iter();
    Ok(DefragRow {
        workload: name.into(),
        region_ratio: over(|p| p.region_ratio),
        free_inside_ratio: over(|p| p.free_inside),
        free_over_time_ratio: over(|p| p.over_time.mean),
        free_least_ratio: over(|p| p.over_time.min),
        free_most_ratio: over(|p| p.over_time.max),
        recovered_ratio: over(|p| p.freed / p.blocks),
        migrations,
        migrations_per_block: over(|p| p.moved / p.freed.max(1.0)),
        packing_s: rates.map(|rate| migrations.mean / rate).collect(),
        hw_region_ratio: over(|p| p.hw_region_ratio),
        hw_recovered_ratio: over(|p| 1.0 - p.hw_blocks / p.blocks),
        hw_migrations_per_s: over(|p| p.hw_migrations_per_s),
        hw_free_inside_ratio: over(|p| p.hw_free_inside),
        paper_recovered_ratio: 0.22,
    })
}

/// Defragmenting the unmovable region.
pub struct Defrag;

impl Experiment for Defrag {
    type Parameters = DefragParams;
    type Outcome = DefragReport;

    fn run(parameters: &DefragParams, progress: Progress<'_>) -> Result<DefragReport> {
        let p = parameters;
        ensure!(!p.seeds.is_empty(), "seeds: at least one is needed");
        ensure!(
            (1.0..=1e7).contains(&p.duration_s),
            "duration_s = {}: must be from 1 to 10,000,000",
            p.duration_s
        );
        ensure!(
            p.rates_per_s.iter().all(|rate| *rate > 0.0),
            "rates_per_s: must be positive"
        );
        let steps = Steps::new(progress, 2 * p.workloads.len() * p.seeds.len());
        let mut rows = Vec::new();
        for name in &p.workloads {
            rows.extend(stop::until_stopped(|| row(p, name, &steps)).transpose()?);
        }
        Ok(DefragReport {
            parameters: parameters.clone(),
            rows,
        })
    }
}

impl Outcome for DefragReport {
    const SCHEMA: &'static str = "ample.hw-defrag/1";

    fn figures(&self) -> Vec<Figure> {
        let bar = |s: &Spread, paper| with_range(s.mean, s.min, s.max, paper);
        let bars = self.rows.iter().flat_map(|row| {
            let packed = bar(&row.recovered_ratio, Some(row.paper_recovered_ratio));
            let simulated = bar(&row.hw_recovered_ratio, None);
            [
                ("perfect packing", packed),
                ("contiguitas-hw, simulated", simulated),
            ]
            .map(|(series, bar)| (&row.workload, series, bar))
        });
        let title = "Share of the unmovable region given back";
        bar_figure("recovered", title, Unit::Percent, bars)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_is_the_closed_form() {
        // Full blocks give nothing; half-full ones half; empty ones all, without a migration.
        assert_eq!(pack(vec![512; 8]), (0, 0));
        assert_eq!(pack(vec![256; 8]), (4, 4 * 256));
        assert_eq!(pack(vec![0; 8]), (8, 0));
        // 22 % free in each block: the paper's share comes back, whole blocks only.
        let (freed, moved) = pack(vec![400; 100]);
        assert_eq!((freed, moved), (21, 21 * 400));
        // The emptiest go first.
        assert_eq!(pack(vec![500, 12, 500, 12]), (2, 24));
    }

    #[test]
    fn a_small_server_gives_blocks_back() {
        let parameters = DefragParams {
            memory_bytes: 256 << 20,
            duration_s: 120.0,
            workloads: vec!["web".into()],
            seeds: vec![1],
            rates_per_s: vec![100.0, 1000.0],
        };
        let report = Defrag::run(&parameters, &|_| {}).expect("runs");
        let row = &report.rows[0];
        assert!(
            row.recovered_ratio.mean <= row.free_inside_ratio.mean,
            "{row:?}"
        );
        let [slow, fast] = row.packing_s[..] else {
            panic!("two rates")
        };
        assert!((slow - 10.0 * fast).abs() <= 1e-12 * slow, "{row:?}");
        let wrong = DefragParams {
            workloads: vec!["nope".into()],
            ..parameters
        };
        assert!(format!("{:#}", Defrag::run(&wrong, &|_| {}).unwrap_err()).contains("nope"));
    }
}
