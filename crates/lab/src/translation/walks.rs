// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contiguitas, figure 3: cycles in page walks for data and for instructions, with 4 KB pages,
//! with 2 MB pages, and with 2 MB and some 1 GB pages.

use super::program;
use super::runs::in_page_mix;
use crate::setup::{Length, PageMix};
use ample_machine::MachineConfig;
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// Parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Machine preset.
    pub machine: String,
    /// Programs.
    pub programs: Vec<String>,
    /// Scale of the programs.
    pub scale: String,
    /// The mixes, by name.
    pub mixes: Vec<NamedMix>,
    /// Length of each run.
    pub length: Length,
    /// Seed.
    pub seed: u64,
}

/// A mix of page sizes and what it stands for.
#[derive(Clone, Debug, Deserialize)]
pub struct NamedMix {
    /// Name.
    pub name: String,
    /// Shares.
    #[serde(flatten)]
    pub mix: PageMix,
}

/// One bar of the figure; percent of execution cycles.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bar {
    /// Program.
    pub program: String,
    /// Mix.
    pub mix: String,
    /// Walk cycles for data.
    pub data_percent: f64,
    /// Walk cycles for instructions.
    pub instruction_percent: f64,
    /// Instructions a cycle.
    pub ipc: f64,
    /// Speed over the first mix.
    pub speedup: f64,
}

/// The figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// `ample.sim.walks/1`.
    pub schema: &'static str,
    /// Machine preset.
    pub machine: String,
    /// Seed.
    pub seed: u64,
    /// Ended early.
    pub partial: bool,
    /// Bars.
    pub bars: Vec<Bar>,
}

/// Runs all bars.
///
/// # Errors
/// If the parameters are wrong or a run fails.
pub fn run(params: &Params) -> Result<Figure> {
    let machine = MachineConfig::preset(&params.machine)?;
    let mut bars = Vec::new();
    let mut partial = false;
    'programs: for name in &params.programs {
        let mut first_ipc = None;
        for NamedMix {
            name: mix_name,
            mix,
        } in &params.mixes
        {
            let mut program = program(name, &params.scale, params.seed)?;
            let run = in_page_mix(&machine, program.as_mut(), mix, &params.length)?;
            let Some(run) = run else {
                partial = true;
                break 'programs;
            };
            let percent = run.report.walk_percent();
            let fetch = run.stats.walk_cycles_fetch as f64 / run.stats.walk_cycles.max(1) as f64;
            let ipc = run.report.ipc;
            let base = *first_ipc.get_or_insert(ipc);
            bars.push(Bar {
                program: name.clone(),
                mix: mix_name.clone(),
                data_percent: percent * (1.0 - fetch),
                instruction_percent: percent * fetch,
                ipc,
                speedup: ipc / base,
            });
        }
    }
    Ok(Figure {
        schema: "ample.sim.walks/1",
        machine: params.machine.clone(),
        seed: params.seed,
        partial,
        bars,
    })
}
