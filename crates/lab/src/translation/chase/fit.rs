// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calibration: what a guest cannot ask for about its last-level cache and memory, from the 2 MB
//! curve where translation costs next to nothing.
//!
//! Uniform loads over `S` bytes hit a cache of `C` with probability min(1, C/S), so that the mean
//! latency is linear in the latencies of the last level and of memory: for each assumed size of
//! the last level they are a least-squares problem of two unknowns.

use super::measure::LatencyPoint;
use ample_machine::MachineConfig;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// What was calibrated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// Time of the loop beside its load, ns: the smallest footprint less a first-level hit.
    pub loop_ns: f64,
    /// Bytes of the last level that this guest finds free.
    pub llc_bytes: u64,
    /// Bytes of it that the processor names.
    pub llc_bytes_named: Option<u64>,
    /// Latency of the last level, ns.
    pub llc_ns: f64,
    /// Latency of memory, ns.
    pub memory_ns: f64,
    /// Mean absolute error of the fit itself, percent.
    pub residual_percent: f64,
}

/// Ways of the modelled last level.
const LLC_WAYS: u32 = 16;

/// Shares of loads that are answered by the first, second and last level and by memory.
fn shares(bytes: u64, capacities: [u64; 3]) -> [f64; 4] {
    let within = |capacity: u64| (capacity as f64 / bytes as f64).min(1.0);
    let [l1, l2, llc] = capacities.map(within);
    [
        l1,
        (l2 - l1).max(0.0),
        (llc - l2.max(l1)).max(0.0),
        1.0 - llc.max(l2),
    ]
}

/// Time of the loop beside its load, ns: the smallest footprint less a hit of the first level.
pub(super) fn loop_ns(points: &[LatencyPoint], machine: &MachineConfig) -> f64 {
    let l1_ns = f64::from(machine.memory.l1d.latency_cycles) / machine.core.ghz;
    let first = points.first();
    first.map_or(0.0, |p| (p.measured_ns - l1_ns).max(0.0))
}

/// Fits the points up to `below_bytes`; `named` are the last level's bytes by CPUID.
///
/// # Errors
/// If too few points reach memory.
pub(super) fn fit(
    points: &[LatencyPoint],
    below_bytes: u64,
    machine: &MachineConfig,
    named: Option<u64>,
) -> Result<Fit> {
    let cycle_ns = 1.0 / machine.core.ghz;
    let known = |cycles: u32| f64::from(cycles) * cycle_ns;
    let (l1_ns, l2_ns) = (
        known(machine.memory.l1d.latency_cycles),
        known(machine.memory.l2.latency_cycles),
    );
    let loop_ns = loop_ns(points, machine);
    let used: Vec<&LatencyPoint> = points
        .iter()
        .filter(|p| p.footprint_bytes <= below_bytes)
        .collect();
    ensure!(
        used.len() >= 4,
        "the calibration needs four footprints below {below_bytes} bytes"
    );
    let whole = named.unwrap_or(machine.memory.llc.bytes);
    // A shared cache gives a guest anything from all of it to a small part.
    let candidates =
        (0..=12).map(|eighth| (whole as f64 / 2f64.powf(f64::from(eighth) / 2.0)) as u64);
    let unit = u64::from(LLC_WAYS) * 64 * 1024;
    let mut best: Option<Fit> = None;
    for llc_bytes in candidates
        .map(|bytes| bytes / unit * unit)
        .filter(|&b| b > machine.memory.l2.bytes)
    {
        let capacities = [machine.memory.l1d.bytes, machine.memory.l2.bytes, llc_bytes];
        let rows = used.iter().map(|p| {
            let [a, b, c, d] = shares(p.footprint_bytes, capacities);
            let rest = p.measured_ns - loop_ns - a * l1_ns - b * l2_ns;
            // Relative errors: every footprint counts the same.
            [c / p.measured_ns, d / p.measured_ns, rest / p.measured_ns]
        });
        let rows: Vec<[f64; 3]> = rows.collect();
        let Some((llc_ns, memory_ns)) = least_squares(&rows) else {
            continue;
        };
        let error = |row: &[f64; 3]| (row[0] * llc_ns + row[1] * memory_ns - row[2]).abs();
        let residual = rows.iter().map(error).sum::<f64>() / rows.len() as f64;
        if llc_ns < l2_ns || memory_ns < llc_ns {
            continue;
        }
        if best.is_none_or(|best| 100.0 * residual < best.residual_percent) {
            best = Some(Fit {
                loop_ns,
                llc_bytes,
                llc_bytes_named: named,
                llc_ns,
                memory_ns,
                residual_percent: 100.0 * residual,
            });
        }
    }
    best.context(
        "the 2 MB curve fits no hierarchy of three caches and memory; \
         measure again on a quieter machine",
    )
}

/// The `x, y` that make `row[0]·x + row[1]·y` come closest to `row[2]`.
fn least_squares(rows: &[[f64; 3]]) -> Option<(f64, f64)> {
    let sum = |f: fn(&[f64; 3]) -> f64| rows.iter().map(f).sum::<f64>();
    let (aa, ab, bb) = (
        sum(|r| r[0] * r[0]),
        sum(|r| r[0] * r[1]),
        sum(|r| r[1] * r[1]),
    );
    let (ac, bc) = (sum(|r| r[0] * r[2]), sum(|r| r[1] * r[2]));
    let determinant = aa * bb - ab * ab;
    (determinant.abs() > 1e-18).then(|| {
        (
            (ac * bb - bc * ab) / determinant,
            (bc * aa - ac * ab) / determinant,
        )
    })
}

impl Fit {
    /// Mean latency of uniform loads over `bytes` bytes if translation cost nothing, ns.
    pub(super) fn formula_ns(&self, bytes: u64, machine: &MachineConfig) -> f64 {
        let memory = &machine.memory;
        let capacities = [memory.l1d.bytes, memory.l2.bytes, self.llc_bytes];
        let known = |cycles: u32| f64::from(cycles) / machine.core.ghz;
        let times = [
            known(memory.l1d.latency_cycles),
            known(memory.l2.latency_cycles),
            self.llc_ns,
            self.memory_ns,
        ];
        let shares = shares(bytes, capacities);
        let load: f64 = shares.iter().zip(times).map(|(s, t)| s * t).sum();
        self.loop_ns + load
    }

    /// Puts the calibrated values into a machine.
    pub(super) fn apply(&self, machine: &mut MachineConfig) {
        let llc = &mut machine.memory.llc;
        llc.bytes = self.llc_bytes;
        llc.ways = LLC_WAYS;
        llc.latency_cycles = (self.llc_ns * machine.core.ghz).round() as u32;
        // Random loads find another row open in their bank.
        let dram = &mut machine.memory.dram;
        let conflict_cycles = dram.trp + dram.trcd + dram.cl + dram.burst / 2;
        let conflict_ns = f64::from(conflict_cycles) * dram.tck_ns;
        dram.controller_ns = (self.memory_ns - self.llc_ns - conflict_ns).max(0.0);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A curve over `doublings` footprints from 16 KB on, of a machine with a last level of
    /// `llc_bytes`, 40 ns away, memory 130 ns away and 1 ns of loop.
    pub(in super::super) fn curve_of(
        machine: &MachineConfig,
        llc_bytes: u64,
        doublings: u64,
    ) -> Vec<LatencyPoint> {
        let memory = &machine.memory;
        let capacities = [memory.l1d.bytes, memory.l2.bytes, llc_bytes];
        let known = |cycles: u32| f64::from(cycles) / machine.core.ghz;
        let times = [
            known(memory.l1d.latency_cycles),
            known(memory.l2.latency_cycles),
            40.0,
            130.0,
        ];
        let point = |doubling: u64| {
            let footprint_bytes = (16 << 10) << doubling;
            let shares = shares(footprint_bytes, capacities);
            let load: f64 = shares.iter().zip(times).map(|(s, t)| s * t).sum();
            LatencyPoint {
                footprint_bytes,
                measured_ns: load + 1.0,
                measured_median_ns: load + 1.5,
                measured_max_ns: load + 2.0,
                model_ns: None,
                error_percent: None,
            }
        };
        (0..doublings).map(point).collect()
    }

    #[test]
    fn a_curve_of_known_latencies_gives_them_back() {
        let mut machine = MachineConfig::preset("sapphire-rapids").unwrap();
        machine.core.ghz = 2.0;
        let llc = 128 << 20;
        let points = curve_of(&machine, llc, 18);
        let fit = fit(&points, 1 << 30, &machine, Some(256 << 20)).unwrap();
        assert_eq!(fit.llc_bytes, llc);
        assert!((fit.llc_ns - 40.0).abs() < 0.01, "{fit:?}");
        assert!((fit.memory_ns - 130.0).abs() < 0.01, "{fit:?}");
        assert!((fit.loop_ns - 1.0).abs() < 1e-9);
        fit.apply(&mut machine);
        assert_eq!(machine.memory.llc.latency_cycles, 80);
    }
}
