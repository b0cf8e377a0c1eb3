// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much the bars of figure 3 hang on each number of the synthetic services: their shapes were
//! fitted on the bar with 4 KB pages, and here one number at a time is smaller, and greater.

use super::changes::{FACTOR, FittedRow, rows_of, times};
use super::runs::{check_seeds, data_percent, in_page_mix};
use super::scale_of;
use super::walks::NamedMix;
use crate::charts::tornado;
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::machines::MachineChoice;
use crate::server_model::side_by_side;
use crate::setup::{Length, PageMix};
use ample_trace::programs::{CACHE, ServiceProgram, ServiceShape, WEB};
use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};

/// A number of a shape, and how a factor changes it.
type Fitted = (&'static str, fn(&mut ServiceShape, f64));

/// Lines of code that a call has: each goes with as many accesses to local data.
const CALL_LINES: u32 = 8;

/// All numbers of a shape that were fitted.
const FITTED: [Fitted; 8] = [
    ("code", |s, f| s.code_bytes = pages(s.code_bytes, f)),
    ("skew of the code", |s, f| s.code_skew *= f),
    ("hot heap", |s, f| s.hot_bytes = pages(s.hot_bytes, f)),
    ("share of accesses to it", |s, f| {
        s.hot_share = (s.hot_share * f).min(1.0);
    }),
    ("rest of the heap", |s, f| {
        s.cold_bytes = pages(s.cold_bytes, f)
    }),
    ("skew of the rest", |s, f| s.cold_skew *= f),
    ("accesses to local data", |s, f| {
        s.local_accesses = times(s.local_accesses / CALL_LINES, f) * CALL_LINES;
    }),
    ("instructions of a call", |s, f| {
        s.call_instructions = times(s.call_instructions, f);
    }),
];

/// So many bytes times a factor, in whole pages.
fn pages(bytes: u64, factor: f64) -> u64 {
    ((bytes / 4096) as f64 * factor).round() as u64 * 4096
}

/// Machine, services, mixes of pages and the length of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceSensitivityParams {
    /// Machine preset.
    pub machine: MachineChoice,
    /// The services: `web`, `cache`.
    pub services: Vec<String>,
    /// Their scale.
    pub scale: String,
    /// The mixes of the experiment `walks`, by name.
    pub mixes: Vec<NamedMix>,
    /// Length of each run.
    pub length: Length,
    /// Seeds of the services.
    pub seeds: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceSensitivity {
    /// The parameters as declared.
    pub parameters: ServiceSensitivityParams,
    /// Bar by number.
    pub rows: Vec<FittedRow>,
}

/// The bars of figure 3 with each number of the services changed.
pub struct FittedShapes;

/// The number `change` of all changes of a shape: 0 is none, then two a number.
fn changed(change: usize, shape: ServiceShape) -> ServiceShape {
    let mut shape = shape;
    if change > 0 {
        let factor = [1.0 / FACTOR, FACTOR][(change - 1) % 2];
        FITTED[(change - 1) / 2].1(&mut shape, factor);
    }
    shape
}

fn shape_of(params: &ServiceSensitivityParams, name: &str) -> Result<ServiceShape> {
    let scale = scale_of(&params.scale)?;
    match [WEB, CACHE].into_iter().find(|shape| shape.name == name) {
        Some(shape) => Ok(shape.at(scale)),
        None => bail!("services: there is no service '{name}'; known: web, cache"),
    }
}

impl Experiment for FittedShapes {
    type Parameters = ServiceSensitivityParams;
    type Outcome = ServiceSensitivity;

    fn run(
        params: &ServiceSensitivityParams,
        progress: Progress<'_>,
    ) -> Result<ServiceSensitivity> {
        let machine = params.machine.read()?;
        check_seeds(&params.seeds)?;
        ensure!(
            !params.services.is_empty() && !params.mixes.is_empty(),
            "services, mixes: at least one of each is needed"
        );
        let mut jobs: Vec<(ServiceShape, &PageMix, u64)> = Vec::new();
        for name in &params.services {
            let shape = shape_of(params, name)?;
            for named in &params.mixes {
                for change in 0..=2 * FITTED.len() {
                    let seeds = params.seeds.iter();
                    jobs.extend(seeds.map(|&seed| (changed(change, shape), &named.mix, seed)));
                }
            }
        }
        let run = |&(shape, mix, seed): &(ServiceShape, &PageMix, u64), told: &dyn Fn(f64)| {
            let mut program = ServiceProgram::new(shape, seed);
            let run = in_page_mix(&machine, &mut program, mix, &params.length)?;
            told(1.0);
            Ok(data_percent(&run) / 100.0)
        };
        let done: Option<Vec<f64>> = side_by_side(&jobs, progress, run)?.into_iter().collect();
        Ok(ServiceSensitivity {
            parameters: params.clone(),
            rows: done.map_or_else(Vec::new, |done| rows(params, &done)),
        })
    }
}

/// Rows of what the runs gave: by service, mix, change and seed.
fn rows(params: &ServiceSensitivityParams, found: &[f64]) -> Vec<FittedRow> {
    let seeds = params.seeds.len();
    let services = params.services.iter();
    let bars = services.flat_map(|service| params.mixes.iter().map(move |mix| (service, mix)));
    let found = found.chunks_exact(seeds * (1 + 2 * FITTED.len()));
    let mut rows = Vec::new();
    for ((service, mix), own) in bars.zip(found) {
        let quantity = format!("{service}, {}", mix.name);
        let names = FITTED.iter().map(|(name, _)| *name);
        rows.extend(rows_of(&quantity, names, own, seeds));
    }
    rows
}

impl Outcome for ServiceSensitivity {
    const SCHEMA: &'static str = "ample.service-sensitivity/1";

    fn figures(&self) -> Vec<Figure> {
        let mut figures: Vec<Figure> = Vec::new();
        for own in self.rows.chunk_by(|a, b| a.quantity == b.quantity) {
            let quantity = &own[0].quantity;
            let bars = own
                .iter()
                .map(|row| (&row.fitted[..], row.value, row.less, row.more));
            let title = format!("Cycles of data walks, {quantity}, by what was fitted");
            let name = quantity.replace([' ', ','], "-").to_lowercase();
            figures.extend(tornado(&name, &title, bars));
        }
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_of_one_number() {
        for shape in [WEB, CACHE] {
            let all: Vec<_> = (0..=2 * FITTED.len())
                .map(|change| changed(change, shape))
                .collect();
            assert_eq!(all[0], shape);
            for (at, one) in all.iter().enumerate() {
                assert!(!all[..at].contains(one), "change {at} is there twice");
            }
        }
    }

    #[test]
    fn changes_are_against_the_same_seed() {
        let mut params: ServiceSensitivityParams =
            crate::shipped_parameters("service-sensitivity", true).expect("shipped");
        params.services.truncate(1);
        params.mixes.truncate(1);
        params.seeds = vec![1, 2];
        // Every change adds its number to what each seed has.
        let changes = (0..=2 * FITTED.len()).map(|change| change as f64);
        let found: Vec<f64> = changes.flat_map(|by| [10.0 + by, 20.0 + by]).collect();
        let rows = rows(&params, &found);
        assert_eq!(rows.len(), FITTED.len());
        let last = &rows[FITTED.len() - 1];
        assert_eq!((last.value.min, last.value.max), (10.0, 20.0));
        assert_eq!((last.less.min, last.less.max), (15.0, 15.0));
        assert_eq!((last.more.min, last.more.max), (16.0, 16.0));
    }

    /// The bars are those of the experiment `walks`.
    #[test]
    fn mixes_are_those_of_figure_3() {
        let own: ServiceSensitivityParams =
            crate::shipped_parameters("service-sensitivity", false).expect("shipped");
        let walks: crate::translation::walks::WalkParams =
            crate::shipped_parameters("walks", false).expect("shipped");
        assert_eq!((own.mixes, own.services), (walks.mixes, walks.programs));
        assert_eq!((own.machine, own.scale), (walks.machine, walks.scale));
    }
}
