// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program and the kernel's work on its requests, each in pages or in a segment.

use super::super::program;
use super::super::runs::{Mapping, map_as, mean, whole};
use super::{KernelSegmentRow, SegmentParams, named};
use crate::progress::Steps;
use crate::setup::{Measured, engine, stretch};
use crate::stop;
use ample_machine::MachineConfig;
use ample_trace::{Backing, Region};
use ample_translate::{Engine, PageSize, USER_RW, bits};
use anyhow::{Context, Result};
use std::ops::Range;

fn find(regions: &[Region], backing: Backing) -> Result<&Region> {
    let found = regions.iter().find(|r| r.backing == backing);
    found.with_context(|| format!("the program has no {backing:?}, so nothing for the kernel"))
}

/// Maps the direct map onto one run of frames, by pages or by the kernel's segment.
fn map_direct(engine: &mut Engine, direct: &Region, mapping: Mapping) -> Result<()> {
    let whole = PageSize::G1;
    let (space, frames) = engine.space_and_frames();
    let run = frames.alloc_run((direct.bytes + whole.bytes()) >> 12);
    let first = run.context("no run of frames for the direct map")?;
    let pfn = first.next_multiple_of(whole.bytes() >> 12);
    let Some(size) = mapping else {
        space.set_segment(direct.base, direct.bytes, pfn, frames)?;
        engine.sync();
        return Ok(());
    };
    let end = direct.base + direct.bytes;
    let mut va = direct.base;
    while va < end {
        stop::checkpoint();
        let fits = va.is_multiple_of(size.bytes()) && end - va >= size.bytes();
        let size = if fits { size } else { PageSize::M2.min(size) };
        let at = pfn + ((va - direct.base) >> 12);
        space.map(va, size, at, USER_RW & !bits::USER, frames)?;
        va += size.bytes();
    }
    space.pending.clear();
    Ok(())
}

/// Runs the program with a kernel once; walks in `watched` are counted apart.
fn with_kernel(
    machine: &MachineConfig,
    params: &SegmentParams,
    seed: u64,
    user: Mapping,
    kernel: Mapping,
    watched: Backing,
) -> Result<Measured> {
    let mut program = program(&params.kernel.program, &params.scale, seed)?;
    let (own, kernels): (Vec<Region>, Vec<Region>) = program
        .regions()
        .iter()
        .cloned()
        .partition(|r| !matches!(r.backing, Backing::DirectMap | Backing::Vmalloc));
    let mut engine = engine(machine, "segment")?;
    map_direct(&mut engine, find(&kernels, Backing::DirectMap)?, kernel)?;
    let vmalloc = find(&kernels, Backing::Vmalloc)?;
    engine.premap(vmalloc.base, vmalloc.bytes, PageSize::K4)?;
    map_as(&mut engine, &own, user)?;
    engine.mmu.watched = match watched {
        Backing::DirectMap => range(find(&kernels, Backing::DirectMap)?),
        _ => 1 << 63..u64::MAX,
    };
    let work = stretch(params.kernel.work);
    let program = program.as_mut();
    whole(machine, engine, program, &params.length, Some(&work))
}

fn range(region: &Region) -> Range<u64> {
    region.base..region.end()
}

/// What one seed gave.
struct Sample {
    user: f64,
    kernel: f64,
    walks: f64,
    ipc: f64,
}

fn sample(run: &Measured) -> Sample {
    let stats = &run.stats;
    let part = |cycles: u64| cycles as f64 / stats.walk_cycles.max(1) as f64;
    let percent = run.report.walk_percent();
    let kernel = part(stats.walk_cycles_watched);
    Sample {
        user: percent * (1.0 - kernel - part(stats.walk_cycles_fetch)),
        kernel: percent * kernel,
        walks: 1000.0 * stats.walks_watched as f64 / run.report.instructions as f64,
        ipc: run.report.ipc,
    }
}

/// The ways of mapping program and kernel, in the order of the table.
pub(super) const KERNEL_ROWS: [(Mapping, Mapping); 6] = [
    (Some(PageSize::K4), Some(PageSize::K4)),
    (Some(PageSize::K4), Some(PageSize::M2)),
    (Some(PageSize::K4), Some(PageSize::G1)),
    (Some(PageSize::K4), None),
    (None, Some(PageSize::M2)),
    (None, None),
];

pub(super) fn kernel_rows(
    machine: &MachineConfig,
    params: &SegmentParams,
    rows: &mut Vec<KernelSegmentRow>,
    steps: &Steps<'_>,
) -> Result<()> {
    let mut base = None;
    for (user, kernel) in KERNEL_ROWS {
        let mut samples = Vec::new();
        let mut direct_share = None;
        for &seed in &params.seeds {
            let run = with_kernel(machine, params, seed, user, kernel, Backing::Vmalloc)?;
            samples.push(sample(&run));
            if direct_share.is_none() && kernel.is_some() {
                // The same run once more, its walks sorted in another way.
                let again = with_kernel(machine, params, seed, user, kernel, Backing::DirectMap)?;
                let all = run.stats.walks_watched.max(1) as f64;
                direct_share = Some(again.stats.walks_watched as f64 / all);
            }
        }
        steps.step();
        let kernels = || samples.iter().map(|s| s.kernel);
        let ipc = mean(&samples, |s| s.ipc);
        rows.push(KernelSegmentRow {
            user: named(user).into(),
            kernel: named(kernel).into(),
            user_percent: mean(&samples, |s| s.user),
            kernel_percent: mean(&samples, |s| s.kernel),
            kernel_percent_min: kernels().fold(f64::INFINITY, f64::min),
            kernel_percent_max: kernels().fold(0.0, f64::max),
            direct_share,
            kernel_walks_per_kilo_instruction: mean(&samples, |s| s.walks),
            speedup: ipc / *base.get_or_insert(ipc),
        });
    }
    Ok(())
}
