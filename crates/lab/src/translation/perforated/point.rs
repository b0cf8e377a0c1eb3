// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program on one state of memory: what each seed gave, and their means.

use super::{Baselines, Fragmentation, Speeds, speeds};
use crate::setup::Length;
use crate::translation::runs::{SeedMean, mean};
use ample_machine::MachineConfig;
use ample_trace::{Program, Replay};
use ample_translate::HoleMap;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Speeds at one point: means over seeds. A ratio is taken for each seed, and then the mean.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PerforatedPoint {
    /// Program, as `ample trace` names it.
    pub program: String,
    /// Share of 2 MB regions with holes.
    pub fragmented_share: f64,
    /// Holes in each of them (mean, for real fragmentation).
    pub holes_per_region: f64,
    /// Holes side by side (else spread uniformly).
    pub clustered: bool,
    /// Holes are mapped elsewhere and used (else never allocated).
    pub used: bool,
    /// On a virtual machine whose host is fragmented the same way.
    pub virtualised: bool,
    /// Seeds run.
    pub seeds: usize,
    /// 4 KB pages only, instructions a cycle.
    pub ipc_small: f64,
    /// 2 MB + 4 KB.
    pub ipc_conventional: f64,
    /// Gap-tolerant sequential mapping.
    pub ipc_gtsm: f64,
    /// Perforated pages.
    pub ipc_perforated: f64,
    /// Ideal 2 MB.
    pub ipc_ideal: f64,
    /// 4 KB pages only over ideal.
    pub small_of_ideal: SeedMean,
    /// 2 MB + 4 KB over ideal.
    pub conventional_of_ideal: SeedMean,
    /// Gap-tolerant sequential mapping over ideal.
    pub gtsm_of_ideal: SeedMean,
    /// 2 MB + 4 KB with coalesced TLB entries (CoLT) over ideal; None on a virtual machine, where
    /// neither of these two is defined.
    pub colt_of_ideal: Option<SeedMean>,
    /// The same with a range TLB (RMM).
    pub rmm_of_ideal: Option<SeedMean>,
    /// Perforated over ideal.
    pub of_ideal: SeedMean,
    /// Perforated over conventional.
    pub over_conventional: SeedMean,
    /// Bitmap look-ups in 1000 accesses under perforated pages.
    pub bitmap_lookups_per_kilo_access: f64,
    /// Bitmap loads in 1000 accesses.
    pub bitmap_loads_per_kilo_access: f64,
}

/// What one seed gave.
pub(super) struct PointSample {
    fragmented_share: f64,
    holes_per_region: f64,
    pub(super) speeds: Speeds,
    /// Instructions a cycle of each variant asked for.
    pub(super) variants: Vec<f64>,
}

impl PointSample {
    pub(super) fn new(state: &Fragmentation, speeds: Speeds, variants: Vec<f64>) -> Self {
        let holes = |map: &HoleMap| map.iter().map(|g| f64::from(g.count_ones())).sum::<f64>();
        let holes = state.blocks.iter().map(holes).filter(|&h| h > 0.0);
        let holes: Vec<f64> = holes.collect();
        PointSample {
            fragmented_share: holes.len() as f64 / state.blocks.len().max(1) as f64,
            holes_per_region: holes.iter().sum::<f64>() / holes.len().max(1) as f64,
            speeds,
            variants,
        }
    }
}

/// Mean of what the speeds of each seed give.
pub(super) fn over_seeds(
    samples: &[PointSample],
    value: impl Fn(&PointSample) -> Option<f64>,
) -> Option<SeedMean> {
    let values: Option<Vec<f64>> = samples.iter().map(value).collect();
    SeedMean::of(&values?)
}

impl PerforatedPoint {
    /// The means of one state of memory; where holes lie and whether they are used is the caller's
    /// to say.
    ///
    /// # Errors
    /// If there is no sample.
    pub(super) fn of(name: &str, virtualised: bool, samples: &[PointSample]) -> Result<Self> {
        let of = |speed: &dyn Fn(&Speeds) -> Option<f64>| {
            over_seeds(samples, |s| Some(speed(&s.speeds)? / s.speeds.ideal))
        };
        let ratio = |speed: &dyn Fn(&Speeds) -> f64| {
            of(&|speeds| Some(speed(speeds))).context("a point without a seed")
        };
        let over = over_seeds(samples, |s| {
            Some(s.speeds.perforated / s.speeds.conventional)
        });
        let ipc = |speed: &dyn Fn(&Speeds) -> f64| mean(samples, |s| speed(&s.speeds));
        let per_kilo = |count: &dyn Fn(&Speeds) -> u64| {
            mean(samples, |s| {
                1000.0 * count(&s.speeds) as f64 / s.speeds.counters.accesses as f64
            })
        };
        Ok(PerforatedPoint {
            program: name.to_owned(),
            fragmented_share: mean(samples, |s| s.fragmented_share),
            holes_per_region: mean(samples, |s| s.holes_per_region),
            clustered: false,
            used: true,
            virtualised,
            seeds: samples.len(),
            ipc_small: ipc(&|s| s.small),
            ipc_conventional: ipc(&|s| s.conventional),
            ipc_gtsm: ipc(&|s| s.gtsm),
            ipc_perforated: ipc(&|s| s.perforated),
            ipc_ideal: ipc(&|s| s.ideal),
            small_of_ideal: ratio(&|s| s.small)?,
            conventional_of_ideal: ratio(&|s| s.conventional)?,
            gtsm_of_ideal: ratio(&|s| s.gtsm)?,
            colt_of_ideal: of(&|s| s.colt),
            rmm_of_ideal: of(&|s| s.rmm),
            of_ideal: ratio(&|s| s.perforated)?,
            over_conventional: over.context("a point without a seed")?,
            bitmap_lookups_per_kilo_access: per_kilo(&|s| s.counters.bitmap_lookups),
            bitmap_loads_per_kilo_access: per_kilo(&|s| s.counters.bitmap_loads),
        })
    }
}

/// The point of one program on one state of fragmentation; `baselines` are those of one seed.
///
/// # Errors
/// If a run fails.
pub fn point(
    machine: &MachineConfig,
    length: &Length,
    program: &mut Replay,
    fragmentation: &Fragmentation,
    virtualised: bool,
    baselines: &mut Baselines,
) -> Result<PerforatedPoint> {
    let name = program.name().to_owned();
    let known = (baselines, name.as_str());
    let speeds = speeds(machine, length, program, fragmentation, virtualised, known)?;
    let sample = PointSample::new(fragmentation, speeds, Vec::new());
    Ok(PerforatedPoint {
        used: fragmentation.used,
        ..PerforatedPoint::of(&name, virtualised, &[sample])?
    })
}
