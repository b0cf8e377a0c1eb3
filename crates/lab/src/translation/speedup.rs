// SPDX-License-Identifier: MIT OR Apache-2.0
//! What contiguity is worth: cycles an instruction of a program over a grid of page-size mixes,
//! and a function from any mix to the speed-up over 4 KB pages (Contiguitas, figure 10's shape).

use super::program;
use super::runs::{all_of, check_seeds, in_page_mix, mean};
use crate::charts::{line, lines};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::machines::MachineChoice;
use crate::progress::Steps;
use crate::setup::{Length, PageMix};
use crate::stop;
use ample_kit::statistics::Spread;
use ample_machine::MachineConfig;
use ample_mm::{RunResult, Workload};
use ample_pfn::PageClass;
use ample_report::Unit;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// Programs and the grid of page-size shares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpeedupParams {
    /// A preset or a file, and fields of it that are changed.
    pub machine: MachineChoice,
    /// Programs, by the names that `ample trace` knows.
    pub programs: Vec<String>,
    /// Scale of the programs.
    pub scale: String,
    /// Shares of 2 MB pages, ascending, from 0 to 1, of what is not in 1 GB pages.
    pub shares_2m: Vec<f64>,
    /// Shares of 1 GB pages, ascending from 0.
    pub shares_1g: Vec<f64>,
    /// Length of each run.
    pub length: Length,
    /// Seeds of programs and draws; figures are means over them.
    pub seeds: Vec<u64>,
}

/// One point of the grid, means over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpeedPoint {
    /// Share of 2 MB pages in what is not 1 GB pages.
    pub share_2m_of_rest: f64,
    /// Share of 1 GB pages.
    pub share_1g: f64,
    /// Cycles an instruction, over the whole run.
    pub cycles_per_instruction: f64,
    /// Cycles with a walk under way, percent.
    pub walk_active_percent: f64,
    /// Speed over 4 KB pages only.
    pub speedup: f64,
    /// The least of the seeds, each over 4 KB pages with the same seed.
    pub speedup_min: f64,
    /// The greatest of the seeds.
    pub speedup_max: f64,
}

/// The table of one program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpeedTable {
    /// Program, as `ample trace` names it.
    pub program: String,
    /// Bytes of the program.
    pub footprint_bytes: u64,
    /// Grid axis: shares of 2 MB pages.
    pub shares_2m: Vec<f64>,
    /// Grid axis: shares of 1 GB pages.
    pub shares_1g: Vec<f64>,
    /// Points, 2 MB share running fastest.
    pub points: Vec<SpeedPoint>,
}

/// Tables of all programs on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speedups {
    /// The machine, as the parameters name it.
    pub machine: String,
    /// Seeds of programs and draws.
    pub seeds: Vec<u64>,
    /// One table a program.
    pub tables: Vec<SpeedTable>,
}

/// The tables measured when this version was made: what `ample whatif` uses without a run.
pub fn shipped() -> Speedups {
    serde_json::from_str(include_str!("../../../../experiments/speedup-table.json"))
        .unwrap_or_else(|error| panic!("the shipped speed table does not parse: {error}"))
}

impl Speedups {
    /// The table of a program.
    pub fn table(&self, program: &str) -> Option<&SpeedTable> {
        self.tables.iter().find(|table| table.program == program)
    }

    /// The table of the program that stands for a workload, shipped or a file of one's own, which
    /// is priced as the workload whose name it bears.
    ///
    /// # Errors
    /// If there is no such workload or no program stands for it.
    pub fn of_workload(&self, name_or_path: &str) -> Result<&SpeedTable> {
        let named = Workload::load(name_or_path)?.name;
        program_of(&named)
            .and_then(|program| self.table(program))
            .with_context(|| format!("no program stands for workload '{name_or_path}'"))
    }
}

impl SpeedTable {
    /// Speed of a page mix over 4 KB pages only: bilinear between the points of the grid, in
    /// cycles an instruction (which add up over accesses; speed-ups do not).
    ///
    /// # Errors
    /// If the mix is not a sum of shares.
    pub fn speedup(&self, mix: &PageMix) -> Result<f64> {
        mix.check()?;
        let rest = 1.0 - mix.share_1g;
        let of_rest = if rest > 1e-9 {
            (mix.share_2m / rest).min(1.0)
        } else {
            1.0
        };
        let (column, across) = bracket(&self.shares_2m, of_rest);
        let (row, along) = bracket(&self.shares_1g, mix.share_1g);
        let width = self.shares_2m.len();
        let cpi = |row: usize, column: usize| {
            let row = row.min(self.shares_1g.len() - 1);
            let column = column.min(width - 1);
            self.points[row * width + column].cycles_per_instruction
        };
        let blend = |row: usize| cpi(row, column) * (1.0 - across) + cpi(row, column + 1) * across;
        let here = blend(row) * (1.0 - along) + blend(row + 1) * along;
        Ok(cpi(0, 0) / here)
    }
}

/// The program of the table that stands for a workload of the server model.
pub fn program_of(workload: &str) -> Option<&'static str> {
    match workload {
        "web" => Some("web"),
        "cache-a" | "cache-b" => Some("cache"),
        _ => None,
    }
}

/// How the workload's own memory is mapped when it has placed what it could in the HugeTLB pages
/// that it obtained and the rest in anonymous memory with the run's THP coverage.
pub fn page_mix(run: &RunResult) -> PageMix {
    let classes = &run.metrics.total.class_pages;
    let anon = classes
        .get(PageClass::Anon.name())
        .copied()
        .unwrap_or(0)
        .max(1) as f64;
    let share = |pages: f64, left: f64| (pages / anon).min(left);
    let share_1g = share(f64::from(run.huge.hugetlb_1g_got) * f64::from(1 << 18), 1.0);
    let explicit = share(f64::from(run.huge.hugetlb_2m_got) * 512.0, 1.0 - share_1g);
    let rest = (1.0 - share_1g - explicit).max(0.0);
    let share_2m = explicit + rest * run.huge.thp_coverage_ratio.unwrap_or(0.0);
    PageMix {
        share_2m,
        share_1g,
        code_2m: share_2m >= 0.5,
    }
}

/// The same of a workload that asks for no HugeTLB pages: what is transparent alone.
pub fn transparent_mix(run: &RunResult) -> PageMix {
    let share_2m = run.huge.thp_coverage_ratio.unwrap_or(0.0);
    PageMix {
        share_2m,
        share_1g: 0.0,
        code_2m: share_2m >= 0.5,
    }
}

/// The grid interval that holds `x`, and how far into it `x` lies; outside: the border.
fn bracket(axis: &[f64], x: f64) -> (usize, f64) {
    let above = axis.partition_point(|&a| a <= x);
    if above == 0 {
        return (0, 0.0);
    }
    if above == axis.len() {
        return (axis.len() - 1, 0.0);
    }
    let (low, high) = (axis[above - 1], axis[above]);
    (above - 1, (x - low) / (high - low))
}

/// What a mix of page sizes is worth.
pub struct Speedup;

impl Experiment for Speedup {
    type Parameters = SpeedupParams;
    type Outcome = Speedups;

    fn run(params: &SpeedupParams, progress: Progress<'_>) -> Result<Speedups> {
        for axis in [&params.shares_2m, &params.shares_1g] {
            ensure!(
                axis.first() == Some(&0.0) && axis.windows(2).all(|w| w[0] < w[1]),
                "the shares of a grid must rise from 0: {axis:?}"
            );
        }
        check_seeds(&params.seeds)?;
        let machine = params.machine.read()?;
        let grid = params.shares_1g.len() * params.shares_2m.len();
        let steps = Steps::new(progress, params.programs.len() * grid);
        // A table with gaps prices nothing: one that was not measured to its end is left out.
        let tables = stop::collect(|tables| {
            for name in &params.programs {
                tables.push(table(params, &machine, name, &steps)?);
            }
            Ok(())
        })?;
        Ok(Speedups {
            machine: params.machine.to_string(),
            seeds: params.seeds.clone(),
            tables,
        })
    }
}

/// What one seed gave.
#[derive(Clone)]
struct SeedSpeed {
    footprint_bytes: u64,
    cycles_per_instruction: f64,
    walk_active_percent: f64,
}

/// A point without its place in the grid, its speed over that of others with the same seeds.
fn point(own: &[SeedSpeed], base: &[SeedSpeed]) -> SpeedPoint {
    let cycles = |seeds: &[SeedSpeed]| mean(seeds, |seed| seed.cycles_per_instruction);
    let pairs = own.iter().zip(base);
    let speeds = pairs.map(|(own, base)| base.cycles_per_instruction / own.cycles_per_instruction);
    let speeds = Spread::of(speeds);
    SpeedPoint {
        share_2m_of_rest: 0.0,
        share_1g: 0.0,
        cycles_per_instruction: cycles(own),
        walk_active_percent: mean(own, |seed| seed.walk_active_percent),
        speedup: cycles(base) / cycles(own),
        speedup_min: speeds.min,
        speedup_max: speeds.max,
    }
}

/// Measures the grid of one program.
fn table(
    params: &SpeedupParams,
    machine: &MachineConfig,
    name: &str,
    steps: &Steps<'_>,
) -> Result<SpeedTable> {
    let mut points: Vec<SpeedPoint> = Vec::new();
    let mut footprint_bytes = 0;
    let mut base: Option<Vec<SeedSpeed>> = None;
    for &share_1g in &params.shares_1g {
        for &share in &params.shares_2m {
            let mix = PageMix {
                share_2m: share * (1.0 - share_1g),
                share_1g,
                code_2m: share >= 0.5,
            };
            let own = all_of(&params.seeds, |&seed| {
                let mut program = program(name, &params.scale, seed)?;
                let run = in_page_mix(machine, program.as_mut(), &mix, &params.length)?;
                Ok(SeedSpeed {
                    footprint_bytes: program.footprint_bytes(),
                    cycles_per_instruction: 1.0 / run.report.ipc,
                    walk_active_percent: run.report.walk_percent(),
                })
            })?;
            steps.step();
            footprint_bytes = own[0].footprint_bytes;
            let base = base.get_or_insert_with(|| own.clone());
            points.push(SpeedPoint {
                share_2m_of_rest: share,
                share_1g,
                ..point(&own, base)
            });
        }
    }
    Ok(SpeedTable {
        program: name.to_owned(),
        footprint_bytes,
        shares_2m: params.shares_2m.clone(),
        shares_1g: params.shares_1g.clone(),
        points,
    })
}

impl Outcome for Speedups {
    const SCHEMA: &'static str = "ample.sim.speedup/2";

    fn figures(&self) -> Vec<Figure> {
        let title = "Speed gained over 4 KB pages by the share of memory in 2 MB pages";
        let of = |table: &SpeedTable| {
            let points = table.points.iter().filter(|p| p.share_1g == 0.0);
            line(
                &table.program,
                points.map(|p| (p.share_2m_of_rest, p.speedup - 1.0)),
            )
        };
        let series = self.tables.iter().map(of).collect();
        let chart = lines(
            title,
            [
                ("memory in 2 MB pages", Unit::Percent),
                ("speed gained", Unit::Percent),
            ],
            series,
        );
        vec![Figure::new("speedup", title, chart.to_svg())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_table_interpolates_and_is_monotone() {
        for table in shipped().tables {
            let of = |share_2m, share_1g| {
                table
                    .speedup(&PageMix {
                        share_2m,
                        share_1g,
                        code_2m: false,
                    })
                    .unwrap()
            };
            assert!((of(0.0, 0.0) - 1.0).abs() < 1e-12);
            assert!(
                of(0.5, 0.0) > 1.0 && of(1.0, 0.0) > of(0.5, 0.0),
                "{}",
                table.program
            );
            let between = of(0.6, 0.0);
            assert!(of(0.5, 0.0) <= between && between <= of(0.75, 0.0));
            assert!(
                table
                    .speedup(&PageMix {
                        share_2m: 0.9,
                        share_1g: 0.2,
                        code_2m: false
                    })
                    .is_err()
            );
        }
    }

    #[test]
    fn a_point_has_the_interval_of_its_seeds() {
        let seed = |cycles_per_instruction: f64| SeedSpeed {
            footprint_bytes: 1,
            cycles_per_instruction,
            walk_active_percent: 0.0,
        };
        let base = [seed(2.0), seed(3.0)];
        let found = point(&[seed(1.0), seed(2.0)], &base);
        assert_eq!((found.speedup_min, found.speedup_max), (1.5, 2.0));
        assert_eq!(
            (found.cycles_per_instruction, found.speedup),
            (1.5, 2.5 / 1.5)
        );
    }
}
