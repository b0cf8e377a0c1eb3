// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calibration of translation, from loads of one line a page: of a few thousand pages the lines lie
//! in the second-level cache, whose latency is known, so that what a load takes beyond it is its
//! walk.
//!
//! Three things are found: the host's page size, which decides whether 2 MB pages of a guest miss
//! at all; how much of the page-walk caches there is (vendors do not say, and guest and host may
//! share them); and the walker's own time for each reference. Loads wait for each other, so that
//! the last is linear in the references that the model counts.

use super::measure::{ChaseParams, LatencyCurve};
use super::model;
use crate::setup::HostPages;
use crate::stop;
use ample_host::LoadPattern;
use ample_machine::MachineConfig;
use ample_translate::PwcKind;
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// What was calibrated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TranslationFit {
    /// The walker's own time for each reference, cycles.
    pub reference_cycles: u32,
    /// Part of the entries of the largest page-walk cache of the preset.
    pub walk_cache_share: f64,
    /// Mean absolute error of the points that it was fitted to, percent.
    pub residual_percent: f64,
}

/// Parts of the page-walk cache that are tried.
const WALK_CACHE_SHARES: [f64; 3] = [1.0, 0.5, 0.25];
/// The longest time of the walker for a reference.
const MOST_REFERENCE_CYCLES: f64 = 40.0;

impl TranslationFit {
    /// Puts the calibrated values into a machine.
    pub(super) fn apply(&self, machine: &mut MachineConfig) {
        machine.mmu.reference_cycles = self.reference_cycles;
        let largest = match &mut machine.mmu.pwc {
            PwcKind::PerLevel(levels) => levels.first_mut(),
            PwcKind::Unified(shape) => Some(shape),
            PwcKind::Absent => None,
        };
        if let Some(shape) = largest {
            let sets = f64::from(shape.entries / shape.ways) * self.walk_cache_share;
            shape.entries = shape.ways * (sets.round() as u32).max(1);
        }
    }
}

/// One point, simulated with a walker that takes no time of its own.
pub(super) struct Simulated {
    pub(super) measured_ns: f64,
    pub(super) model_ns: f64,
    /// Time of a load if each reference of a walk took a cycle more.
    pub(super) cycle_ns: f64,
}

/// The footprints to fit: more pages than the second-level TLB has entries, whose lines take half
/// of the second-level cache at most.
fn footprints<'a>(
    machine: &MachineConfig,
    curve: &'a LatencyCurve,
) -> impl Iterator<Item = (u64, f64)> + 'a {
    let entries = machine.mmu.l2.iter().map(|array| array.geometry.entries);
    let least = u64::from(entries.max().unwrap_or(0)) + 1;
    let most = machine.memory.l2.bytes / 64 / 2;
    let points = curve.points.iter();
    let points = points.map(|p| (p.footprint_bytes, p.measured_ns));
    points.filter(move |(bytes, _)| (least..=most).contains(&(bytes / 4096)))
}

/// The walker's time that brings the points nearest in relative errors, and the error left.
pub(super) fn nearest(points: &[Simulated]) -> (u32, f64) {
    let sums = points.iter().fold((0.0, 0.0), |(above, below), point| {
        let slope = point.cycle_ns / point.measured_ns;
        let short = 1.0 - point.model_ns / point.measured_ns;
        (above + slope * short, below + slope * slope)
    });
    let cycles = match sums.1 > 0.0 {
        true => (sums.0 / sums.1).round().clamp(0.0, MOST_REFERENCE_CYCLES),
        false => 0.0,
    };
    let error = |point: &Simulated| {
        ((point.model_ns + cycles * point.cycle_ns) / point.measured_ns - 1.0).abs()
    };
    let mean = points.iter().map(error).sum::<f64>() / points.len().max(1) as f64;
    (cycles as u32, 100.0 * mean)
}

/// Fits the curves of one line a page under one host; None if none of them has such points.
///
/// # Errors
/// If the model cannot be built.
pub(super) fn fit(
    params: &ChaseParams,
    machine: &MachineConfig,
    loop_ns: f64,
    host: Option<&HostPages>,
    curves: &[LatencyCurve],
) -> Result<Option<TranslationFit>> {
    let mut best: Option<TranslationFit> = None;
    for walk_cache_share in WALK_CACHE_SHARES {
        let mut fit = TranslationFit {
            reference_cycles: 0,
            walk_cache_share,
            residual_percent: 0.0,
        };
        let mut tried = machine.clone();
        fit.apply(&mut tried);
        let mut points = Vec::new();
        let of_pages = |curve: &&LatencyCurve| curve.pattern == LoadPattern::Pages;
        for curve in curves.iter().filter(of_pages) {
            for (bytes, measured_ns) in footprints(machine, curve) {
                let run = model::point(params, &tried, host, curve, bytes)?;
                let references = run.stats.walk_refs() as f64 / params.model_accesses as f64;
                points.push(Simulated {
                    measured_ns,
                    model_ns: model::load_ns(params, &tried, &run) + loop_ns,
                    cycle_ns: references / machine.core.ghz,
                });
            }
        }
        if points.is_empty() || stop::requested() {
            return Ok(best);
        }
        (fit.reference_cycles, fit.residual_percent) = nearest(&points);
        if best.is_none_or(|best| fit.residual_percent < best.residual_percent) {
            best = Some(fit);
        }
    }
    Ok(best)
}
