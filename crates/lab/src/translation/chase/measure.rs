// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measured side: rounds over all page sizes, the least of the rounds at each footprint.

use super::frames::Scatter;
use crate::machines::MachineChoice;
use crate::setup::HostPages;
use ample_host::{LoadPattern, PageBacking, TestMemory};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What to measure and how to calibrate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChaseParams {
    /// A preset or a file, or `auto`: a preset by CPUID; and fields of it that are changed.
    pub machine: MachineChoice,
    /// Smallest footprint, bytes; the rest are its doublings.
    pub min_bytes: u64,
    /// Largest footprint, bytes; cut to what memory is available.
    pub max_bytes: u64,
    /// Measured rounds; each goes through all page sizes.
    pub rounds: u32,
    /// Loads of one measured point.
    pub hops: u64,
    /// Loads of one simulated point.
    pub model_accesses: u64,
    /// Largest footprint of the points that the calibration uses, bytes.
    pub fit_below_bytes: u64,
    /// Pages that the host may use: those that fit the 2 MB curve best are taken.
    pub host_pages: Vec<HostPages>,
    pub seed: u64,
    /// Result of an earlier run (JSON): its measured side is taken, only the model runs.
    pub measured: Option<PathBuf>,
}

/// One footprint. Times are ns a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyPoint {
    pub footprint_bytes: u64,
    /// Least of the rounds: what shares the processor only adds time.
    pub measured_ns: f64,
    /// Median over the rounds.
    pub measured_median_ns: f64,
    /// Greatest of the rounds.
    pub measured_max_ns: f64,
    pub model_ns: Option<f64>,
    /// Simulated over measured, minus one, percent.
    pub error_percent: Option<f64>,
}

/// The curve of one page size and pattern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyCurve {
    pub backing: PageBacking,
    /// Which lines of the footprint are loaded.
    pub pattern: LoadPattern,
    /// Where its 4 KB pages lay in this machine's memory, if the kernel told (it tells root).
    pub scatter: Option<Scatter>,
    /// Share of the memory that the kernel backed with transparent huge pages, the least of the
    /// rounds.
    pub thp_share: Option<f64>,
    /// Points by footprint.
    pub points: Vec<LatencyPoint>,
    /// Mean of the absolute errors, percent.
    pub mean_error_percent: Option<f64>,
    /// Greatest absolute error, percent.
    pub max_error_percent: Option<f64>,
}

/// All curves that could be measured.
pub(super) struct Measured {
    pub(super) curves: Vec<LatencyCurve>,
    pub(super) missing: Vec<String>,
}

/// Rounds of one page size and pattern: for each round the times of all footprints.
#[derive(Default)]
struct Rounds {
    pattern: LoadPattern,
    times: Vec<Vec<f64>>,
    thp_share: Option<f64>,
    scatter: Option<Scatter>,
}

impl Rounds {
    fn add(&mut self, params: &ChaseParams, sizes: &[u64], memory: &TestMemory, round: u32) {
        let share = memory.thp_share();
        self.thp_share = match (self.thp_share, share) {
            (Some(least), Some(share)) => Some(least.min(share)),
            (least, share) => least.or(share),
        };
        let (seed, pattern) = (params.seed + u64::from(round), self.pattern);
        let time = |&bytes: &u64| {
            // Every line of a small footprint, and as many of a large one as caches can hold.
            let warm = (bytes / loaded_bytes(pattern) * 6).min(2 * params.hops);
            memory.ns_per_hop(bytes, pattern, warm.max(1), !seed);
            memory.ns_per_hop(bytes, pattern, params.hops, seed)
        };
        let sizes = sizes_of(pattern, sizes);
        self.times.push(sizes.iter().map(time).collect());
    }

    fn curve(self, sizes: &[u64], backing: PageBacking) -> LatencyCurve {
        let point = |(at, &footprint_bytes): (usize, &u64)| {
            let mut times: Vec<f64> = self.times.iter().map(|round| round[at]).collect();
            times.sort_by(f64::total_cmp);
            LatencyPoint {
                footprint_bytes,
                measured_ns: times[0],
                measured_median_ns: times[times.len() / 2],
                measured_max_ns: times[times.len() - 1],
                model_ns: None,
                error_percent: None,
            }
        };
        LatencyCurve {
            backing,
            pattern: self.pattern,
            scatter: self.scatter,
            thp_share: self.thp_share,
            points: sizes_of(self.pattern, sizes)
                .iter()
                .enumerate()
                .map(point)
                .collect(),
            mean_error_percent: None,
            max_error_percent: None,
        }
    }
}

/// Bytes of a footprint for each line that is loaded.
fn loaded_bytes(pattern: LoadPattern) -> u64 {
    match pattern {
        LoadPattern::Lines => 64,
        LoadPattern::Pages => 4096,
    }
}

/// The footprints of a pattern: of fewer pages than a near TLB holds there is nothing to learn.
fn sizes_of(pattern: LoadPattern, sizes: &[u64]) -> &[u64] {
    match pattern {
        LoadPattern::Lines => sizes,
        LoadPattern::Pages => &sizes[sizes.partition_point(|&bytes| bytes < 256 * 4096)..],
    }
}

/// One page size: its footprints and what has been measured of them.
struct Side {
    backing: PageBacking,
    sizes: Vec<u64>,
    rounds: [Rounds; 2],
}

impl Side {
    /// Maps memory for the largest footprint. Reserved 1 GB pages are rarely enough for all:
    /// footprints are dropped from the large end until they are.
    fn memory(&mut self, missing: &mut Vec<String>) -> Result<Option<TestMemory>> {
        loop {
            let Some(&most) = self.sizes.last() else {
                return Ok(None);
            };
            let bytes = match self.backing {
                PageBacking::Huge1G => most.next_multiple_of(1 << 30),
                _ => most.next_multiple_of(2 << 20),
            };
            match TestMemory::new(bytes, self.backing) {
                Ok(memory) => return Ok(Some(memory)),
                Err(error) if self.backing == PageBacking::Huge1G => {
                    // All footprints of up to 1 GB need the same one page.
                    self.sizes.retain(|&size| size > 1 << 30 || bytes > 1 << 30);
                    self.sizes.pop();
                    missing.push(error.to_string());
                }
                Err(error) => return Err(error).context("measuring this machine"),
            }
        }
    }
}

impl Side {
    /// One round of both patterns.
    fn measure(&mut self, params: &ChaseParams, memory: &TestMemory, round: u32) {
        // All rounds find much the same memory: one tells where pages lie.
        if self.backing == PageBacking::Small
            && self.rounds[0].scatter.is_none()
            && let Some(frames) = memory.frames()
        {
            let scatter = Scatter::of(&frames, &self.sizes);
            for rounds in &mut self.rounds {
                rounds.scatter = Some(scatter.clone());
            }
        }
        for rounds in &mut self.rounds {
            rounds.add(params, &self.sizes, memory, round);
        }
    }
}

/// Measures all page sizes, round by round, one range of memory at a time.
pub(super) fn curves(params: &ChaseParams, sizes: &[u64]) -> Result<Measured> {
    let mut measured = Measured {
        curves: Vec::new(),
        missing: Vec::new(),
    };
    let side = |backing| Side {
        backing,
        sizes: sizes.to_vec(),
        rounds: [LoadPattern::Lines, LoadPattern::Pages].map(|pattern| Rounds {
            pattern,
            ..Rounds::default()
        }),
    };
    let mut all = [PageBacking::Small, PageBacking::Thp, PageBacking::Huge1G].map(side);
    for round in 0..params.rounds {
        for side in &mut all {
            if crate::stop::requested() {
                break;
            }
            if let Some(memory) = side.memory(&mut measured.missing)? {
                side.measure(params, &memory, round);
            }
        }
    }
    for side in all {
        // A page size whose memory went away between two rounds has nothing whole to show.
        for rounds in side.rounds {
            if !rounds.times.is_empty() && !sizes_of(rounds.pattern, &side.sizes).is_empty() {
                let curve = rounds.curve(&side.sizes, side.backing);
                measured.curves.push(curve);
            }
        }
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footprints_shrink_to_the_1_gb_pages_there_are() {
        // 64 TB of 1 GB pages are never to be had, and hosts of tests have none reserved.
        let mut side = Side {
            backing: PageBacking::Huge1G,
            sizes: vec![1 << 20, 1 << 46],
            rounds: Default::default(),
        };
        let mut missing = Vec::new();
        let memory = side.memory(&mut missing).unwrap();
        assert!(missing[0].contains("nr_hugepages"), "{missing:?}");
        assert_eq!(memory.is_some(), side.sizes == [1 << 20]);
    }
}
