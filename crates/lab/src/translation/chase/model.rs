// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated side of a curve.

use super::fit::Fit;
use super::measure::{ChaseParams, LatencyCurve};
use crate::setup::{
    HostPages, Length, PageMix, back_with_host, engine, guest_engine, map_mix, measure,
};
use ample_host::PageBacking;
use ample_machine::MachineConfig;
use ample_trace::programs::PointerChase;
use ample_translate::PageSize;
use anyhow::Result;

/// Instructions of the measured loop beside its load.
const LOOP_INSTRUCTIONS: u16 = 7;

/// Guest pages of a backing.
fn page_size(backing: PageBacking) -> PageSize {
    match backing {
        PageBacking::Small => PageSize::K4,
        PageBacking::Thp => PageSize::M2,
        PageBacking::Huge1G => PageSize::G1,
    }
}

/// Simulates every point of a curve; `host`: pages of the host, None on bare metal.
pub(super) fn fill(
    params: &ChaseParams,
    machine: &MachineConfig,
    fit: &Fit,
    host: Option<HostPages>,
    curve: &mut LatencyCurve,
) -> Result<()> {
    for point in &mut curve.points {
        let mut program =
            PointerChase::uniform(point.footprint_bytes, 64, LOOP_INSTRUCTIONS, params.seed);
        let machine = &MachineConfig {
            memory_bytes: point.footprint_bytes.next_multiple_of(1 << 30) + (1 << 30),
            ..machine.clone()
        };
        let mut engine = match host {
            Some(_) => guest_engine(machine, "paging")?,
            None => engine(machine, "paging")?,
        };
        let mix = PageMix::only(page_size(curve.backing));
        map_mix(&mut engine, ample_trace::Program::regions(&program), &mix)?;
        if let Some(pages) = &host {
            back_with_host(&mut engine, machine, pages)?;
        }
        let lines = point.footprint_bytes / 64;
        let cached = machine.memory.llc.bytes / 64;
        let length = Length {
            // Until the caches hold what they will hold: of uniform loads, six for each line leave
            // one line in 400 untouched.
            warm_up_accesses: (6 * lines).min(3 * cached).max(1),
            accesses: params.model_accesses,
        };
        let run = measure(machine, engine, &mut program, &length)?;
        if run.partial {
            break;
        }
        let cycles = run.report.cycles / params.model_accesses as f64;
        let model = cycles / machine.core.ghz + fit.loop_ns;
        point.model_ns = Some(model);
        point.error_percent = Some(100.0 * (model / point.measured_ns - 1.0));
    }
    let errors = || curve.points.iter().filter_map(|p| p.error_percent);
    let count = errors().count().max(1) as f64;
    curve.mean_error_percent = Some(errors().map(f64::abs).sum::<f64>() / count);
    curve.max_error_percent = Some(errors().map(f64::abs).fold(0.0, f64::max));
    Ok(())
}
