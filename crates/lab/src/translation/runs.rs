// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs that several experiments make: a program with its memory in a mix of page sizes, in pages
//! of one size or a segment, and a program recorded once for many runs.

use super::program;
use crate::server_model::side_by_side;
use crate::setup::{
    Length, Measured, PageMix, Redirect, engine, map_mix, map_segment, measure_redirected,
};
use crate::stop;
use ample_machine::MachineConfig;
use ample_trace::programs::Gups;
use ample_trace::{BLOCK, Program, Region, Replay};
use ample_translate::{Engine, PageSize};
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// A whole run: one that an early end cut short is left at a checkpoint.
pub(super) fn whole(
    machine: &MachineConfig,
    engine: Engine,
    program: &mut dyn Program,
    length: &Length,
    redirect: Option<Redirect<'_>>,
) -> Result<Measured> {
    let run = measure_redirected(machine, engine, program, length, redirect)?;
    stop::checkpoint();
    Ok(run)
}

/// Runs a program with its memory in a mix of page sizes.
pub(super) fn in_page_mix(
    machine: &MachineConfig,
    program: &mut dyn Program,
    mix: &PageMix,
    length: &Length,
) -> Result<Measured> {
    let mut engine = engine(machine, "paging")?;
    map_mix(&mut engine, program.regions(), mix)?;
    whole(machine, engine, program, length, None)
}

/// Share of the cycles of walks that were for instructions.
pub(super) fn fetch_share(run: &Measured) -> f64 {
    run.stats.walk_cycles_fetch as f64 / run.stats.walk_cycles.max(1) as f64
}

/// Percent of cycles with a walk for data: those for instructions are taken out by their time.
pub(super) fn data_percent(run: &Measured) -> f64 {
    run.report.walk_percent() * (1.0 - fetch_share(run))
}

/// How the anonymous memory of a program is mapped: pages of a size; None: a segment.
pub(super) type Mapping = Option<PageSize>;

/// Maps the regions of a program.
pub(super) fn map_as(engine: &mut Engine, regions: &[Region], mapping: Mapping) -> Result<()> {
    match mapping {
        Some(size) => map_mix(engine, regions, &PageMix::only(size)),
        None => map_segment(engine, regions),
    }
}

/// Refuses an experiment over seeds that lists none.
pub(super) fn check_seeds(seeds: &[u64]) -> Result<()> {
    ensure!(!seeds.is_empty(), "seeds lists no seed; give at least one");
    Ok(())
}

/// Runs all of these side by side; an early end is left at a checkpoint.
pub(super) fn all_of<J: Sync, R: Send>(
    jobs: &[J],
    run: impl Fn(&J) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let runs = side_by_side(jobs, &|_| (), |job, _| run(job))?;
    let whole: Option<Vec<R>> = runs.into_iter().collect();
    let Some(whole) = whole else {
        stop::checkpoint();
        unreachable!("runs are left out after an early end only");
    };
    Ok(whole)
}

/// The mean of a value over what the seeds gave.
pub(super) fn mean<T>(samples: &[T], value: impl Fn(&T) -> f64) -> f64 {
    ample_kit::statistics::mean(samples.iter().map(value)).unwrap_or(f64::NAN)
}

/// Mean of a ratio over seeds. Both sides of a ratio run the same program on the same frames.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeedMean {
    /// Arithmetic mean.
    pub mean: f64,
    /// Half the width of its 95 % confidence interval (Student's t); None with one seed.
    pub ci95: Option<f64>,
}

impl SeedMean {
    /// Of one value a seed; None of nothing.
    pub fn of(values: &[f64]) -> Option<Self> {
        let (mean, ci95) = ample_kit::statistics::mean_and_ci(values);
        (!values.is_empty()).then(|| SeedMean {
            mean,
            ci95: ci95.is_finite().then_some(ci95),
        })
    }
}

/// How programs are recorded.
#[derive(Clone, Copy, Debug)]
pub struct Recording<'a> {
    /// Scale of the programs (GUPS: always `gups_bytes`).
    pub scale: &'a str,
    /// Footprint of GUPS, bytes.
    pub gups_bytes: u64,
    /// Length of each run.
    pub length: Length,
    /// Seed of the program.
    pub seed: u64,
}

impl Recording<'_> {
    /// A program, recorded once for all its runs.
    ///
    /// # Errors
    /// If there is no such program or scale.
    pub fn of(&self, name: &str) -> Result<Replay> {
        let program: Box<dyn Program> = match name {
            "gups" => Box::new(Gups::new(self.gups_bytes, self.seed)),
            _ => program(name, self.scale, self.seed)?,
        };
        Ok(record(program, &self.length))
    }
}

/// So much of a program as a run of this length takes.
pub(super) fn record(mut program: Box<dyn Program>, length: &Length) -> Replay {
    // Each of the two parts of a run may drop the rest of a block.
    let accesses = length.warm_up_accesses + length.accesses + 2 * BLOCK as u64;
    stop::detached(move || Replay::record(program.as_mut(), accesses))
}
