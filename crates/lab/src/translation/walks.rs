// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contiguitas, figure 3: cycles in page walks for data and for instructions, with 4 KB pages,
//! with 2 MB pages, and with 2 MB and some 1 GB pages.

use super::program;
use super::runs::{data_percent, fetch_share, in_page_mix};
use crate::charts::{Bars, plain};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::machines;
use crate::progress::Steps;
use crate::setup::{Length, PageMix};
use crate::stop;
use ample_report::Unit;
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// Programs, mixes of pages and the length of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WalkParams {
    /// Machine preset.
    pub machine: String,
    pub programs: Vec<String>,
    /// Scale of the programs.
    pub scale: String,
    /// The mixes, by name.
    pub mixes: Vec<NamedMix>,
    /// Length of each run.
    pub length: Length,
    pub seed: u64,
}

/// A mix of page sizes and what it stands for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedMix {
    pub name: String,
    #[serde(flatten)]
    pub mix: PageMix,
}

/// One bar of the figure; percent of execution cycles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WalkBar {
    pub program: String,
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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WalkCycles {
    /// Machine preset.
    pub machine: String,
    pub seed: u64,
    pub bars: Vec<WalkBar>,
}

/// Figure 3 of Contiguitas.
pub struct Walks;

impl Experiment for Walks {
    type Parameters = WalkParams;
    type Outcome = WalkCycles;

    fn run(params: &WalkParams, progress: Progress<'_>) -> Result<WalkCycles> {
        let machine = machines::named(&params.machine)?;
        let steps = Steps::new(progress, params.programs.len() * params.mixes.len());
        let bars = stop::collect(|bars| {
            for name in &params.programs {
                let mut first_ipc = None;
                for named in &params.mixes {
                    let mut program = program(name, &params.scale, params.seed)?;
                    let run = in_page_mix(&machine, program.as_mut(), &named.mix, &params.length)?;
                    let ipc = run.report.ipc;
                    bars.push(WalkBar {
                        program: name.clone(),
                        mix: named.name.clone(),
                        data_percent: data_percent(&run),
                        instruction_percent: run.report.walk_percent() * fetch_share(&run),
                        ipc,
                        speedup: ipc / *first_ipc.get_or_insert(ipc),
                    });
                    steps.step();
                }
            }
            Ok(())
        })?;
        Ok(WalkCycles {
            machine: params.machine.clone(),
            seed: params.seed,
            bars,
        })
    }
}

impl Outcome for WalkCycles {
    const SCHEMA: &'static str = "ample.sim.walks/1";

    fn figures(&self) -> Vec<Figure> {
        let title = "Cycles in page walks, for data and for instructions";
        let mut bars = Bars::new(title, Unit::Percent);
        for row in &self.bars {
            let group = |what| format!("{}, {what}", row.program);
            bars.put(&group("data"), &row.mix, plain(row.data_percent / 100.0));
            bars.put(
                &group("code"),
                &row.mix,
                plain(row.instruction_percent / 100.0),
            );
        }
        vec![Figure::new("walks", title, bars.svg())]
    }
}
