// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where curves turn, measured and simulated: the footprints at which a curve leaves one level of
//! the hierarchy for the next, and at which 4 KB pages begin to cost more than 2 MB pages.

use super::fit::Fit;
use super::measure::{LatencyCurve, LatencyPoint};
use ample_host::{LoadPattern, PageBacking};
use ample_machine::MachineConfig;
use serde::{Deserialize, Serialize};

/// One turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Which curve and what happens there.
    pub what: String,
    /// Measured, bytes; None: the curve never gets there.
    pub measured_bytes: Option<f64>,
    /// Simulated, bytes.
    pub model_bytes: Option<f64>,
    /// Distance in doublings of the footprint, if both get there.
    pub steps: Option<f64>,
}

/// Footprint at which a rising curve crosses a value, interpolated in the logarithms of both;
/// the crossing after which it stays above.
fn crossing(points: &[(u64, f64)], value: f64) -> Option<f64> {
    let below = points.iter().rposition(|&(_, y)| y < value)?;
    let (&(x0, y0), &(x1, y1)) = (&points[below], points.get(below + 1)?);
    let share = (value / y0).ln() / (y1 / y0).ln();
    Some(x0 as f64 * (x1 as f64 / x0 as f64).powf(share))
}

fn turn(what: String, measured: &[(u64, f64)], model: &[(u64, f64)], value: f64) -> Turn {
    let (measured_bytes, model_bytes) = (crossing(measured, value), crossing(model, value));
    let steps = measured_bytes
        .zip(model_bytes)
        .map(|(here, there)| (there / here).log2());
    Turn {
        what,
        measured_bytes,
        model_bytes,
        steps,
    }
}

fn measured(points: &[LatencyPoint]) -> Vec<(u64, f64)> {
    points
        .iter()
        .map(|p| (p.footprint_bytes, p.measured_ns))
        .collect()
}

fn model(points: &[LatencyPoint]) -> Vec<(u64, f64)> {
    let simulated = |p: &LatencyPoint| p.model_ns.map(|ns| (p.footprint_bytes, ns));
    points.iter().filter_map(simulated).collect()
}

/// Ratio of two curves, footprint by footprint.
fn ratio(over: &[(u64, f64)], under: &[(u64, f64)]) -> Vec<(u64, f64)> {
    over.iter()
        .zip(under)
        .map(|(a, b)| (a.0, a.1 / b.1))
        .collect()
}

/// How much dearer than 2 MB pages 4 KB pages must be for translation to count.
const DEARER: [f64; 2] = [1.1, 1.25];

/// All turns of all curves.
pub(super) fn all(curves: &[LatencyCurve], machine: &MachineConfig, fit: &Fit) -> Vec<Turn> {
    let l2_ns = f64::from(machine.memory.l2.latency_cycles) / machine.core.ghz;
    let middle = |a: f64, b: f64| fit.loop_ns + (a * b).sqrt();
    let levels = [
        ("leaves the second level", middle(l2_ns, fit.llc_ns)),
        ("leaves the last level", middle(fit.llc_ns, fit.memory_ns)),
    ];
    let mut turns = Vec::new();
    for curve in curves.iter().filter(|c| c.pattern == LoadPattern::Lines) {
        for (what, value) in levels {
            let what = format!("{}: {what}", curve.backing.name());
            turns.push(turn(
                what,
                &measured(&curve.points),
                &model(&curve.points),
                value,
            ));
        }
    }
    if let Some((small, large)) = small_and_large(curves) {
        let here = ratio(&measured(&small.points), &measured(&large.points));
        let there = ratio(&model(&small.points), &model(&large.points));
        for dearer in DEARER {
            let what = format!("4 KB pages cost {dearer} times 2 MB pages");
            turns.push(turn(what, &here, &there, dearer));
        }
    }
    turns
}

/// The curves of 4 KB and 2 MB pages over all lines.
fn small_and_large(curves: &[LatencyCurve]) -> Option<(&LatencyCurve, &LatencyCurve)> {
    let of = |backing| {
        let mut lines = curves.iter().filter(|c| c.pattern == LoadPattern::Lines);
        lines.find(|c| c.backing == backing)
    };
    Some((of(PageBacking::Small)?, of(PageBacking::Thp)?))
}

/// What 4 KB pages cost beyond 2 MB pages at one footprint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dearer {
    pub footprint_bytes: u64,
    /// 4 KB less 2 MB pages, ns a load.
    pub measured_ns: f64,
    /// The same of the model.
    pub model_ns: f64,
    /// The model's over the measured difference, minus one, percent; None where 4 KB pages cost
    /// less than a tenth more: there the difference is that of two noises.
    pub error_percent: Option<f64>,
}

/// That difference at all footprints of both curves.
pub(super) fn dearer(curves: &[LatencyCurve]) -> Vec<Dearer> {
    let Some((small, large)) = small_and_large(curves) else {
        return Vec::new();
    };
    let both = small.points.iter().zip(&large.points);
    let at = |(small, large): (&LatencyPoint, &LatencyPoint)| {
        let measured_ns = small.measured_ns - large.measured_ns;
        let model_ns = small.model_ns? - large.model_ns?;
        Some(Dearer {
            footprint_bytes: small.footprint_bytes,
            measured_ns,
            model_ns,
            error_percent: (small.measured_ns >= DEARER[0] * large.measured_ns)
                .then(|| 100.0 * (model_ns / measured_ns - 1.0)),
        })
    };
    both.filter_map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crossing_lies_between_its_neighbours() {
        let points = [(1 << 20, 10.0), (2 << 20, 20.0), (4 << 20, 80.0)];
        let at = crossing(&points, 40.0).unwrap();
        assert!((at - (2 << 20) as f64 * 2f64.sqrt()).abs() < 1.0);
        assert_eq!(crossing(&points, 5.0), None);
        assert_eq!(crossing(&points, 100.0), None);
    }
}
