// SPDX-License-Identifier: MIT OR Apache-2.0
//! Direct Segments, figure 5: cycles on D-TLB misses of GUPS as its footprint grows.

use super::directseg::one;
use crate::setup::{Length, stop_requested};
use ample_machine::MachineConfig;
use ample_trace::programs::Gups;
use ample_translate::PageSize;
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// Parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Machine preset.
    pub machine: String,
    /// Footprints, MB.
    pub footprints_mb: Vec<u64>,
    /// Length of each run.
    pub length: Length,
    /// Seed.
    pub seed: u64,
}

/// One footprint; percent of execution cycles.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Footprint, bytes.
    pub footprint_bytes: u64,
    /// With 4 KB, 2 MB and 1 GB pages.
    pub dtlb_percent: [f64; 3],
    /// With a segment.
    pub segment_percent: f64,
}

/// The curves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curves {
    /// `ample.sim.footprint/1`.
    pub schema: &'static str,
    /// Machine preset.
    pub machine: String,
    /// Seed.
    pub seed: u64,
    /// Ended early.
    pub partial: bool,
    /// Points, by footprint.
    pub points: Vec<Point>,
    /// For each page size the largest footprint of the list still below 5 % of cycles, bytes.
    pub last_flat_bytes: [Option<u64>; 3],
    /// Reach of the TLB levels that hold each size, bytes: where the curve must turn.
    pub tlb_reach_bytes: [u64; 3],
}

/// Runs all footprints.
///
/// # Errors
/// If the parameters are wrong or a run fails.
pub fn run(params: &Params) -> Result<Curves> {
    let machine = MachineConfig::preset(&params.machine)?;
    let mut points = Vec::new();
    let mut partial = false;
    for &mb in &params.footprints_mb {
        let mut point = Point {
            footprint_bytes: mb << 20,
            dtlb_percent: [0.0; 3],
            segment_percent: 0.0,
        };
        for size in PageSize::ALL {
            let mut gups = Gups::new(mb << 20, params.seed);
            let run = one(&machine, &mut gups, Some(size), 1.0, &params.length)?;
            point.dtlb_percent[size as usize] = run.report.walk_percent();
        }
        let mut gups = Gups::new(mb << 20, params.seed);
        let run = one(&machine, &mut gups, None, 1.0, &params.length)?;
        point.segment_percent = run.report.walk_percent();
        if stop_requested() {
            partial = true;
            break;
        }
        points.push(point);
    }
    let last_flat = |size: usize| {
        points
            .iter()
            .take_while(|p| p.dtlb_percent[size] < 5.0)
            .last()
            .map(|p| p.footprint_bytes)
    };
    let reach = |size: PageSize| {
        let arrays = machine.mmu.l1d.iter().chain(&machine.mmu.l2);
        let entries = arrays
            .filter(|a| a.sizes.contains(&size))
            .map(|a| a.geometry.entries);
        u64::from(entries.max().unwrap_or(0)) * size.bytes()
    };
    Ok(Curves {
        schema: "ample.sim.footprint/1",
        machine: params.machine.clone(),
        seed: params.seed,
        partial,
        last_flat_bytes: [0, 1, 2].map(last_flat),
        tlb_reach_bytes: PageSize::ALL.map(reach),
        points,
    })
}
