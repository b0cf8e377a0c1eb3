// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calibration: each parameter on the one curve that it decides, the ones known before put in.
//!
//! While lines and pages fit into the nearest arrays a load takes the first level and the loop;
//! pages beyond the first-level TLB add the second level's look-up; lines beyond the first-level
//! cache add the way to the second. Pages beyond the second-level TLB, a page from one to the next
//! in 2 MB pages, add a walk of a few near entries: the walker's own time. Where those begin to
//! miss says what the second level replaces. Wider strides need more tables: of 2 MB pages the
//! host's alone, of the same frames in 4 KB pages the guest's, too.

use super::super::translation::{Simulated, nearest};
use super::model;
use super::shapes::{Calibrates, StrideCurve, StrideParams, WalkWay};
use crate::stop;
use ample_machine::MachineConfig;
use ample_translate::{PwcKind, Replacement};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// What was calibrated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StrideFit {
    /// Time of the loop beside its load, ns.
    pub loop_ns: f64,
    /// From a first-level TLB miss to the second level's answer, cycles.
    pub second_level_cycles: u32,
    /// Latency of the second-level cache, cycles.
    pub cache_cycles: u32,
    /// The walker's own time for each reference, cycles.
    pub reference_cycles: u32,
    /// The walker reads the first-level cache; if not, the second level's is its first.
    pub walks_use_l1: bool,
    /// What the second-level TLB replaces.
    pub replacement: Replacement,
    /// Entries of the host's page-walk caches over those of the preset; of a cache for each level
    /// the largest.
    pub host_walk_cache_share: f64,
    /// The same of the guest's.
    pub walk_cache_share: f64,
    /// Mean absolute error of the points that each was calibrated on, percent: the walker, the
    /// host's cache, the second level's reach, the guest's cache.
    pub residuals_percent: [f64; 4],
}

/// The machine as far as it is calibrated, and by what.
#[derive(Clone, Debug)]
pub(super) struct Calibrated {
    pub(super) machine: MachineConfig,
    pub(super) fit: StrideFit,
}

/// The curve that a parameter is calibrated on.
fn curve(curves: &[StrideCurve], what: Calibrates) -> Result<&StrideCurve> {
    let mut all = curves.iter();
    let found = all.find(|curve| curve.shape.calibrates == Some(what));
    found.with_context(|| format!("no curve has calibrates = \"{}\"", what.name()))
}

/// The least of the times of a curve's points between two numbers of nodes.
fn plateau(curve: &StrideCurve, nodes: std::ops::RangeInclusive<u64>) -> Result<f64> {
    let points = curve.points.iter().filter(|p| nodes.contains(&p.nodes));
    let least = points.map(|p| p.measured_ns).fold(f64::INFINITY, f64::min);
    least.is_finite().then_some(least).with_context(|| {
        let (from, to) = nodes.into_inner();
        format!(
            "the curve {} needs a point of {from} to {to} nodes",
            curve.shape.name
        )
    })
}

/// Calibrates what needs no model: the loop, the look-up of the second-level TLB, the latency of
/// the second-level cache.
///
/// # Errors
/// If the curve has no points for one of them.
pub(super) fn levels(machine: &MachineConfig, curves: &[StrideCurve]) -> Result<Calibrated> {
    let mut machine = machine.clone();
    let curve = curve(curves, Calibrates::Levels)?;
    let entries = |arrays: &[ample_translate::TlbArray]| {
        let most = arrays.iter().map(|array| array.geometry.entries).max();
        u64::from(most.unwrap_or(1))
    };
    let (first, second) = (entries(&machine.mmu.l1d), entries(&machine.mmu.l2));
    let lines = machine.memory.l1d.bytes / 64;
    let near = plateau(curve, 1..=first)?;
    let looked_up = plateau(curve, first * 4 / 3..=lines * 3 / 4)?;
    let further = plateau(curve, lines * 3 / 2..=second * 2 / 3)?;
    let cycles = |ns: f64| (ns * machine.core.ghz).round().max(0.0) as u32;
    let first_latency = machine.memory.l1d.latency_cycles;
    let fit = StrideFit {
        loop_ns: (near - f64::from(first_latency) / machine.core.ghz).max(0.0),
        second_level_cycles: cycles(looked_up - near),
        cache_cycles: first_latency + cycles(further - looked_up),
        reference_cycles: 0,
        walks_use_l1: machine.memory.walks_use_l1,
        replacement: Replacement::Lru,
        host_walk_cache_share: 1.0,
        walk_cache_share: 1.0,
        residuals_percent: [0.0; 4],
    };
    machine.mmu.l2_cycles = fit.second_level_cycles;
    machine.memory.l2.latency_cycles = fit.cache_cycles;
    Ok(Calibrated { machine, fit })
}

/// Page-walk caches with so many times the entries, of a cache for each level the largest.
fn resized(kind: &PwcKind, share: f64) -> PwcKind {
    let mut kind = kind.clone();
    let largest = match &mut kind {
        PwcKind::PerLevel(levels) => levels.first_mut(),
        PwcKind::Unified(shape) => Some(shape),
        PwcKind::Absent => None,
    };
    if let Some(shape) = largest {
        let entries = (f64::from(shape.entries) * share).round().max(1.0) as u32;
        let whole = shape.ways == shape.entries;
        shape.ways = if whole {
            entries
        } else {
            shape.ways.min(entries)
        };
        shape.entries = entries / shape.ways * shape.ways;
    }
    kind
}

/// A machine with what was fitted put in.
fn applied(preset: &MachineConfig, fit: &StrideFit) -> MachineConfig {
    let mut machine = preset.clone();
    machine.memory.walks_use_l1 = fit.walks_use_l1;
    let mmu = &mut machine.mmu;
    mmu.reference_cycles = fit.reference_cycles;
    for array in &mut mmu.l2 {
        array.geometry.replacement = fit.replacement;
    }
    mmu.host_pwc = Some(resized(preset.mmu.host_pwc(), fit.host_walk_cache_share));
    mmu.pwc = resized(&preset.mmu.pwc, fit.walk_cache_share);
    machine
}

/// A calibration under way.
pub(super) struct Calibration<'a> {
    pub(super) params: &'a StrideParams,
    pub(super) curves: &'a [StrideCurve],
    /// The machine with its [`levels`] and caches.
    pub(super) machine: &'a MachineConfig,
    pub(super) walks: &'a WalkWay,
}

impl Calibration<'_> {
    fn simulated(&self, fit: &StrideFit, what: Calibrates) -> Result<Vec<Simulated>> {
        let machine = applied(self.machine, fit);
        let curve = curve(self.curves, what)?;
        let simulate = |point| {
            let load = model::load(self.params, &machine, self.walks, curve, point)?;
            Ok(Simulated {
                measured_ns: point.measured_ns,
                model_ns: load.ns + fit.loop_ns,
                cycle_ns: load.references / machine.core.ghz,
            })
        };
        curve.points.iter().map(simulate).collect()
    }

    /// Mean absolute error of a curve, percent.
    ///
    /// # Errors
    /// If the model cannot be built.
    pub(super) fn error(&self, fit: &StrideFit, what: Calibrates) -> Result<f64> {
        let points = self.simulated(fit, what)?;
        let error = |p: &Simulated| (p.model_ns / p.measured_ns - 1.0).abs();
        let sum: f64 = points.iter().map(error).sum();
        Ok(100.0 * sum / points.len().max(1) as f64)
    }

    /// The walker's own time for a reference.
    ///
    /// # Errors
    /// If the model cannot be built.
    pub(super) fn walker(&self, fit: &mut StrideFit) -> Result<()> {
        fit.reference_cycles = 0;
        let points = self.simulated(fit, Calibrates::Walker)?;
        (fit.reference_cycles, fit.residuals_percent[0]) = nearest(&points);
        Ok(())
    }

    /// The value with the least error on a curve, and that error.
    fn best<T: Copy>(
        &self,
        fit: &mut StrideFit,
        (what, values): (Calibrates, &[T]),
        put: impl Fn(&mut StrideFit, T),
    ) -> Result<f64> {
        let mut best: Option<(f64, StrideFit)> = None;
        for &value in values {
            stop::checkpoint();
            put(fit, value);
            let error = self.error(fit, what)?;
            if best.is_none_or(|(least, _)| error < least) {
                best = Some((error, *fit));
            }
        }
        let (error, chosen) = best.with_context(|| format!("no values for {}", what.name()))?;
        *fit = chosen;
        Ok(error)
    }

    /// All parameters, one after the other.
    ///
    /// # Errors
    /// If the model cannot be built.
    pub(super) fn all(&self, mut fit: StrideFit) -> Result<Calibrated> {
        let shares = &self.params.walk_cache_shares;
        let mut best: Option<StrideFit> = None;
        for walks_use_l1 in [true, false] {
            let mut tried = StrideFit {
                walks_use_l1,
                ..fit
            };
            self.walker(&mut tried)?;
            tried.residuals_percent[1] =
                self.best(&mut tried, (Calibrates::HostCache, shares), |fit, share| {
                    fit.host_walk_cache_share = share
                })?;
            if best.is_none_or(|best| tried.residuals_percent[1] < best.residuals_percent[1]) {
                best = Some(tried);
            }
        }
        fit = best.unwrap_or(fit);
        fit.residuals_percent[2] = self.best(
            &mut fit,
            (Calibrates::Reach, &self.params.replacements),
            |fit, policy| fit.replacement = policy,
        )?;
        fit.residuals_percent[3] =
            self.best(&mut fit, (Calibrates::GuestCache, shares), |fit, share| {
                fit.walk_cache_share = share;
            })?;
        Ok(Calibrated {
            machine: applied(self.machine, &fit),
            fit,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ample_translate::Geometry;

    #[test]
    fn walk_caches_keep_their_shape_at_other_sizes() {
        let entries = |kind: &PwcKind| match kind {
            PwcKind::Unified(shape) => (shape.entries, shape.ways),
            PwcKind::PerLevel(levels) => (levels[0].entries, levels[0].ways),
            PwcKind::Absent => (0, 0),
        };
        let whole = PwcKind::Unified(Geometry::full(64));
        assert_eq!(entries(&resized(&whole, 0.25)), (16, 16));
        assert_eq!(entries(&resized(&whole, 8.0)), (512, 512));
        let sets = PwcKind::PerLevel(vec![Geometry::new(32, 4), Geometry::full(2)]);
        assert_eq!(entries(&resized(&sets, 2.0)), (64, 4));
        assert_eq!(entries(&resized(&sets, 0.01)), (1, 1));
        assert_eq!(resized(&PwcKind::Absent, 2.0), PwcKind::Absent);
    }

    /// The shipped curves that calibrate something, with fewer values to try.
    fn params() -> StrideParams {
        let mut params: StrideParams =
            crate::shipped_parameters("chase-stride", false).expect("shipped");
        params.curves.retain(|shape| shape.calibrates.is_some());
        params.replacements = vec![Replacement::Lru, Replacement::Random];
        params.walk_cache_shares = vec![0.25, 1.0, 4.0];
        params.laps = 2;
        params
    }

    /// Curves as a machine would measure them.
    fn measured(
        params: &StrideParams,
        machine: &MachineConfig,
        walks: &WalkWay,
    ) -> Vec<StrideCurve> {
        let curve = |shape: &super::super::shapes::StrideShape| {
            let mut curve = shape.made_up();
            for at in 0..curve.points.len() {
                let point = curve.points[at];
                let load = model::load(params, machine, walks, &curve, &point).unwrap();
                curve.points[at].measured_ns = load.ns + 0.3;
            }
            curve
        };
        params.curves.iter().map(curve).collect()
    }

    #[test]
    fn calibration_gives_a_made_up_machine_back() {
        let params = params();
        let preset = MachineConfig::preset("zen4").unwrap();
        let fit = StrideFit {
            loop_ns: 0.3,
            second_level_cycles: 9,
            cache_cycles: 17,
            reference_cycles: 6,
            walks_use_l1: false,
            replacement: Replacement::Random,
            host_walk_cache_share: 4.0,
            walk_cache_share: 1.0,
            residuals_percent: [0.0; 4],
        };
        let mut hidden = applied(&preset, &fit);
        hidden.mmu.l2_cycles = 9;
        hidden.memory.l2.latency_cycles = 17;
        let walks = WalkWay::Nested(Default::default());
        let curves = measured(&params, &hidden, &walks);
        let Calibrated {
            machine,
            fit: first,
        } = levels(&preset, &curves).unwrap();
        let calibration = Calibration {
            params: &params,
            curves: &curves,
            machine: &machine,
            walks: &walks,
        };
        let found = calibration.all(first).unwrap().fit;
        assert!((found.loop_ns - 0.3).abs() < 0.01, "{found:?}");
        assert!(
            found.residuals_percent.iter().all(|&error| error < 1.0),
            "{found:?}"
        );
        let loop_ns = fit.loop_ns;
        let residuals_percent = fit.residuals_percent;
        assert_eq!(
            StrideFit {
                loop_ns,
                residuals_percent,
                ..found
            },
            fit
        );
    }

    /// What tells a host that shadows tables from one whose own are walked.
    #[test]
    fn the_same_frames_in_smaller_pages_cost_more_behind_a_host_alone() {
        let params = params();
        let machine = MachineConfig::preset("zen4").unwrap();
        let costs = |walks: WalkWay| {
            let of = |what| {
                let curves = measured(&params, &machine, &walks);
                let curve = curve(&curves, what).unwrap();
                curve.points.iter().map(|p| p.measured_ns).sum::<f64>()
            };
            (of(Calibrates::HostCache), of(Calibrates::GuestCache))
        };
        let (large, small) = costs(WalkWay::Shadow);
        assert!((small / large - 1.0).abs() < 1e-9, "{small} {large}");
        let (large, small) = costs(WalkWay::Nested(Default::default()));
        assert!(small > 1.2 * large, "{small} {large}");
    }
}
