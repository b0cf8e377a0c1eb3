// SPDX-License-Identifier: MIT OR Apache-2.0
//! Direct Segments, tables 3 to 5 and figure 4: cycles lost to D-TLB misses with 4 KB, 2 MB and
//! 1 GB pages and with a segment, and the share of misses that a segment takes away.

use super::program;
use crate::config::MachineConfig;
use crate::setup::{
    Length, Measured, PageMix, anonymous_range, engine, map_mix, map_segment, measure_redirected,
    stretch,
};
use ample_trace::Program;
use ample_translate::PageSize;
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// Parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Machine preset.
    pub machine: String,
    /// Scale of the programs.
    pub scale: String,
    /// Length of each run.
    pub length: Length,
    /// Seed.
    pub seed: u64,
    /// Rows.
    pub rows: Vec<RowParams>,
}

/// One program and the paper's values for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowParams {
    /// Program.
    pub program: String,
    /// Factor on the instructions between memory accesses, calibrated on the 4 KB column alone.
    pub work: f64,
    /// Table 4: percent of cycles with 4 KB, 2 MB, 1 GB pages.
    pub paper_percent: [f64; 3],
    /// Table 3: share of allocated memory.
    pub paper_read_write_share: f64,
    /// Table 5: percent of D-TLB misses inside the segment.
    pub paper_inside_percent: f64,
}

/// One row of the tables; "percent" is of execution cycles.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Program.
    pub program: String,
    /// The calibrated factor on its instructions.
    pub work: f64,
    /// Bytes of the program here.
    pub footprint_bytes: u64,
    /// Table 3 here: share of bytes that is anonymous read-write memory.
    pub read_write_share: f64,
    /// Table 3, paper.
    pub paper_read_write_share: f64,
    /// Table 4 here: 4 KB, 2 MB, 1 GB.
    pub dtlb_percent: [f64; 3],
    /// Table 4, paper.
    pub paper_dtlb_percent: [f64; 3],
    /// Figure 4 here: with a segment.
    pub segment_percent: f64,
    /// Table 5 here: misses of the 4 KB run inside the range of the segment.
    pub inside_percent: f64,
    /// Table 5, paper.
    pub paper_inside_percent: f64,
    /// Data walks in 1000 instructions: 4 KB, 2 MB, 1 GB, segment.
    pub walks_per_kilo_instruction: [f64; 4],
    /// Speed with a segment over 4 KB pages.
    pub segment_speedup: f64,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tables {
    /// `ample.sim.directseg/1`.
    pub schema: &'static str,
    /// Machine preset.
    pub machine: String,
    /// Scale.
    pub scale: String,
    /// Seed.
    pub seed: u64,
    /// Ended early.
    pub partial: bool,
    /// Rows.
    pub rows: Vec<Row>,
}

/// Walk-active cycles of data walks in percent: fetch walks are taken out by their time.
fn data_percent(run: &Measured) -> f64 {
    let fetch = run.stats.walk_cycles_fetch as f64 / run.stats.walk_cycles.max(1) as f64;
    run.report.walk_percent() * (1.0 - fetch)
}

/// Runs one program under one mapping.
pub(crate) fn one(
    machine: &MachineConfig,
    program: &mut dyn Program,
    size: Option<PageSize>,
    work: f64,
    length: &Length,
) -> Result<Measured> {
    let mut engine = engine(machine, if size.is_some() { "paging" } else { "segment" })?;
    match size {
        Some(size) => map_mix(&mut engine, program.regions(), &PageMix::only(size))?,
        None => map_segment(&mut engine, program.regions())?,
    }
    measure_redirected(machine, engine, program, length, Some(&stretch(work)))
}

/// Runs all rows.
///
/// # Errors
/// If the parameters are wrong or a run fails.
pub fn run(params: &Params) -> Result<Tables> {
    let machine = MachineConfig::preset(&params.machine)?;
    let mut rows = Vec::new();
    let mut partial = false;
    for row in &params.rows {
        let mut dtlb_percent = [0.0; 3];
        let mut walks = [0.0; 4];
        let mut inside_percent = 0.0;
        let mut small_ipc = 0.0;
        let mut program = program(&row.program, &params.scale, params.seed)?;
        let regions = program.regions().to_vec();
        for size in PageSize::ALL {
            let run = one(
                &machine,
                program.as_mut(),
                Some(size),
                row.work,
                &params.length,
            )?;
            dtlb_percent[size as usize] = data_percent(&run);
            walks[size as usize] = run.walks_per_kilo_instruction();
            if size == PageSize::K4 {
                let stats = &run.stats;
                inside_percent =
                    100.0 * stats.walks_watched as f64 / stats.walks_data.max(1) as f64;
                small_ipc = run.report.ipc;
            }
            partial |= run.partial;
        }
        let run = one(&machine, program.as_mut(), None, row.work, &params.length)?;
        partial |= run.partial;
        walks[3] = run.walks_per_kilo_instruction();
        let anonymous = anonymous_range(&regions);
        let bytes: u64 = regions.iter().map(|r| r.bytes).sum();
        rows.push(Row {
            program: row.program.clone(),
            work: row.work,
            footprint_bytes: bytes,
            read_write_share: (anonymous.end - anonymous.start) as f64 / bytes as f64,
            paper_read_write_share: row.paper_read_write_share,
            dtlb_percent,
            paper_dtlb_percent: row.paper_percent,
            segment_percent: data_percent(&run),
            inside_percent,
            paper_inside_percent: row.paper_inside_percent,
            walks_per_kilo_instruction: walks,
            segment_speedup: run.report.ipc / small_ipc,
        });
    }
    Ok(Tables {
        schema: "ample.sim.directseg/1",
        machine: params.machine.clone(),
        scale: params.scale.clone(),
        seed: params.seed,
        partial,
        rows,
    })
}
