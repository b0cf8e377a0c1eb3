// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much the headlines of the translation model hang on the one number that was fitted and on
//! those of the machine that nobody publishes: all programs again with one of them smaller, and
//! again with it greater.

use super::changes::{Changes, FACTOR, changes, times};
use super::directseg::one;
use super::program;
use super::runs::{check_seeds, data_percent, record};
use super::segments::{KernelRun, kernel_share};
use crate::charts::tornado;
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::machines::MachineChoice;
use crate::server_model::{Spread, side_by_side};
use crate::setup::Length;
use crate::stop;
use ample_machine::MachineConfig;
use ample_trace::Replay;
use ample_translate::PageSize;
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// A number behind the headlines: how the machine changes, or `None` for `work`.
struct Assumed {
    name: &'static str,
    change: Option<fn(&mut MachineConfig, f64)>,
}

/// All of them; those of the machine are choices of its file (`experiments/machines`).
const ASSUMED: [Assumed; 6] = [
    Assumed {
        name: "instructions between accesses (fitted)",
        change: None,
    },
    Assumed {
        name: "delay of controller and fabric",
        change: Some(|m, f| m.memory.dram.controller_ns *= f),
    },
    Assumed {
        name: "latency of the last level",
        change: Some(|m, f| m.memory.llc.latency_cycles = times(m.memory.llc.latency_cycles, f)),
    },
    Assumed {
        name: "latency of the second-level TLB",
        change: Some(|m, f| m.mmu.l2_cycles = times(m.mmu.l2_cycles, f)),
    },
    Assumed {
        name: "lines prefetched",
        change: Some(|m, f| m.memory.prefetch_lines = times(m.memory.prefetch_lines, f)),
    },
    Assumed {
        name: "outstanding misses",
        change: Some(|m, f| m.memory.mshrs = times(m.memory.mshrs, f)),
    },
];

/// The headline of the program with a kernel: cycles of the kernel's walks.
const KERNEL: &str = "kernel, direct map in 1 GB pages";

/// The headlines: cycles of data walks with pages of a size, and with a segment.
const HEADLINES: [&str; 4] = ["4 KB pages", "2 MB pages", "1 GB pages", "segment"];

/// Machine, programs with their fitted numbers, length, seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TranslationSensitivityParams {
    /// A preset or a file, and fields of it that are changed.
    pub machine: MachineChoice,
    /// Scale of the programs.
    pub scale: String,
    /// Length of each run.
    pub length: Length,
    /// Seeds of the programs.
    pub seeds: Vec<u64>,
    /// The programs and what was fitted for each.
    pub programs: Vec<FittedProgram>,
    /// The program with a kernel and what was fitted for it.
    pub kernel: FittedKernel,
}

/// A program with the kernel's work on its requests, and its fitted number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedKernel {
    /// Program, as `ample trace` names it; it must have a direct map.
    pub program: String,
    /// Factor on the instructions between memory accesses, as in the experiment `segments`.
    pub work: f64,
    /// Scale of the program.
    pub scale: String,
    /// Length of each run.
    pub length: Length,
}

/// A program and its fitted number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedProgram {
    /// Program, as `ample trace` names it.
    pub program: String,
    /// Factor on the instructions between memory accesses, as in the experiment `directseg`.
    pub work: f64,
    /// Nothing in the program is random: its runs with the first seed stand for all.
    #[serde(default)]
    pub seedless: bool,
}

/// A headline and what a number changes of it; means over the programs, spreads over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TranslationSensitivityRow {
    /// The pages: cycles of data walks ÷ cycles; or cycles of the kernel's walks ÷ cycles.
    pub quantity: String,
    /// The number that changes.
    pub assumed: String,
    /// The headline with all numbers as they are.
    pub value: Spread,
    /// With the number ÷ 1.25, less that, of the same seed.
    pub less: Spread,
    /// With the number × 1.25, less that, of the same seed.
    pub more: Spread,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TranslationSensitivity {
    /// The parameters as declared.
    pub parameters: TranslationSensitivityParams,
    /// Headline by number.
    pub rows: Vec<TranslationSensitivityRow>,
}

/// The translation model's headlines with each number changed.
pub struct AssumedNumbers;

/// One run: a recorded program, a machine, a factor on its work, a mapping.
struct Job {
    trace: Replay,
    work: f64,
    machine: MachineConfig,
    mapping: Option<PageSize>,
}

/// The number `change` of all changes on a machine and on `work`: 0 is none, then two a number.
fn changed(change: usize, machine: &MachineConfig, work: f64) -> (MachineConfig, f64) {
    let (mut machine, mut work) = (machine.clone(), work);
    if change > 0 {
        let factor = [1.0 / FACTOR, FACTOR][(change - 1) % 2];
        match ASSUMED[(change - 1) / 2].change {
            Some(apply) => apply(&mut machine, factor),
            None => work *= factor,
        }
    }
    (machine, work)
}

impl Experiment for AssumedNumbers {
    type Parameters = TranslationSensitivityParams;
    type Outcome = TranslationSensitivity;

    fn run(
        params: &TranslationSensitivityParams,
        progress: Progress<'_>,
    ) -> Result<TranslationSensitivity> {
        let machine = params.machine.read()?;
        check_seeds(&params.seeds)?;
        ensure!(
            !params.programs.is_empty(),
            "programs lists no program; give at least one"
        );
        let made = params.seeds.len() * params.programs.len() + 1;
        let mut found: Vec<Option<Vec<[f64; 4]>>> = Vec::new();
        for (at, &seed) in params.seeds.iter().enumerate() {
            for (place, program) in params.programs.iter().enumerate() {
                if at > 0 && program.seedless {
                    found.push(found[place].clone());
                    continue;
                }
                let base = at * params.programs.len() + place;
                let told = |share: f64| progress((base as f64 + share) / made as f64);
                found.push(program_of(params, &machine, program, seed, &told)?);
            }
        }
        let told = |share: f64| progress((made as f64 - 1.0 + share) / made as f64);
        let kernel = kernel_of(params, &machine, &told)?;
        let whole: Option<Vec<Vec<[f64; 4]>>> = found.into_iter().collect();
        let mut rows = whole.map_or_else(Vec::new, |found| rows(params, &found));
        rows.extend(kernel.map_or_else(Vec::new, |found| kernel_rows(params, &found)));
        Ok(TranslationSensitivity {
            parameters: params.clone(),
            rows,
        })
    }
}

/// The kernel's headline by change and seed; `None` after an early end.
fn kernel_of(
    params: &TranslationSensitivityParams,
    machine: &MachineConfig,
    progress: Progress<'_>,
) -> Result<Option<Vec<f64>>> {
    let fitted = &params.kernel;
    let mut jobs = Vec::new();
    for change in 0..=2 * ASSUMED.len() {
        let (machine, work) = changed(change, machine, fitted.work);
        jobs.extend(
            params
                .seeds
                .iter()
                .map(|&seed| (machine.clone(), work, seed)),
        );
    }
    let run = |(machine, work, seed): &(MachineConfig, f64, u64), told: &dyn Fn(f64)| {
        let run = KernelRun {
            program: &fitted.program,
            work: *work,
            scale: &fitted.scale,
            length: &fitted.length,
        };
        let share = kernel_share(machine, run, *seed)?;
        told(1.0);
        Ok(share)
    };
    Ok(side_by_side(&jobs, progress, run)?.into_iter().collect())
}

fn kernel_rows(
    params: &TranslationSensitivityParams,
    found: &[f64],
) -> Vec<TranslationSensitivityRow> {
    let numbers = ASSUMED.iter().zip(changes(found, params.seeds.len()));
    let row = |(number, change): (&Assumed, Changes)| TranslationSensitivityRow {
        quantity: KERNEL.into(),
        assumed: number.name.into(),
        value: change.value,
        less: change.less,
        more: change.more,
    };
    numbers.map(row).collect()
}

/// The headlines of one program with one seed, for each change; `None` after an early end.
fn program_of(
    params: &TranslationSensitivityParams,
    machine: &MachineConfig,
    fitted: &FittedProgram,
    seed: u64,
    progress: Progress<'_>,
) -> Result<Option<Vec<[f64; 4]>>> {
    let recorded = stop::until_stopped(|| {
        let made = program(&fitted.program, &params.scale, seed)?;
        anyhow::Ok(record(made, &params.length))
    });
    let Some(trace) = recorded.transpose()? else {
        return Ok(None);
    };
    let mut jobs = Vec::new();
    for change in 0..=2 * ASSUMED.len() {
        let (machine, work) = changed(change, machine, fitted.work);
        for mapping in PageSize::ALL.map(Some).into_iter().chain([None]) {
            jobs.push(Job {
                trace: trace.clone(),
                work,
                machine: machine.clone(),
                mapping,
            });
        }
    }
    let run = |job: &Job, told: &dyn Fn(f64)| {
        let mut trace = job.trace.clone();
        let run = one(
            &job.machine,
            &mut trace,
            job.mapping,
            job.work,
            &params.length,
        )?;
        told(1.0);
        Ok(data_percent(&run) / 100.0)
    };
    let done: Option<Vec<f64>> = side_by_side(&jobs, progress, run)?.into_iter().collect();
    let four = |found: &[f64]| [found[0], found[1], found[2], found[3]];
    Ok(done.map(|done| done.chunks_exact(4).map(four).collect()))
}

/// Rows of what each seed and program gave (programs of the first seed first), by change.
fn rows(
    params: &TranslationSensitivityParams,
    found: &[Vec<[f64; 4]>],
) -> Vec<TranslationSensitivityRow> {
    let mut rows = Vec::new();
    for (at, quantity) in HEADLINES.into_iter().enumerate() {
        // The mean over the programs, for each seed.
        let seeds = |change: usize| -> Vec<f64> {
            let of_seed = found.chunks_exact(params.programs.len());
            let mean = |own: &[Vec<[f64; 4]>]| {
                own.iter().map(|found| found[change][at]).sum::<f64>() / own.len() as f64
            };
            of_seed.map(mean).collect()
        };
        let each: Vec<f64> = (0..=2 * ASSUMED.len()).flat_map(seeds).collect();
        let count = params.seeds.len();
        for (number, change) in ASSUMED.iter().zip(changes(&each, count)) {
            rows.push(TranslationSensitivityRow {
                quantity: quantity.into(),
                assumed: number.name.into(),
                value: change.value,
                less: change.less,
                more: change.more,
            });
        }
    }
    rows
}

impl Outcome for TranslationSensitivity {
    const SCHEMA: &'static str = "ample.translation-sensitivity/1";

    fn figures(&self) -> Vec<Figure> {
        let mut figures = Vec::new();
        for quantity in HEADLINES.into_iter().chain([KERNEL]) {
            let own = self.rows.iter().filter(|row| row.quantity == quantity);
            let bars = own.map(|row| (&row.assumed[..], row.value, row.less, row.more));
            let title = format!("Cycles of data walks, {quantity}, by what was assumed");
            let name = quantity.replace([' ', ','], "-").to_lowercase();
            figures.extend(tornado(&name, &title, bars));
        }
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translation::segments::SegmentParams;

    #[test]
    fn each_change_is_of_one_number() {
        let machine = MachineConfig::preset("directseg-sandybridge").expect("a preset");
        assert_eq!(changed(0, &machine, 2.0), (machine.clone(), 2.0));
        let all: Vec<_> = (0..=2 * ASSUMED.len())
            .map(|change| changed(change, &machine, 2.0))
            .collect();
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "change {at} is there twice");
        }
    }

    /// The numbers that were fitted stand in two files.
    #[test]
    fn programs_are_those_of_the_tables() {
        let own = include_str!("../../../../experiments/translation-sensitivity.toml");
        let tables = include_str!("../../../../experiments/directseg.toml");
        let list = |text: &str, name: &str| -> Vec<FittedProgram> {
            let file: toml::Table = text.parse().expect("TOML");
            let rows = file["parameters"][name].as_array().expect("a list");
            let pick = |row: &toml::Value| FittedProgram {
                program: row["program"].as_str().expect("a name").into(),
                work: row["work"].as_float().expect("a number"),
                seedless: row.get("seedless").is_some(),
            };
            rows.iter().map(pick).collect()
        };
        assert_eq!(list(own, "programs"), list(tables, "rows"));
        let (own, segments): (TranslationSensitivityParams, SegmentParams) = (
            crate::shipped_parameters("translation-sensitivity", false).expect("shipped"),
            crate::shipped_parameters("segments", false).expect("shipped"),
        );
        let (own, theirs) = (own.kernel, segments.kernel);
        assert_eq!((own.program, own.work), (theirs.program, theirs.work));
    }
}
