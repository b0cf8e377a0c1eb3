// SPDX-License-Identifier: MIT OR Apache-2.0
//! Direct Segments, tables 3 to 5 and figure 4: cycles lost to D-TLB misses with 4 KB, 2 MB and
//! 1 GB pages and with a segment, and the share of misses that a segment takes away.

use super::program;
use super::runs::{Mapping, all_of, check_seeds, data_percent, map_as, mean, record, whole};
use crate::charts::{Bars, plain, with_range};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::machines::MachineChoice;
use crate::progress::Steps;
use crate::setup::{Length, Measured, anonymous_range, engine, stretch};
use crate::stop;
use ample_machine::MachineConfig;
use ample_report::Unit;
use ample_trace::Program;
use ample_translate::PageSize;
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// Machine, length and rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectSegParams {
    /// A preset or a file, and fields of it that are changed.
    pub machine: MachineChoice,
    /// Scale of the programs.
    pub scale: String,
    /// Length of each run.
    pub length: Length,
    /// Seeds of the programs.
    pub seeds: Vec<u64>,
    /// One row a program.
    pub rows: Vec<DirectSegProgram>,
}

/// One program and the paper's values for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectSegProgram {
    /// Program, as `ample trace` names it.
    pub program: String,
    /// Factor on the instructions between memory accesses, calibrated on the 4 KB column alone.
    pub work: f64,
    /// Nothing in the program is random: one run is all there is.
    #[serde(default)]
    pub seedless: bool,
    /// Table 4: percent of cycles with 4 KB, 2 MB, 1 GB pages.
    pub paper_percent: [f64; 3],
    /// Table 3: share of allocated memory.
    pub paper_read_write_share: f64,
    /// Table 5: percent of D-TLB misses inside the segment.
    pub paper_inside_percent: f64,
}

/// One row of the tables, means over the seeds; "percent" is of execution cycles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectSegRow {
    /// Program, as `ample trace` names it.
    pub program: String,
    /// The calibrated factor on its instructions.
    pub work: f64,
    /// Seeds run.
    pub seeds: usize,
    /// Bytes of the program here.
    pub footprint_bytes: u64,
    /// Table 3 here: share of bytes that is anonymous read-write memory.
    pub read_write_share: f64,
    /// Table 3, paper.
    pub paper_read_write_share: f64,
    /// Table 4 here: 4 KB, 2 MB, 1 GB.
    pub dtlb_percent: [f64; 3],
    /// The least of the seeds.
    pub dtlb_percent_min: [f64; 3],
    /// The greatest of the seeds.
    pub dtlb_percent_max: [f64; 3],
    /// Table 4, paper.
    pub paper_dtlb_percent: [f64; 3],
    /// Figure 4 here: with a segment.
    pub segment_percent: f64,
    /// The least of the seeds.
    pub segment_percent_min: f64,
    /// The greatest of the seeds.
    pub segment_percent_max: f64,
    /// Table 5 here: misses of the 4 KB run inside the range of the segment.
    pub inside_percent: f64,
    /// The least of the seeds.
    pub inside_percent_min: f64,
    /// The greatest of the seeds.
    pub inside_percent_max: f64,
    /// Table 5, paper.
    pub paper_inside_percent: f64,
    /// Data walks in 1000 instructions: 4 KB, 2 MB, 1 GB, segment.
    pub walks_per_kilo_instruction: [f64; 4],
    /// Speed with a segment over 4 KB pages.
    pub segment_speedup: f64,
}

/// Tables 3 to 5 and figure 4, here and in the paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectSegTables {
    /// The machine, as the parameters name it.
    pub machine: String,
    /// Scale of the programs.
    pub scale: String,
    /// Seeds of the programs; figures are means over them.
    pub seeds: Vec<u64>,
    /// One row a program.
    pub rows: Vec<DirectSegRow>,
}

/// Runs one program under one mapping.
pub(crate) fn one(
    machine: &MachineConfig,
    program: &mut dyn Program,
    mapping: Mapping,
    work: f64,
    length: &Length,
) -> Result<Measured> {
    let scheme = match mapping {
        Some(_) => "paging",
        None => "segment",
    };
    let mut engine = engine(machine, scheme)?;
    map_as(&mut engine, program.regions(), mapping)?;
    whole(machine, engine, program, length, Some(&stretch(work)))
}

/// What one seed gave: 4 KB, 2 MB, 1 GB, segment.
struct Sample {
    footprint_bytes: u64,
    read_write_share: f64,
    percent: [f64; 4],
    walks: [f64; 4],
    inside_percent: f64,
    speedup: f64,
}

/// Runs one row with one seed: recorded once, the four mappings side by side.
fn sample(
    machine: &MachineConfig,
    params: &DirectSegParams,
    row: &DirectSegProgram,
    seed: u64,
) -> Result<Sample> {
    let trace = record(program(&row.program, &params.scale, seed)?, &params.length);
    let mappings: Vec<Mapping> = PageSize::ALL.map(Some).into_iter().chain([None]).collect();
    let runs = all_of(&mappings, |&mapping| {
        one(
            machine,
            &mut trace.clone(),
            mapping,
            row.work,
            &params.length,
        )
    })?;
    let anonymous = anonymous_range(trace.regions());
    let bytes = trace.footprint_bytes();
    let small = &runs[0];
    let inside = small.stats.walks_watched as f64 / small.stats.walks_data.max(1) as f64;
    Ok(Sample {
        footprint_bytes: bytes,
        read_write_share: (anonymous.end - anonymous.start) as f64 / bytes as f64,
        percent: [0, 1, 2, 3].map(|at| data_percent(&runs[at])),
        walks: [0, 1, 2, 3].map(|at| runs[at].walks_per_kilo_instruction()),
        inside_percent: 100.0 * inside,
        speedup: runs[3].report.ipc / small.report.ipc,
    })
}

/// One row over all its seeds.
fn summary(row: &DirectSegProgram, samples: &[Sample]) -> DirectSegRow {
    let fold = |value: &dyn Fn(&Sample) -> f64, pick: fn(f64, f64) -> f64| {
        samples.iter().map(value).reduce(pick).unwrap_or(f64::NAN)
    };
    let columns = [0, 1, 2];
    DirectSegRow {
        program: row.program.clone(),
        work: row.work,
        seeds: samples.len(),
        footprint_bytes: samples[0].footprint_bytes,
        read_write_share: samples[0].read_write_share,
        paper_read_write_share: row.paper_read_write_share,
        dtlb_percent: columns.map(|at| mean(samples, |s| s.percent[at])),
        dtlb_percent_min: columns.map(|at| fold(&|s| s.percent[at], f64::min)),
        dtlb_percent_max: columns.map(|at| fold(&|s| s.percent[at], f64::max)),
        paper_dtlb_percent: row.paper_percent,
        segment_percent: mean(samples, |s| s.percent[3]),
        segment_percent_min: fold(&|s| s.percent[3], f64::min),
        segment_percent_max: fold(&|s| s.percent[3], f64::max),
        inside_percent: mean(samples, |s| s.inside_percent),
        inside_percent_min: fold(&|s| s.inside_percent, f64::min),
        inside_percent_max: fold(&|s| s.inside_percent, f64::max),
        paper_inside_percent: row.paper_inside_percent,
        walks_per_kilo_instruction: [0, 1, 2, 3].map(|at| mean(samples, |s| s.walks[at])),
        segment_speedup: mean(samples, |s| s.speedup),
    }
}

/// Tables 3 to 5 and figure 4 of Direct Segments.
pub struct DirectSeg;

impl Experiment for DirectSeg {
    type Parameters = DirectSegParams;
    type Outcome = DirectSegTables;

    fn run(params: &DirectSegParams, progress: Progress<'_>) -> Result<DirectSegTables> {
        let machine = params.machine.read()?;
        check_seeds(&params.seeds)?;
        let count = |row: &DirectSegProgram| if row.seedless { 1 } else { params.seeds.len() };
        let steps = Steps::new(progress, params.rows.iter().map(count).sum());
        let rows = stop::collect(|rows| {
            for row in &params.rows {
                let mut samples = Vec::new();
                for &seed in &params.seeds[..count(row)] {
                    samples.push(sample(&machine, params, row, seed)?);
                    steps.step();
                }
                rows.push(summary(row, &samples));
            }
            Ok(())
        })?;
        Ok(DirectSegTables {
            machine: params.machine.to_string(),
            scale: params.scale.clone(),
            seeds: params.seeds.clone(),
            rows,
        })
    }
}

impl Outcome for DirectSegTables {
    const SCHEMA: &'static str = "ample.sim.directseg/1";

    fn figures(&self) -> Vec<Figure> {
        let title = "Cycles on D-TLB misses by page size";
        let mut bars = Bars::new(title, Unit::Percent);
        for row in &self.rows {
            for (at, name) in ["4 KB", "2 MB", "1 GB"].into_iter().enumerate() {
                let [value, low, high, paper] = [
                    row.dtlb_percent[at],
                    row.dtlb_percent_min[at],
                    row.dtlb_percent_max[at],
                    row.paper_dtlb_percent[at],
                ]
                .map(|percent| percent / 100.0);
                bars.put(
                    &row.program,
                    name,
                    with_range(value, low, high, Some(paper)),
                );
            }
            bars.put(&row.program, "segment", plain(row.segment_percent / 100.0));
        }
        vec![Figure::new("dtlb", title, bars.svg())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_interval_of_its_seeds() {
        let params: DirectSegParams =
            crate::shipped_parameters("directseg", true).expect("shipped");
        let sample = |segment: f64, inside_percent: f64| Sample {
            footprint_bytes: 1,
            read_write_share: 1.0,
            percent: [4.0, 3.0, 2.0, segment],
            walks: [0.0; 4],
            inside_percent,
            speedup: 1.0,
        };
        let row = summary(&params.rows[0], &[sample(0.1, 99.0), sample(0.3, 97.0)]);
        assert_eq!(
            (row.segment_percent_min, row.segment_percent_max),
            (0.1, 0.3)
        );
        assert_eq!(
            (row.inside_percent_min, row.inside_percent_max),
            (97.0, 99.0)
        );
    }
}
