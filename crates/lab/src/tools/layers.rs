// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel and allocator under one service on fragmented memory (`make kernel-layers`): the share of
//! it that each pair gets on huge pages, and what that is worth on the simulated processor.

use super::heaps::walks;
use super::output;
use crate::charts::{bar_figure, with_range};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::needs::source_tree;
use crate::setup::PageMix;
use crate::translation::speedup::{SpeedTable, shipped};
use ample_kit::statistics::MedianRange;
use ample_report::Unit;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::Command;

/// Which guests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayersParams {
    /// Seeds: 1 to this.
    pub seeds: u32,
    /// Results of an earlier run (`build/kernel-layers/results.json`) instead of guests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<PathBuf>,
}

/// The service in one state under one allocator in one guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceRun {
    /// `stock` or `ample`.
    pub kernel: String,
    /// `glibc`, `ours`, or `blind`: ours without its sight of native pages.
    pub malloc: String,
    /// `full` while another program holds most of the rest, `later` a minute after its end.
    pub state: String,
    /// Seed of the fragmenter and of the order of the allocators.
    pub seed: u32,
    /// 2 MB blocks with an unmovable page ÷ all, before the service began.
    pub unmovable_ratio: f64,
    /// SET requests a second of emulated time, an instruction taking a nanosecond.
    pub set_per_s: f64,
    /// GET requests a second.
    pub get_per_s: f64,
    /// Resident memory of the service, KiB.
    pub rss_kib: f64,
    /// The part of it on transparent huge pages, KiB.
    pub huge_kib: f64,
    /// Faults of the guest that got a huge page since the service began.
    pub thp_faults: f64,
    /// Those that got a native page instead.
    pub thp_fallbacks: f64,
    /// Huge pages that khugepaged or a collapse made in the guest since then.
    pub collapses: f64,
    /// Hugepages that the allocator found to be native; null for glibc and before the end.
    pub found_native_hugepages: Option<f64>,
    /// Hugepages that it had rebuilt; null as above.
    pub collapsed_hugepages: Option<f64>,
}

impl ServiceRun {
    /// What the seeds of one row share.
    fn group(&self) -> [&str; 3] {
        [&self.state, &self.kernel, &self.malloc]
    }
}

/// A kernel and an allocator in one state over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerRow {
    /// `full` or `later`, see [`ServiceRun::state`].
    pub state: String,
    /// `stock` or `ample`.
    pub kernel: String,
    /// `glibc`, `ours` or `blind`.
    pub malloc: String,
    /// Number of seeds.
    pub runs: usize,
    /// 2 MB blocks with an unmovable page ÷ all, before the service began.
    pub unmovable_ratio: MedianRange,
    /// Resident memory on huge pages ÷ all.
    pub huge_ratio: MedianRange,
    /// Faults that got a huge page ÷ those that asked for one.
    pub fault_ratio: MedianRange,
    /// SET requests a second of emulated time.
    pub set_per_s: MedianRange,
    /// GET requests a second of emulated time.
    pub get_per_s: MedianRange,
    /// Resident memory, MiB.
    pub rss_mib: MedianRange,
    /// Hugepages that the allocator had rebuilt; null for glibc and before the end.
    pub collapsed_hugepages: Option<MedianRange>,
    /// Cycles with a page walk under way at that share of huge pages, percent; simulated.
    pub walk_percent: MedianRange,
    /// Speed over 4 KB pages; simulated.
    pub speed: MedianRange,
}

/// All kernels and allocators.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayersReport {
    /// Over the seeds.
    pub rows: Vec<LayerRow>,
    /// Every service.
    pub runs: Vec<ServiceRun>,
}

/// Kernel and allocator beside each other.
pub struct Layers;

impl Experiment for Layers {
    type Parameters = LayersParams;
    type Outcome = LayersReport;

    fn run(params: &LayersParams, _progress: Progress<'_>) -> Result<LayersReport> {
        ensure!(params.seeds > 0, "seeds is 0, but must be at least 1");
        let root = source_tree().context("not in the source tree")?;
        let path = match &params.results {
            Some(path) => path.clone(),
            None => {
                let mut command = Command::new(root.join("kernel/scripts/layers.py"));
                command.args(["--seeds", &params.seeds.to_string()]);
                if output(&mut command, 0)?.is_none() {
                    return report(Vec::new());
                }
                root.join("build/kernel-layers/results.json")
            }
        };
        let told = || format!("reading {}", path.display());
        let text = std::fs::read_to_string(&path).with_context(told)?;
        report(serde_json::from_str(&text).with_context(told)?)
    }
}

fn report(runs: Vec<ServiceRun>) -> Result<LayersReport> {
    let speeds = shipped();
    let table = speeds.table("redis").context("no speed table of redis")?;
    let mut rows = Vec::new();
    for state in ["full", "later"] {
        for kernel in ["stock", "ample"] {
            for malloc in ["glibc", "ours", "blind"] {
                let same = runs.iter().filter(|r| r.group() == [state, kernel, malloc]);
                rows.extend(row(&same.collect::<Vec<_>>(), table)?);
            }
        }
    }
    Ok(LayersReport { rows, runs })
}

/// One row of at least one run.
fn row(runs: &[&ServiceRun], table: &SpeedTable) -> Result<Option<LayerRow>> {
    let Some(first) = runs.first() else {
        return Ok(None);
    };
    let of = |values: Vec<f64>| MedianRange::of(values).context("no runs");
    let over = |value: fn(&ServiceRun) -> f64| of(runs.iter().map(|run| value(run)).collect());
    let huge: fn(&ServiceRun) -> f64 = |run| run.huge_kib / run.rss_kib.max(1.0);
    let speed = |run: &&ServiceRun| {
        table.speedup(&PageMix {
            share_2m: huge(run),
            share_1g: 0.0,
            code_2m: false,
        })
    };
    let collapsed: Option<Vec<f64>> = runs.iter().map(|run| run.collapsed_hugepages).collect();
    Ok(Some(LayerRow {
        state: first.state.clone(),
        kernel: first.kernel.clone(),
        malloc: first.malloc.clone(),
        runs: runs.len(),
        unmovable_ratio: over(|run| run.unmovable_ratio)?,
        huge_ratio: over(huge)?,
        fault_ratio: over(|run| run.thp_faults / (run.thp_faults + run.thp_fallbacks).max(1.0))?,
        set_per_s: over(|run| run.set_per_s)?,
        get_per_s: over(|run| run.get_per_s)?,
        rss_mib: over(|run| run.rss_kib / 1024.0)?,
        collapsed_hugepages: collapsed.and_then(MedianRange::of),
        walk_percent: of(runs.iter().map(|run| walks(table, huge(run))).collect())?,
        speed: of(runs.iter().map(speed).collect::<Result<_>>()?)?,
    }))
}

impl Outcome for LayersReport {
    const SCHEMA: &'static str = "ample.layers/1";

    /// Four bars each: memory on huge pages in both states, and cycles in page walks.
    fn figures(&self) -> Vec<Figure> {
        let seen = self.rows.iter().filter(|row| row.malloc != "blind");
        let bars = seen.flat_map(|row| {
            [
                ("on huge pages", row.huge_ratio, 1.0),
                ("cycles in page walks", row.walk_percent, 100.0),
            ]
            .map(|(what, range, whole)| {
                let group = format!("{}: {what}", row.state);
                let series = format!("{} + {}", row.kernel, row.malloc);
                let [value, low, high] = [range.median, range.min, range.max].map(|n| n / whole);
                (group, series, with_range(value, low, high, None))
            })
        });
        let title = "redis on fragmented memory: kernel + allocator";
        bar_figure("layers", title, Unit::Percent, bars)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(kernel: &str, malloc: &str, seed: u32, huge_kib: f64) -> ServiceRun {
        ServiceRun {
            kernel: kernel.into(),
            malloc: malloc.into(),
            state: "later".into(),
            seed,
            unmovable_ratio: 0.9,
            set_per_s: 30_000.0,
            get_per_s: 30_000.0,
            rss_kib: 1000.0,
            huge_kib,
            thp_faults: 3.0,
            thp_fallbacks: 1.0,
            collapses: 0.0,
            found_native_hugepages: None,
            collapsed_hugepages: None,
        }
    }

    #[test]
    fn seeds_are_summed_up_and_huge_pages_are_worth_walks() {
        let runs = vec![
            service("stock", "glibc", 1, 100.0),
            service("stock", "glibc", 2, 300.0),
            service("ample", "ours", 1, 950.0),
            service("ample", "blind", 1, 900.0),
        ];
        let report = report(runs).expect("priced");
        assert_eq!(report.rows.len(), 3);
        let (stock, ours) = (&report.rows[0], &report.rows[1]);
        assert_eq!((stock.runs, stock.huge_ratio.median), (2, 0.2));
        assert_eq!(stock.fault_ratio.median, 0.75);
        assert!(ours.walk_percent.median < stock.walk_percent.min);
        assert!(ours.speed.median > stock.speed.max);
        let svg = &report.figures()[0].svg;
        assert!(
            svg.contains("ample + ours") && !svg.contains("blind"),
            "{svg}"
        );
    }
}
