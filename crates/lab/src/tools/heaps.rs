// SPDX-License-Identifier: MIT OR Apache-2.0
//! Temeraire's fleet figures in kind: the shipped page heap and a heap of spans under one load
//! (`ample-malloc heaps`), and what the hugepages of each are worth on the simulated processor.

use super::written_by;
use crate::charts::{bar_figure, plain};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::setup::PageMix;
use crate::translation::speedup::{SpeedTable, shipped};
use ample_kit::statistics::mean;
use ample_report::Unit;
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// The load and the baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeapParams {
    /// Memory in use, MiB.
    pub demand_mib: u32,
    /// Seeds of the load.
    pub seeds: u32,
    /// What the heap of spans gives back a second, in ten-thousandths of the memory in use.
    pub spans_release: u32,
}

/// One heap under one load, as `ample-malloc` gives it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeapRun {
    /// `spans` or `ample`.
    pub heap: String,
    /// Whether it gives memory back periodically.
    pub release: bool,
    /// Seed of the load.
    pub seed: u64,
    /// Pages in use on hugepages ÷ pages in use.
    pub coverage: f64,
    /// Backed memory that is not in use ÷ memory in use.
    pub overhead: f64,
    /// Memory in use in the filler ÷ all in use; none for a heap without a filler.
    pub filler_share: Option<f64>,
}

#[derive(Default, Deserialize)]
struct HeapRuns {
    rows: Vec<HeapRun>,
}

/// Means over seeds, and their worth: means over the programs of the speed table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeapFleetRow {
    /// `spans` or `ample`.
    pub heap: String,
    /// Whether it gives memory back periodically.
    pub release: bool,
    /// Pages in use on hugepages ÷ pages in use.
    pub coverage: f64,
    /// Backed memory that is not in use ÷ memory in use.
    pub overhead: f64,
    /// Memory in use in the filler ÷ all in use.
    pub filler_share: Option<f64>,
    /// Cycles with a page walk under way, percent.
    pub walk_percent: f64,
    /// Speed over 4 KB pages.
    pub speed: f64,
}

/// What both heaps made of the same loads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeapFleet {
    /// Parameters that the loads were run with.
    pub params: HeapParams,
    /// Means over all loads.
    pub rows: Vec<HeapFleetRow>,
    /// Each run.
    pub runs: Vec<HeapRun>,
}

/// Temeraire's fleet in kind.
pub struct AllocatorFleet;

impl Experiment for AllocatorFleet {
    type Parameters = HeapParams;
    type Outcome = HeapFleet;

    fn run(params: &HeapParams, _progress: Progress<'_>) -> Result<HeapFleet> {
        let numbers =
            [params.demand_mib, params.seeds, params.spans_release].map(|n| n.to_string());
        let [mib, seeds, release] = &numbers;
        let args = [
            "heaps",
            "--mib",
            mib,
            "--seeds",
            seeds,
            "--spans-release",
            release,
        ];
        let HeapRuns { rows: runs } = written_by("ample-malloc", &args, 0)?;
        Ok(HeapFleet {
            params: params.clone(),
            rows: rows(&runs)?,
            runs,
        })
    }
}

fn rows(runs: &[HeapRun]) -> Result<Vec<HeapFleetRow>> {
    let tables = shipped().tables;
    let mut rows = Vec::new();
    for release in [false, true] {
        for heap in ["spans", "ample"] {
            let of: Vec<&HeapRun> = runs
                .iter()
                .filter(|run| run.heap == heap && run.release == release)
                .collect();
            let Some(coverage) = mean(of.iter().map(|run| run.coverage)) else {
                continue;
            };
            let mix = PageMix {
                share_2m: coverage,
                share_1g: 0.0,
                code_2m: false,
            };
            let speeds: Vec<f64> = tables
                .iter()
                .map(|table| table.speedup(&mix))
                .collect::<Result<_>>()?;
            rows.push(HeapFleetRow {
                heap: heap.into(),
                release,
                coverage,
                overhead: mean(of.iter().map(|run| run.overhead)).unwrap_or_default(),
                filler_share: mean(of.iter().filter_map(|run| run.filler_share)),
                walk_percent: mean(tables.iter().map(|table| walks(table, coverage)))
                    .unwrap_or_default(),
                speed: mean(speeds).unwrap_or_default(),
            });
        }
    }
    Ok(rows)
}

/// Percent of cycles in page walks with this share of memory in 2 MB pages, between the points
/// of the table that have no 1 GB pages.
pub(super) fn walks(table: &SpeedTable, share_2m: f64) -> f64 {
    let mut points: Vec<(f64, f64)> = table
        .points
        .iter()
        .filter(|point| point.share_1g == 0.0)
        .map(|point| (point.share_2m_of_rest, point.walk_active_percent))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let between = points
        .windows(2)
        .find(|pair| (pair[0].0..=pair[1].0).contains(&share_2m));
    between.map_or(f64::NAN, |pair| {
        let part = (share_2m - pair[0].0) / (pair[1].0 - pair[0].0);
        pair[0].1 + part * (pair[1].1 - pair[0].1)
    })
}

impl Outcome for HeapFleet {
    const SCHEMA: &'static str = "ample.allocator-fleet/1";

    fn figures(&self) -> Vec<Figure> {
        let bars = self.rows.iter().flat_map(|row| {
            let release = if row.release { "release" } else { "no release" };
            [("on hugepages", row.coverage), ("held", row.overhead)]
                .map(|(what, share)| (format!("{release}: {what}"), &row.heap, plain(share)))
        });
        let title = "Memory in use on hugepages, and memory held beyond it, of the memory in use";
        bar_figure("allocator-fleet", title, Unit::Percent, bars)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_hugepages_mean_fewer_walks_and_more_speed() {
        let run = |heap: &str, coverage| HeapRun {
            heap: heap.into(),
            release: true,
            seed: 1,
            coverage,
            overhead: 0.1,
            filler_share: None,
        };
        let rows = rows(&[run("spans", 0.1), run("ample", 0.9)]).expect("priced");
        assert_eq!(rows.len(), 2);
        assert!(rows[1].walk_percent < rows[0].walk_percent, "{rows:?}");
        assert!(rows[1].speed > rows[0].speed, "{rows:?}");
        let table = &shipped().tables[0];
        assert_eq!(walks(table, 0.0), table.points[0].walk_active_percent);
    }
}
