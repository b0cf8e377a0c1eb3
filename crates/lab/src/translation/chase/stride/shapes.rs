// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parameters: families of strided chains; their curves; the ways a machine may walk.

use super::super::frames::Scatter;
use super::super::measure::ChaseParams;
use super::geometry::Strided;
use crate::machines::MachineChoice;
use crate::setup::HostPages;
use ample_host::PageBacking;
use ample_translate::Replacement;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What to measure and how to calibrate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StrideParams {
    /// A preset or a file, or `auto`: a preset by CPUID; and fields of it that are changed.
    pub machine: MachineChoice,
    /// Strided chains; each curve that calibrates something says what.
    pub curves: Vec<StrideShape>,
    /// Measured rounds; each goes through all curves, in memory of its own.
    pub rounds: u32,
    /// Runs of a chain in a round, of which the least counts.
    pub tries: u32,
    /// Loads of a run, at least, in whole rounds of the chain.
    pub hops: u64,
    /// Rounds of a chain that are counted in the model.
    pub laps: u64,
    /// Pages that the host may use.
    pub host_pages: Vec<HostPages>,
    /// What the second-level TLB may replace.
    pub replacements: Vec<Replacement>,
    /// Entries of the page-walk caches that are tried, over those of the preset.
    pub walk_cache_shares: Vec<f64>,
    /// Largest footprint of random loads, bytes; the others are halves of it.
    pub random_bytes: u64,
    /// Rounds of random loads.
    pub random_rounds: u32,
    /// Random loads of one measured point.
    pub random_hops: u64,
    /// Random loads of one simulated point.
    pub random_accesses: u64,
    pub seed: u64,
    /// Result of an earlier run (JSON): its measured side is taken, only the model runs.
    pub measured: Option<PathBuf>,
}

/// The smallest footprint of random loads, bytes.
const LEAST_RANDOM_BYTES: u64 = 16 << 10;

impl StrideParams {
    /// Random loads, as the experiment `chase` has them.
    pub(super) fn random(&self) -> ChaseParams {
        ChaseParams {
            machine: self.machine.clone(),
            min_bytes: LEAST_RANDOM_BYTES,
            max_bytes: self.random_bytes,
            rounds: self.random_rounds,
            hops: self.random_hops,
            model_accesses: self.random_accesses,
            fit_below_bytes: self.random_bytes,
            host_pages: self.host_pages.clone(),
            seed: self.seed,
            measured: None,
        }
    }
}

/// What a curve calibrates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Calibrates {
    /// The loop, the second-level TLB's time, the second-level cache's latency.
    Levels,
    /// The walker's time for a reference.
    Walker,
    /// The host's pages.
    Host,
    /// What the second-level TLB replaces.
    Reach,
    /// Which cache the walker reads first, and the entries of the host's page-walk caches.
    HostCache,
    /// Entries of the guest's page-walk caches.
    GuestCache,
}

impl Calibrates {
    pub(super) fn name(self) -> &'static str {
        match self {
            Calibrates::Levels => "levels",
            Calibrates::Walker => "walker",
            Calibrates::Host => "host",
            Calibrates::Reach => "reach",
            Calibrates::HostCache => "host_cache",
            Calibrates::GuestCache => "guest_cache",
        }
    }
}

/// A family of strided chains: each stride with each number of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StrideShape {
    pub name: String,
    /// None: all of it is predicted.
    #[serde(default)]
    pub calibrates: Option<Calibrates>,
    pub backing: PageBacking,
    /// 4 KB pages from one node to the next.
    pub stride_pages: Vec<u64>,
    /// Nodes of a chain.
    pub nodes: Vec<u64>,
    /// Lines of each node, loaded one after the other: a power of two up to 64.
    pub lines: u64,
}

/// One chain. Times are ns a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StridePoint {
    pub nodes: u64,
    pub stride_pages: u64,
    /// Least of the rounds.
    pub measured_ns: f64,
    /// Median over the rounds, each with its least.
    pub measured_median_ns: f64,
    /// Greatest of the rounds.
    pub measured_max_ns: f64,
    pub model_ns: Option<f64>,
    /// Simulated over measured, minus one, percent.
    pub error_percent: Option<f64>,
}

impl StridePoint {
    pub(super) fn strided(&self, shape: &StrideShape) -> Strided {
        Strided {
            nodes: self.nodes,
            stride_pages: self.stride_pages,
            lines: shape.lines,
        }
    }
}

/// A family of chains, measured and simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StrideCurve {
    pub shape: StrideShape,
    /// For each stride where the nodes' 4 KB pages lay, if the kernel told (it tells root); none
    /// of other pages.
    pub scatters: Vec<Option<Scatter>>,
    pub points: Vec<StridePoint>,
    /// Mean of the absolute errors, percent.
    pub mean_error_percent: Option<f64>,
}

/// How the machine finds a translation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WalkWay {
    /// Through one table: there is no host.
    Native,
    /// Through one table, which a host keeps in step with its guest's, in 4 KB pages.
    Shadow,
    /// Through the guest's table, each entry of it through the host's.
    Nested(HostPages),
}

impl WalkWay {
    /// Pages of the host that is walked through.
    pub(super) fn host(&self) -> Option<HostPages> {
        match self {
            WalkWay::Nested(host) => Some(*host),
            WalkWay::Native | WalkWay::Shadow => None,
        }
    }
}
