// SPDX-License-Identifier: MIT OR Apache-2.0
//! Variants of perforated pages beside the paper's form: other ways for the hardware to ask the
//! hole bitmap, and a system that leaves regions with holes everywhere to 4 KB pages.

use super::point::{PointSample, over_seeds};
use super::{Form, Fragmentation, MappingPolicy, PerforatedPoint, Speeds, one};
use crate::experiment::Text;
use crate::setup::Length;
use crate::translation::SeedMean;
use ample_kit::names::known;
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
    pub of_ideal: SeedMean,
    /// Speed over conventional 2 MB + 4 KB.
    pub over_conventional: SeedMean,
    /// Speed over the paper's form.
    pub over_paper_form: SeedMean,
}

/// The variants of the given names.
///
/// # Errors
/// If there is none of a name; the message lists those that exist.
pub(super) fn forms(names: &[String]) -> Result<Vec<(&'static str, Form)>> {
    names
        .iter()
        .map(|wanted| {
            let found = VARIANTS.into_iter().find(|(name, _)| name == wanted);
            let names = || known(wanted, &VARIANTS.map(|(name, _)| name));
            found.with_context(|| format!("there is no variant '{wanted}'; {}", names()))
        })
        .collect()
}

/// Runs the variants on one state of memory: instructions a cycle of each.
pub(super) fn beside(
    machine: &MachineConfig,
    length: &Length,
    program: &mut Replay,
    state: &Fragmentation,
    virtualised: bool,
    forms: &[(&'static str, Form)],
) -> Result<Vec<f64>> {
    let run = |&(_, form): &(&str, Form)| {
        let run = one(machine, length, program, state, form, virtualised)?;
        Ok(run.report.ipc)
    };
    forms.iter().map(run).collect()
}

/// The variants at one point.
pub(super) fn points(
    point: &PerforatedPoint,
    samples: &[PointSample],
    forms: &[(&'static str, Form)],
) -> Vec<VariantPoint> {
    let variant = |(at, &(variant, _)): (usize, &(&'static str, Form))| {
        let over = |base: &dyn Fn(&Speeds) -> f64| {
            over_seeds(samples, |s| Some(s.variants[at] / base(&s.speeds)))
        };
        Some(VariantPoint {
            program: point.program.clone(),
            virtualised: point.virtualised,
            fragmented_share: point.fragmented_share,
            holes_per_region: point.holes_per_region,
            clustered: point.clustered,
            variant: variant.into(),
            of_ideal: over(&|s| s.ideal)?,
            over_conventional: over(&|s| s.conventional)?,
            over_paper_form: over(&|s| s.perforated)?,
        })
    };
    forms.iter().enumerate().filter_map(variant).collect()
}
