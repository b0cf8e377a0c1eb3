// SPDX-License-Identifier: MIT OR Apache-2.0
//! Direct Segments §3.2.2: what it takes to make memory for a segment contiguous by compaction, on
//! servers of the server model.

use super::{check_memory, side_by_side};
use crate::charts::{Bars, plain};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use ample_mm::{Config, PolicyKind, RunResult, Workload, run};
use ample_pfn::{BlockTally, Definition, PAGES_PER_PAGEBLOCK};
use ample_report::Unit;
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// The servers and the segment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentCompactionParams {
    /// Memory of each server, bytes.
    pub memory_bytes: u64,
    /// Simulated seconds before the segment is asked for.
    pub duration_s: f64,
    /// Share of memory that the segment takes (the paper: 10 of 96 GB).
    pub segment_ratio: f64,
    /// Time to move one 4 KB page in software, ns: copy, unmapping, shootdown.
    pub move_ns: f64,
    pub workloads: Vec<String>,
    pub policies: Vec<PolicyKind>,
    /// One run each.
    pub seeds: Vec<u64>,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SegmentCompactionRow {
    pub workload: String,
    pub policy: PolicyKind,
    pub seed: u64,
    /// Size of the segment, bytes.
    pub segment_bytes: u64,
    /// Longest run of 2 MB blocks without an unmovable page, bytes: the largest segment that
    /// compaction can make.
    pub longest_movable_bytes: u64,
    /// Pages to move for the cheapest place; none when no place is without unmovable pages.
    pub pages_to_move: Option<u64>,
    /// Time for it.
    pub seconds: Option<f64>,
    /// Time for 10 GB at the same rate.
    pub seconds_per_10_gb: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SegmentCompaction {
    pub params: SegmentCompactionParams,
    /// The paper's time for 10 GB.
    pub paper_seconds: f64,
    pub rows: Vec<SegmentCompactionRow>,
}

/// Making room for a segment.
pub struct RoomForSegment;

impl Experiment for RoomForSegment {
    type Parameters = SegmentCompactionParams;
    type Outcome = SegmentCompaction;

    fn run(params: &SegmentCompactionParams, progress: Progress<'_>) -> Result<SegmentCompaction> {
        check_memory(params.memory_bytes)?;
        ensure!(
            params.segment_ratio > 0.0 && params.segment_ratio < 1.0,
            "segment_ratio is {}, but must be between 0 and 1",
            params.segment_ratio
        );
        let workloads = params.workloads.iter().map(|name| Workload::load(name));
        let workloads: Vec<Workload> = workloads.collect::<Result<_, _>>()?;
        let mut cells = Vec::new();
        for workload in &workloads {
            for &policy in &params.policies {
                cells.extend(params.seeds.iter().map(|&seed| (workload, policy, seed)));
            }
        }
        let one = |&(workload, policy, seed): &(&Workload, PolicyKind, u64), told: &dyn Fn(f64)| {
            let config = Config {
                memory_bytes: params.memory_bytes,
                seed,
                ..Config::new(policy)
            };
            let seconds = params.duration_s;
            Ok(row(
                params,
                &run(&config, workload, seconds, seconds, told)?,
            ))
        };
        let rows = side_by_side(&cells, progress, one)?;
        let rows: Vec<SegmentCompactionRow> = rows.into_iter().flatten().collect();
        Ok(SegmentCompaction {
            params: params.clone(),
            paper_seconds: 3.0,
            rows,
        })
    }
}

fn row(params: &SegmentCompactionParams, run: &RunResult) -> SegmentCompactionRow {
    let blocks = ((params.memory_bytes >> 21) as f64 * params.segment_ratio) as usize;
    let blocks = blocks.max(1);
    let pages_to_move = cheapest(&run.map_after, blocks);
    let segment_bytes = (blocks as u64) << 21;
    let seconds = pages_to_move.map(|pages| pages as f64 * params.move_ns / 1e9);
    let of_10_gb = 10.0 * f64::from(1 << 30) / segment_bytes as f64;
    SegmentCompactionRow {
        workload: run.workload.clone(),
        policy: run.policy,
        seed: run.seed,
        segment_bytes,
        longest_movable_bytes: (longest_movable(&run.map_after) as u64) << 21,
        pages_to_move,
        seconds,
        seconds_per_10_gb: seconds.map(|seconds| seconds * of_10_gb),
    }
}

fn is_movable(block: &BlockTally) -> bool {
    block.hole == 0 && block.unmovable_high(Definition::O) == 0
}

/// Longest run of blocks without an unmovable page.
fn longest_movable(blocks: &[BlockTally]) -> usize {
    let runs = blocks.split(|block| !is_movable(block));
    runs.map(<[BlockTally]>::len).max().unwrap_or(0)
}

/// Fewest pages in use in so many blocks side by side without an unmovable page.
fn cheapest(blocks: &[BlockTally], count: usize) -> Option<u64> {
    let used = |block: &BlockTally| PAGES_PER_PAGEBLOCK - u64::from(block.free);
    let runs = blocks.split(|block| !is_movable(block));
    runs.flat_map(|run| run.windows(count))
        .map(|place| place.iter().map(used).sum())
        .min()
}

impl Outcome for SegmentCompaction {
    const SCHEMA: &'static str = "ample.segment-compaction/1";

    fn figures(&self) -> Vec<Figure> {
        let title =
            "Seconds to make 10 GB contiguous by moving pages (none: unmovable pages everywhere)";
        let mut bars = Bars::new(title, Unit::Count);
        for row in self
            .rows
            .iter()
            .filter(|row| row.seed == self.params.seeds[0])
        {
            let seconds = row.seconds_per_10_gb.unwrap_or(f64::NAN);
            if seconds.is_finite() {
                bars.put(&row.workload, row.policy.name(), plain(seconds));
            }
        }
        vec![Figure::new("segment-compaction", title, bars.svg())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(free: u16, unmovable: u16) -> BlockTally {
        BlockTally {
            hole: 0,
            mergeable_free: free,
            free,
            unmovable: [unmovable; 3],
            ambiguous: 0,
            sources: 0,
            zone: 0,
        }
    }

    #[test]
    fn the_cheapest_place_has_the_fewest_pages_and_nothing_unmovable() {
        let blocks = [
            block(500, 0),
            block(512, 1),
            block(100, 0),
            block(412, 0),
            block(500, 0),
        ];
        assert_eq!(longest_movable(&blocks), 3);
        assert_eq!(cheapest(&blocks, 1), Some(12));
        assert_eq!(cheapest(&blocks, 2), Some(112));
        assert_eq!(cheapest(&blocks, 4), None);
    }
}
