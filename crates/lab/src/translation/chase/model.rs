// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated side of a curve.

use super::frames;
use super::measure::{ChaseParams, LatencyCurve};
use crate::setup::{HostPages, Length, Measured, PageMix, engine, map_mix, measure};
use ample_host::{LoadPattern, PageBacking};
use ample_machine::MachineConfig;
use ample_trace::{Program, programs::PointerChase};
use ample_translate::PageSize;
use anyhow::Result;

/// Instructions of the measured loop beside its load.
const LOOP_INSTRUCTIONS: u16 = 7;

/// Guest pages of a backing.
pub(super) fn page_size(backing: PageBacking) -> PageSize {
    match backing {
        PageBacking::Small | PageBacking::Split => PageSize::K4,
        PageBacking::Thp => PageSize::M2,
        PageBacking::Huge1G => PageSize::G1,
    }
}

/// Simulates one point of a curve; `host`: pages of the host, None on bare metal.
pub(super) fn point(
    params: &ChaseParams,
    machine: &MachineConfig,
    host: Option<&HostPages>,
    curve: &LatencyCurve,
    footprint_bytes: u64,
) -> Result<Measured> {
    let (gap, seed) = (LOOP_INSTRUCTIONS, params.seed);
    let (mut program, loaded) = match curve.pattern {
        LoadPattern::Lines => (
            PointerChase::uniform(footprint_bytes, 64, gap, seed),
            footprint_bytes / 64,
        ),
        LoadPattern::Pages => (
            PointerChase::pages(footprint_bytes, gap, seed),
            footprint_bytes / 4096,
        ),
    };
    let size = page_size(curve.backing);
    let machine = &MachineConfig {
        memory_bytes: (2 * footprint_bytes).next_multiple_of(1 << 30) + (1 << 30),
        ..machine.clone()
    };
    let mut engine = match host {
        Some(host) => {
            let memory = (footprint_bytes, size);
            frames::guest(machine, memory, curve.scatter.as_ref(), host, seed)?
        }
        None => engine(machine, "paging")?,
    };
    map_mix(&mut engine, program.regions(), &PageMix::only(size))?;
    let cached = machine.memory.llc.bytes / 64;
    let length = Length {
        // Until the caches hold what they will hold: of uniform loads, six for each line leave
        // one line in 400 untouched.
        warm_up_accesses: (6 * loaded).min(3 * cached).max(1),
        accesses: params.model_accesses,
    };
    measure(machine, engine, &mut program, &length)
}

/// Time of a load that was simulated so, ns, without the loop around it.
pub(super) fn load_ns(params: &ChaseParams, machine: &MachineConfig, run: &Measured) -> f64 {
    run.report.cycles / params.model_accesses as f64 / machine.core.ghz
}

/// Simulates every point of a curve; `loop_ns` is the time of the loop beside its load.
pub(super) fn fill(
    params: &ChaseParams,
    machine: &MachineConfig,
    loop_ns: f64,
    host: Option<&HostPages>,
    curve: &mut LatencyCurve,
) -> Result<()> {
    for at in 0..curve.points.len() {
        let run = point(
            params,
            machine,
            host,
            curve,
            curve.points[at].footprint_bytes,
        )?;
        if run.partial {
            break;
        }
        let model = load_ns(params, machine, &run) + loop_ns;
        let point = &mut curve.points[at];
        point.model_ns = Some(model);
        point.error_percent = Some(100.0 * (model / point.measured_ns - 1.0));
    }
    let errors = || curve.points.iter().filter_map(|p| p.error_percent);
    let count = errors().count().max(1) as f64;
    curve.mean_error_percent = Some(errors().map(f64::abs).sum::<f64>() / count);
    curve.max_error_percent = Some(errors().map(f64::abs).fold(0.0, f64::max));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The guest's memory was a gigabyte more than the footprint, of which page tables and single
    /// frames took too much.
    #[test]
    fn footprints_of_gigabytes_fit_into_their_guest() {
        let mut machine = MachineConfig::preset("sapphire-rapids").unwrap();
        machine.memory.llc.bytes = 4 << 20;
        machine.memory.llc.ways = 16;
        let params = ChaseParams {
            model_accesses: 2_000,
            ..crate::shipped_parameters("chase", false).expect("shipped")
        };
        let host = HostPages {
            huge_1g: true,
            ..HostPages::default()
        };
        for backing in [PageBacking::Small, PageBacking::Thp, PageBacking::Huge1G] {
            let curve = LatencyCurve {
                backing,
                pattern: LoadPattern::Lines,
                scatter: None,
                thp_share: None,
                points: Vec::new(),
                mean_error_percent: None,
                max_error_percent: None,
            };
            for host in [None, Some(&host)] {
                let run = point(&params, &machine, host, &curve, 4 << 30).unwrap();
                assert!(load_ns(&params, &machine, &run) > 50.0, "{backing:?}");
            }
        }
    }
}
