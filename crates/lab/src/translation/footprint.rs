// SPDX-License-Identifier: MIT OR Apache-2.0
//! Direct Segments, figure 5: cycles on D-TLB misses of GUPS as its footprint grows.

use super::directseg::one;
use super::runs::{all_of, check_seeds};
use crate::charts::{line, lines};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::machines::MachineChoice;
use crate::progress::Steps;
use crate::setup::Length;
use crate::stop;
use ample_kit::statistics::Spread;
use ample_report::Unit;
use ample_trace::programs::Gups;
use ample_translate::PageSize;
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// Machine and footprints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FootprintParams {
    /// A preset or a file, and fields of it that are changed.
    pub machine: MachineChoice,
    pub footprints_mb: Vec<u64>,
    /// Length of each run.
    pub length: Length,
    /// Seeds of the program.
    pub seeds: Vec<u64>,
}

/// One footprint, means over the seeds; percent of execution cycles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FootprintPoint {
    pub footprint_bytes: u64,
    /// With 4 KB, 2 MB and 1 GB pages.
    pub dtlb_percent: [f64; 3],
    /// The least of the seeds.
    pub dtlb_percent_min: [f64; 3],
    /// The greatest of the seeds.
    pub dtlb_percent_max: [f64; 3],
    /// With a segment.
    pub segment_percent: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FootprintCurves {
    /// The machine, as the parameters name it.
    pub machine: String,
    /// Seeds of the program; figures are means over them.
    pub seeds: Vec<u64>,
    /// Points, by footprint.
    pub points: Vec<FootprintPoint>,
    /// For each page size the largest footprint of the list still below 5 % of cycles, bytes.
    pub last_flat_bytes: [Option<u64>; 3],
    /// Reach of the TLB levels that hold each size, bytes: where the curve must turn.
    pub tlb_reach_bytes: [u64; 3],
}

/// Figure 5 of Direct Segments.
pub struct Footprint;

impl Experiment for Footprint {
    type Parameters = FootprintParams;
    type Outcome = FootprintCurves;

    fn run(params: &FootprintParams, progress: Progress<'_>) -> Result<FootprintCurves> {
        let machine = params.machine.read()?;
        check_seeds(&params.seeds)?;
        let steps = Steps::new(progress, params.footprints_mb.len());
        let percent = |mb: u64, mapping| -> Result<Spread> {
            let runs = all_of(&params.seeds, |&seed| {
                let mut gups = Gups::new(mb << 20, seed);
                let run = one(&machine, &mut gups, mapping, 1.0, &params.length)?;
                Ok(run.report.walk_percent())
            })?;
            Ok(Spread::of(runs))
        };
        let points = stop::collect(|points: &mut Vec<FootprintPoint>| {
            for &mb in &params.footprints_mb {
                let of = |size| percent(mb, Some(size));
                let pages = [of(PageSize::K4)?, of(PageSize::M2)?, of(PageSize::G1)?];
                points.push(FootprintPoint {
                    footprint_bytes: mb << 20,
                    dtlb_percent: pages.map(|spread| spread.mean),
                    dtlb_percent_min: pages.map(|spread| spread.min),
                    dtlb_percent_max: pages.map(|spread| spread.max),
                    segment_percent: percent(mb, None)?.mean,
                });
                steps.step();
            }
            Ok(())
        })?;
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
        Ok(FootprintCurves {
            machine: params.machine.to_string(),
            seeds: params.seeds.clone(),
            last_flat_bytes: [0, 1, 2].map(last_flat),
            tlb_reach_bytes: PageSize::ALL.map(reach),
            points,
        })
    }
}

impl Outcome for FootprintCurves {
    const SCHEMA: &'static str = "ample.sim.footprint/2";

    fn figures(&self) -> Vec<Figure> {
        let title = "Cycles on D-TLB misses of GUPS by footprint";
        let over = |name: &str, value: &dyn Fn(&FootprintPoint) -> f64| {
            let at = |p: &FootprintPoint| (p.footprint_bytes as f64).log2();
            line(name, self.points.iter().map(|p| (at(p), value(p) / 100.0)))
        };
        let mut series = Vec::new();
        for (size, name) in ["4 KB", "2 MB", "1 GB"].into_iter().enumerate() {
            series.push(over(name, &|p| p.dtlb_percent[size]));
        }
        series.push(over("segment", &|p| p.segment_percent));
        let mut chart = lines(
            title,
            [("footprint", Unit::Log2Bytes), ("cycles", Unit::Percent)],
            series,
        );
        chart.y_max = Some(1.0);
        vec![Figure::new("footprint", title, chart.to_svg())]
    }
}
