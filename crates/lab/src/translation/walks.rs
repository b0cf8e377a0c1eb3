// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contiguitas, figure 3: cycles in page walks for data and for instructions, with 4 KB pages,
//! with 2 MB pages, and with 2 MB and some 1 GB pages.

use super::program;
use super::runs::{all_of, check_seeds, data_percent, fetch_share, in_page_mix};
use crate::charts::{Bars, with_range};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::machines::MachineChoice;
use crate::progress::Steps;
use crate::setup::{Length, PageMix};
use crate::stop;
use ample_kit::statistics::Spread;
use ample_report::Unit;
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// Programs, mixes of pages and the length of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WalkParams {
    /// A preset or a file, and fields of it that are changed.
    pub machine: MachineChoice,
    pub programs: Vec<String>,
    /// Scale of the programs.
    pub scale: String,
    /// The mixes, by name.
    pub mixes: Vec<NamedMix>,
    /// Length of each run.
    pub length: Length,
    /// Seeds of the programs.
    pub seeds: Vec<u64>,
}

/// A mix of page sizes and what it stands for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedMix {
    pub name: String,
    #[serde(flatten)]
    pub mix: PageMix,
}

/// One bar of the figure, means over the seeds; percent of execution cycles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WalkBar {
    pub program: String,
    pub mix: String,
    /// Walk cycles for data.
    pub data_percent: f64,
    /// The least of the seeds.
    pub data_percent_min: f64,
    /// The greatest of the seeds.
    pub data_percent_max: f64,
    /// Walk cycles for instructions.
    pub instruction_percent: f64,
    /// The least of the seeds.
    pub instruction_percent_min: f64,
    /// The greatest of the seeds.
    pub instruction_percent_max: f64,
    /// Walk cycles for both: what the paper says of 4 KB pages.
    pub walk_percent: f64,
    /// The least of the seeds.
    pub walk_percent_min: f64,
    /// The greatest of the seeds.
    pub walk_percent_max: f64,
    /// Instructions a cycle.
    pub ipc: f64,
    /// Speed over the first mix with the same seed.
    pub speedup: f64,
    /// The least of the seeds.
    pub speedup_min: f64,
    /// The greatest of the seeds.
    pub speedup_max: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WalkCycles {
    /// The machine, as the parameters name it.
    pub machine: String,
    /// Seeds of the programs; figures are means over them.
    pub seeds: Vec<u64>,
    pub bars: Vec<WalkBar>,
}

/// What one seed gave.
struct Sample {
    data_percent: f64,
    instruction_percent: f64,
    ipc: f64,
}

fn bar(program: &str, mix: &str, samples: &[Sample], first_ipcs: &[f64]) -> WalkBar {
    let over = |value: fn(&Sample) -> f64| Spread::of(samples.iter().map(value));
    let (data, instruction) = (over(|s| s.data_percent), over(|s| s.instruction_percent));
    let both = over(|s| s.data_percent + s.instruction_percent);
    let pairs = samples.iter().zip(first_ipcs);
    let speedup = Spread::of(pairs.map(|(sample, first)| sample.ipc / first));
    WalkBar {
        program: program.to_string(),
        mix: mix.to_string(),
        data_percent: data.mean,
        data_percent_min: data.min,
        data_percent_max: data.max,
        instruction_percent: instruction.mean,
        instruction_percent_min: instruction.min,
        instruction_percent_max: instruction.max,
        walk_percent: both.mean,
        walk_percent_min: both.min,
        walk_percent_max: both.max,
        ipc: over(|s| s.ipc).mean,
        speedup: speedup.mean,
        speedup_min: speedup.min,
        speedup_max: speedup.max,
    }
}

/// Figure 3 of Contiguitas.
pub struct Walks;

impl Experiment for Walks {
    type Parameters = WalkParams;
    type Outcome = WalkCycles;

    fn run(params: &WalkParams, progress: Progress<'_>) -> Result<WalkCycles> {
        let machine = params.machine.read()?;
        check_seeds(&params.seeds)?;
        let steps = Steps::new(progress, params.programs.len() * params.mixes.len());
        let bars = stop::collect(|bars| {
            for name in &params.programs {
                let mut first_ipcs = None;
                for named in &params.mixes {
                    let samples = all_of(&params.seeds, |&seed| {
                        let mut program = program(name, &params.scale, seed)?;
                        let program = program.as_mut();
                        let run = in_page_mix(&machine, program, &named.mix, &params.length)?;
                        Ok(Sample {
                            data_percent: data_percent(&run),
                            instruction_percent: run.report.walk_percent() * fetch_share(&run),
                            ipc: run.report.ipc,
                        })
                    })?;
                    let ipcs = || samples.iter().map(|sample| sample.ipc).collect();
                    let first: &Vec<f64> = first_ipcs.get_or_insert_with(ipcs);
                    bars.push(bar(name, &named.name, &samples, first));
                    steps.step();
                }
            }
            Ok(())
        })?;
        Ok(WalkCycles {
            machine: params.machine.to_string(),
            seeds: params.seeds.clone(),
            bars,
        })
    }
}

impl Outcome for WalkCycles {
    const SCHEMA: &'static str = "ample.sim.walks/2";

    fn figures(&self) -> Vec<Figure> {
        let title = "Cycles in page walks, for data and for instructions";
        let mut bars = Bars::new(title, Unit::Percent);
        for row in &self.bars {
            let parts = [
                (
                    "data",
                    [row.data_percent, row.data_percent_min, row.data_percent_max],
                ),
                (
                    "code",
                    [
                        row.instruction_percent,
                        row.instruction_percent_min,
                        row.instruction_percent_max,
                    ],
                ),
            ];
            for (what, percent) in parts {
                let [value, low, high] = percent.map(|percent| percent / 100.0);
                let group = format!("{}, {what}", row.program);
                bars.put(&group, &row.mix, with_range(value, low, high, None));
            }
        }
        vec![Figure::new("walks", title, bars.svg())]
    }
}
