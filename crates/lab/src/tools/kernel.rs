// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stock Linux, `kernelcore=` and Contiguitas for Linux in guests (`make kernel-bench`).

use super::output;
use crate::charts::{bar_figure, with_range};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::needs::source_tree;
use ample_kit::statistics::MedianRange;
use ample_report::Unit;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::Command;

/// Which guests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelBenchParams {
    /// Memory of the guests, as QEMU takes it.
    pub memory: Vec<String>,
    /// Workloads; all when empty.
    pub workloads: Vec<String>,
    /// Seeds: 1 to this.
    pub seeds: u32,
    /// Results of an earlier run (`build/kernel-bench/results.json`) instead of guests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<PathBuf>,
}

/// What a guest counted, null where it has no such figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GuestFigures {
    /// Fallbacks that crossed pageblocks.
    pub crossing: Option<f64>,
    /// Unmovable pages above the border.
    pub above: Option<f64>,
    /// 2 MB blocks with an unmovable page, percent.
    pub unmovable_share_pct: f64,
    /// Memory in 2 MB blocks without one, percent.
    pub potential_2m_pct: f64,
    /// In 32 MB blocks, percent.
    pub potential_32m_pct: f64,
    /// 1 GB blocks without one.
    pub potential_1g: f64,
    /// 2 MB blocks without one of those outside the region, percent.
    pub outside_2m_pct: f64,
    /// Size of the unmovable region.
    pub region_mib: f64,
    /// Free pages in unmovable blocks, percent.
    pub inner_free_pct: f64,
    /// Transparent huge pages obtained, percent.
    pub thp_pct: f64,
    /// 1 GB pages obtained.
    pub huge_1g: f64,
    /// Processes killed for memory.
    pub oom_kill: f64,
}

/// One guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuestRun {
    /// Memory of the guest, as QEMU takes it.
    pub mem: String,
    /// Workload that it ran.
    pub workload: String,
    /// `stock`, `kernelcore` or `ample`.
    pub config: String,
    /// Seed of the workload.
    pub seed: u32,
    /// Build of the kernel.
    pub kernel: String,
    /// What it counted; null when it did not end well.
    pub figures: Option<GuestFigures>,
}

/// One kernel under one workload over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuestSummary {
    /// Memory of the guest, as QEMU takes it.
    pub mem: String,
    /// Workload that it ran.
    pub workload: String,
    /// `stock`, `kernelcore` or `ample`.
    pub config: String,
    /// Seeds that ended well.
    pub runs: usize,
    /// 2 MB blocks with an unmovable page ÷ all.
    pub unmovable_2m_ratio: MedianRange,
    /// Memory in 2 MB blocks without one ÷ all.
    pub potential_2m_ratio: MedianRange,
    /// 1 GB pages obtained.
    pub huge_1g: MedianRange,
}

/// What `kernel-bench` gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelBenchReport {
    /// Over the seeds.
    pub summary: Vec<GuestSummary>,
    /// Every guest.
    pub runs: Vec<GuestRun>,
}

/// The kernels beside each other.
pub struct KernelBench;

impl Experiment for KernelBench {
    type Parameters = KernelBenchParams;
    type Outcome = KernelBenchReport;

    fn run(params: &KernelBenchParams, _progress: Progress<'_>) -> Result<KernelBenchReport> {
        ensure!(params.seeds > 0, "seeds is 0, but must be at least 1");
        let root = source_tree().context("not in the source tree")?;
        let path = match &params.results {
            Some(path) => path.clone(),
            None => root.join("build/kernel-bench/results.json"),
        };
        let mut ended = true;
        if params.results.is_none() {
            let mut command = Command::new(root.join("kernel/scripts/bench.py"));
            command.args(["--mem", &params.memory.join(",")]);
            command.args(["--seeds", &params.seeds.to_string()]);
            if !params.workloads.is_empty() {
                command.args(["--workloads", &params.workloads.join(",")]);
            }
            ended = output(&mut command, 0)?.is_some();
        }
        let runs = match ended {
            true => read(&path)?,
            false => Vec::new(),
        };
        Ok(KernelBenchReport {
            summary: summary(&runs),
            runs,
        })
    }
}

fn read(path: &std::path::Path) -> Result<Vec<GuestRun>> {
    let told = || format!("reading {}", path.display());
    let text = std::fs::read_to_string(path).with_context(told)?;
    serde_json::from_str(&text).with_context(told)
}

impl GuestRun {
    /// Memory, workload and kernel: what the seeds of one row share.
    fn group(&self) -> (&str, &str, &str) {
        (&self.mem, &self.workload, &self.config)
    }
}

/// Medians over the seeds, in the order of the runs.
fn summary(runs: &[GuestRun]) -> Vec<GuestSummary> {
    let mut groups = Vec::new();
    for run in runs {
        if !groups.contains(&run.group()) {
            groups.push(run.group());
        }
    }
    let row = |group: (&str, &str, &str)| {
        let same = runs.iter().filter(|run| run.group() == group);
        let figures: Vec<&GuestFigures> = same.filter_map(|run| run.figures.as_ref()).collect();
        let over = |value: fn(&GuestFigures) -> f64| {
            MedianRange::of(figures.iter().map(|figures| value(figures)).collect())
        };
        let (mem, workload, config) = group;
        Some(GuestSummary {
            mem: mem.into(),
            workload: workload.into(),
            config: config.into(),
            runs: figures.len(),
            unmovable_2m_ratio: over(|f| f.unmovable_share_pct / 100.0)?,
            potential_2m_ratio: over(|f| f.potential_2m_pct / 100.0)?,
            huge_1g: over(|f| f.huge_1g)?,
        })
    };
    groups.into_iter().filter_map(row).collect()
}

impl Outcome for KernelBenchReport {
    const SCHEMA: &'static str = "ample.kernel-bench/2";

    /// Unmovable blocks by workload, one bar a kernel; the mark of ample is a quarter of stock,
    /// its bar wherever stock exceeds 15 %.
    fn figures(&self) -> Vec<Figure> {
        let bar = |row: &GuestSummary| {
            let is_stock = |other: &&GuestSummary| {
                (&other.mem, &other.workload) == (&row.mem, &row.workload)
                    && other.config == "stock"
            };
            let stock = self.summary.iter().find(is_stock);
            let mark = stock
                .map(|stock| stock.unmovable_2m_ratio.median)
                .filter(|share| *share > 0.15 && row.config == "ample");
            let share = row.unmovable_2m_ratio;
            let bar = with_range(share.median, share.min, share.max, mark.map(|s| s / 4.0));
            (
                format!("{} {}", row.workload, row.mem),
                row.config.clone(),
                bar,
            )
        };
        let title = "2 MB blocks with an unmovable page (mark: a quarter of stock)";
        bar_figure(
            "unmovable",
            title,
            Unit::Percent,
            self.summary.iter().map(bar),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest(config: &str, seed: u32, share: Option<f64>) -> GuestRun {
        let figures = share.map(|share| GuestFigures {
            unmovable_share_pct: share,
            potential_2m_pct: 100.0 - share,
            ..GuestFigures::default()
        });
        GuestRun {
            mem: "2G".into(),
            workload: "mixed".into(),
            config: config.into(),
            seed,
            kernel: "k".into(),
            figures,
        }
    }

    #[test]
    fn seeds_are_summed_up_and_a_quarter_of_stock_is_marked() {
        let runs = vec![
            guest("stock", 1, Some(40.0)),
            guest("stock", 2, Some(60.0)),
            guest("stock", 3, None),
            guest("ample", 1, Some(5.0)),
        ];
        let report = KernelBenchReport {
            summary: summary(&runs),
            runs,
        };
        assert_eq!((report.summary.len(), report.summary[0].runs), (2, 2));
        assert_eq!(report.summary[0].unmovable_2m_ratio.median, 0.5);
        let svg = &report.figures()[0].svg;
        assert!(svg.contains("mixed 2G") && svg.contains("stock"), "{svg}");
    }
}
