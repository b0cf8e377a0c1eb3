// SPDX-License-Identifier: MIT OR Apache-2.0
//! Variants of perforated pages beside the paper's form: other ways for the hardware to ask the
//! hole bitmap, and a system that leaves regions with holes everywhere to 4 KB pages.

use super::{Form, Fragmentation, MappingPolicy, PerforatedPoint, one};
use crate::experiment::Text;
use crate::setup::Length;
use ample_machine::MachineConfig;
use ample_trace::Replay;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Names of the variants and what they are: a mapping policy on a scheme.
const VARIANTS: [(&str, Form); 5] = [
    (
        "bitmap asked in parallel",
        (MappingPolicy::Perforated, "perforated-parallel"),
    ),
    (
        "bitmaps in an array of their own",
        (MappingPolicy::Perforated, "perforated-apart"),
    ),
    (
        "confirmed pages kept",
        (MappingPolicy::Perforated, "perforated-keep"),
    ),
    (
        "perforated where half the filter is clear",
        (MappingPolicy::PerforatedWhereClear, "perforated"),
    ),
    (
        "confirmed pages kept, bitmaps apart",
        (MappingPolicy::Perforated, "perforated-keep-apart"),
    ),
];

/// Speeds of one variant at one point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VariantPoint {
    /// Program, as `ample trace` names it.
    pub program: String,
    /// On a virtual machine.
    pub virtualised: bool,
    /// Share of 2 MB regions with holes.
    pub fragmented_share: f64,
    /// Holes in each of them.
    pub holes_per_region: f64,
    /// Holes side by side (else spread uniformly).
    pub clustered: bool,
    /// Which variant.
    pub variant: Text,
    /// Speed over ideal 2 MB pages.
    pub of_ideal: f64,
    /// Speed over conventional 2 MB + 4 KB.
    pub over_conventional: f64,
    /// Speed over the paper's form.
    pub over_paper_form: f64,
}

/// The variants of the given names.
///
/// # Errors
/// If there is none of a name; the message lists those that exist.
pub(super) fn forms(names: &[String]) -> Result<Vec<(&'static str, Form)>> {
    let known = || VARIANTS.map(|(name, _)| name).join(", ");
    names
        .iter()
        .map(|wanted| {
            let found = VARIANTS.into_iter().find(|(name, _)| name == wanted);
            found.with_context(|| format!("there is no variant '{wanted}'; known: {}", known()))
        })
        .collect()
}

/// Runs the variants where the paper's form made `point`; nothing where holes are not used.
pub(super) fn beside(
    machine: &MachineConfig,
    length: &Length,
    program: &mut Replay,
    state: &Fragmentation,
    point: &PerforatedPoint,
    forms: &[(&'static str, Form)],
) -> Result<Vec<VariantPoint>> {
    let mut beside = Vec::new();
    for &(variant, form) in forms.iter().filter(|_| state.used) {
        let run = one(machine, length, program, state, form, point.virtualised)?;
        let ipc = run.report.ipc;
        beside.push(VariantPoint {
            program: point.program.clone(),
            virtualised: point.virtualised,
            fragmented_share: point.fragmented_share,
            holes_per_region: point.holes_per_region,
            clustered: point.clustered,
            variant: variant.into(),
            of_ideal: ipc / point.ipc_ideal,
            over_conventional: ipc / point.ipc_conventional,
            over_paper_form: ipc / point.ipc_perforated,
        });
    }
    Ok(beside)
}
