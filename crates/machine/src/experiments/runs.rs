// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs that several experiments make: a program with its memory in a mix of page sizes, and a
//! program recorded once for many runs.

use super::program;
use crate::config::MachineConfig;
use crate::setup::{Length, Measured, PageMix, engine, map_mix, measure, stop_requested};
use ample_trace::programs::Gups;
use ample_trace::{BLOCK, Program, Replay};
use anyhow::Result;

/// Runs a program with its memory in a mix of page sizes; `None` when the run was stopped.
pub(super) fn in_page_mix(
    machine: &MachineConfig,
    program: &mut dyn Program,
    mix: &PageMix,
    length: &Length,
) -> Result<Option<Measured>> {
    let mut engine = engine(machine, "paging")?;
    map_mix(&mut engine, program.regions(), mix)?;
    let run = measure(machine, engine, program, length)?;
    Ok((!stop_requested()).then_some(run))
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
        let mut program: Box<dyn Program> = match name {
            "gups" => Box::new(Gups::new(self.gups_bytes, self.seed)),
            _ => program(name, self.scale, self.seed)?,
        };
        // Each of the two parts of a run may drop the rest of a block.
        let accesses = self.length.warm_up_accesses + self.length.accesses + 2 * BLOCK as u64;
        Ok(Replay::record(program.as_mut(), accesses))
    }
}
