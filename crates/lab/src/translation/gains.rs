// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much the gain of figure 10 hangs on each number of the workload that was fitted on stock
//! Linux: the servers again with one of them smaller, and again with it greater.

use super::changes::{FittedRow, rows_of};
use super::runs::check_seeds;
use super::speedup::{page_mix, shipped};
use crate::charts::tornado;
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::server_model::{FACTOR, FITTED, check_memory, side_by_side};
use ample_mm::{Config, PolicyKind, Workload, run_after};
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// Servers, workload and seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GainSensitivityParams {
    /// Workload with a program in the shipped speed table.
    pub workload: String,
    /// Workload that fragments a server fully.
    pub fragmenter: String,
    /// Simulated seconds of the fragmenter.
    pub fragmenter_s: f64,
    /// Simulated seconds of the workload.
    pub duration_s: f64,
    /// Memory of each server, bytes.
    pub memory_bytes: u64,
    /// Seeds of the servers.
    pub seeds: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GainSensitivity {
    /// The parameters as declared.
    pub parameters: GainSensitivityParams,
    /// Fragmentation by number.
    pub rows: Vec<FittedRow>,
}

/// The gain of figure 10 with each fitted number changed.
pub struct FittedGains;

/// The gains, and whether the fragmenter runs before.
const QUANTITIES: [(&str, bool); 2] = [
    ("gain over full fragmentation", true),
    ("gain over partial fragmentation", false),
];
const COMPARED: [PolicyKind; 2] = [PolicyKind::Linux, PolicyKind::Contiguitas];

/// One server.
struct Job {
    workload: Workload,
    full: bool,
    seed: u64,
    policy: PolicyKind,
}

/// The number `change` of all changes of a workload: 0 is none, then two a number.
fn changed(change: usize, fitted: &Workload) -> Workload {
    let mut workload = fitted.clone();
    if change > 0 {
        let factor = [1.0 / FACTOR, FACTOR][(change - 1) % 2];
        FITTED[(change - 1) / 2].1(&mut workload, factor);
    }
    workload
}

impl Experiment for FittedGains {
    type Parameters = GainSensitivityParams;
    type Outcome = GainSensitivity;

    fn run(params: &GainSensitivityParams, progress: Progress<'_>) -> Result<GainSensitivity> {
        check_seeds(&params.seeds)?;
        check_memory(params.memory_bytes)?;
        for (name, seconds) in [
            ("duration_s", params.duration_s),
            ("fragmenter_s", params.fragmenter_s),
        ] {
            ensure!(
                seconds >= 1.0,
                "{name} is {seconds}, but must be at least 1"
            );
        }
        let table = shipped();
        let table = table.of_workload(&params.workload)?;
        let (fitted, fragmenter) = (
            Workload::load(&params.workload)?,
            Workload::load(&params.fragmenter)?,
        );
        let mut jobs = Vec::new();
        for (_, full) in QUANTITIES {
            for change in 0..=2 * FITTED.len() {
                for &seed in &params.seeds {
                    jobs.extend(COMPARED.map(|policy| Job {
                        workload: changed(change, &fitted),
                        full,
                        seed,
                        policy,
                    }));
                }
            }
        }
        let run = |job: &Job, told: &dyn Fn(f64)| {
            let before = job.full.then_some((&fragmenter, params.fragmenter_s));
            let config = Config {
                memory_bytes: params.memory_bytes,
                seed: job.seed,
                ..Config::new(job.policy)
            };
            let run = run_after(&config, before, &job.workload, params.duration_s, told)?;
            let speed = table.speedup(&page_mix(&run))?;
            told(1.0);
            Ok(speed)
        };
        let done: Option<Vec<f64>> = side_by_side(&jobs, progress, run)?.into_iter().collect();
        Ok(GainSensitivity {
            parameters: params.clone(),
            rows: done.map_or_else(Vec::new, |speeds| rows(params, &speeds)),
        })
    }
}

/// Rows of the speeds: by fragmentation, change, seed and policy.
fn rows(params: &GainSensitivityParams, speeds: &[f64]) -> Vec<FittedRow> {
    let seeds = params.seeds.len();
    let gain = |pair: &[f64]| pair[1] / pair[0] - 1.0;
    let gains: Vec<f64> = speeds.chunks_exact(COMPARED.len()).map(gain).collect();
    let by_fragmentation = gains.chunks_exact(seeds * (1 + 2 * FITTED.len()));
    let mut rows = Vec::new();
    for ((quantity, _), own) in QUANTITIES.into_iter().zip(by_fragmentation) {
        let names = FITTED.iter().map(|(name, _)| *name);
        rows.extend(rows_of(quantity, names, own, seeds));
    }
    rows
}

impl Outcome for GainSensitivity {
    const SCHEMA: &'static str = "ample.gain-sensitivity/1";

    fn figures(&self) -> Vec<Figure> {
        let mut figures = Vec::new();
        for (quantity, _) in QUANTITIES {
            let own = self.rows.iter().filter(|row| row.quantity == quantity);
            let bars = own.map(|row| (&row.fitted[..], row.value, row.less, row.more));
            let title = format!(
                "{}: {quantity}, by what was fitted",
                self.parameters.workload
            );
            figures.extend(tornado(&quantity.replace(' ', "-"), &title, bars));
        }
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_are_against_the_same_seed() {
        let mut params: GainSensitivityParams =
            crate::shipped_parameters("gain-sensitivity", true).expect("shipped");
        params.seeds = vec![1, 2];
        // Stock Linux is 1 everywhere; each change adds a quarter of its number to Contiguitas.
        let of_seed = |base: f64, change: usize| [1.0, base + change as f64 / 4.0];
        let of_change = |change: usize| [of_seed(1.25, change), of_seed(1.5, change)].concat();
        let once: Vec<f64> = (0..=2 * FITTED.len()).flat_map(of_change).collect();
        let rows = rows(&params, &[once.clone(), once].concat());
        assert_eq!(rows.len(), 2 * FITTED.len());
        let second = &rows[FITTED.len() + 1];
        assert_eq!(second.quantity, "gain over partial fragmentation");
        assert_eq!((second.value.min, second.value.max), (0.25, 0.5));
        assert_eq!((second.less.min, second.less.max), (0.75, 0.75));
        assert_eq!((second.more.min, second.more.max), (1.0, 1.0));
    }
}
