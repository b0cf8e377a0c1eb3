// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program and the kernel's work on its requests, each in pages or in a segment.

use super::super::program;
use super::super::runs::{Mapping, map_as, whole};
use super::{KernelSegmentRow, SegmentParams, named};
use crate::progress::Steps;
use crate::setup::{Length, Measured, engine, stretch};
use crate::stop;
use ample_kit::statistics::Spread;
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

/// The program with a kernel, and how it runs.
#[derive(Clone, Copy)]
pub(in crate::translation) struct KernelRun<'a> {
    pub(in crate::translation) program: &'a str,
    /// Factor on the instructions between accesses.
    pub(in crate::translation) work: f64,
    pub(in crate::translation) scale: &'a str,
    pub(in crate::translation) length: &'a Length,
}

impl KernelRun<'_> {
    fn of(params: &SegmentParams) -> KernelRun<'_> {
        KernelRun {
            program: &params.kernel.program,
            work: params.kernel.work,
            scale: &params.scale,
            length: &params.length,
        }
    }
}

/// Cycles in walks of the kernel ÷ cycles, with its direct map in pages of 1 GB under a program in
/// pages of 4 KB.
pub(in crate::translation) fn kernel_share(
    machine: &MachineConfig,
    run: KernelRun<'_>,
    seed: u64,
) -> Result<f64> {
    let (user, kernel) = (Some(PageSize::K4), Some(PageSize::G1));
    let run = with_kernel(machine, run, seed, user, kernel, Backing::Vmalloc)?;
    Ok(figures(&run, None).kernel / 100.0)
}

/// Runs the program with a kernel once; walks in `watched` are counted apart.
fn with_kernel(
    machine: &MachineConfig,
    run: KernelRun<'_>,
    seed: u64,
    user: Mapping,
    kernel: Mapping,
    watched: Backing,
) -> Result<Measured> {
    let mut program = program(run.program, run.scale, seed)?;
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
    let work = stretch(run.work);
    let program = program.as_mut();
    whole(machine, engine, program, run.length, Some(&work))
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
    /// Share of the kernel's walks that lie in the direct map.
    direct_share: Option<f64>,
}

fn sample(
    machine: &MachineConfig,
    run: KernelRun<'_>,
    seed: u64,
    (user, kernel): (Mapping, Mapping),
) -> Result<Sample> {
    let once = with_kernel(machine, run, seed, user, kernel, Backing::Vmalloc)?;
    if kernel.is_none() {
        return Ok(figures(&once, None));
    }
    // The same run once more, its walks sorted in another way.
    let again = with_kernel(machine, run, seed, user, kernel, Backing::DirectMap)?;
    Ok(figures(&once, Some(again.stats.walks_watched)))
}

fn figures(run: &Measured, direct_walks: Option<u64>) -> Sample {
    let stats = &run.stats;
    let part = |cycles: u64| cycles as f64 / stats.walk_cycles.max(1) as f64;
    let percent = run.report.walk_percent();
    let kernel = part(stats.walk_cycles_watched);
    Sample {
        user: percent * (1.0 - kernel - part(stats.walk_cycles_fetch)),
        kernel: percent * kernel,
        walks: 1000.0 * stats.walks_watched as f64 / run.report.instructions as f64,
        ipc: run.report.ipc,
        direct_share: direct_walks.map(|walks| walks as f64 / stats.walks_watched.max(1) as f64),
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
    let mut base: Option<Vec<Sample>> = None;
    for mappings in KERNEL_ROWS {
        let mut samples = Vec::new();
        for &seed in &params.seeds {
            samples.push(sample(machine, KernelRun::of(params), seed, mappings)?);
        }
        steps.step();
        rows.push(row(mappings, &samples, base.as_ref().unwrap_or(&samples)));
        base.get_or_insert(samples);
    }
    Ok(())
}

/// One row over its seeds, its speed over that of others with the same seeds.
fn row((user, kernel): (Mapping, Mapping), own: &[Sample], base: &[Sample]) -> KernelSegmentRow {
    let over = |value: fn(&Sample) -> f64| Spread::of(own.iter().map(value));
    let (users, kernels) = (over(|s| s.user), over(|s| s.kernel));
    let walks = over(|s| s.walks);
    let direct: Option<Vec<f64>> = own.iter().map(|s| s.direct_share).collect();
    let direct = direct.map(Spread::of);
    let speeds = Spread::of(own.iter().zip(base).map(|(own, base)| own.ipc / base.ipc));
    KernelSegmentRow {
        user: named(user).into(),
        kernel: named(kernel).into(),
        user_percent: users.mean,
        user_percent_min: users.min,
        user_percent_max: users.max,
        kernel_percent: kernels.mean,
        kernel_percent_min: kernels.min,
        kernel_percent_max: kernels.max,
        direct_share: direct.map(|share| share.mean),
        direct_share_min: direct.map(|share| share.min),
        direct_share_max: direct.map(|share| share.max),
        kernel_walks_per_kilo_instruction: walks.mean,
        kernel_walks_per_kilo_instruction_min: walks.min,
        kernel_walks_per_kilo_instruction_max: walks.max,
        speedup: over(|s| s.ipc).mean / Spread::of(base.iter().map(|s| s.ipc)).mean,
        speedup_min: speeds.min,
        speedup_max: speeds.max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_interval_of_its_seeds() {
        let sample = |ipc: f64, direct_share: Option<f64>| Sample {
            user: 10.0 * ipc,
            kernel: 2.0,
            walks: 1.0,
            ipc,
            direct_share,
        };
        let base = [sample(1.0, Some(0.9)), sample(2.0, Some(1.0))];
        let own = [sample(1.5, None), sample(2.0, None)];
        let first = row(KERNEL_ROWS[0], &base, &base);
        assert_eq!((first.speedup_min, first.speedup_max), (1.0, 1.0));
        assert_eq!(
            (first.direct_share_min, first.direct_share_max),
            (Some(0.9), Some(1.0))
        );
        let row = row(KERNEL_ROWS[3], &own, &base);
        assert_eq!((row.user_percent_min, row.user_percent_max), (15.0, 20.0));
        assert_eq!((row.speedup_min, row.speedup_max), (1.0, 1.5));
        assert_eq!((row.speedup, row.direct_share), (3.5 / 3.0, None));
    }
}
