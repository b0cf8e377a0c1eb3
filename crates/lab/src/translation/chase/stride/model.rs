// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated side: the same chain, the nodes' pages mapped and nothing between them.

use super::super::frames::{Scatter, guest_of};
use super::super::model::page_size;
use super::geometry::Strided;
use super::shapes::{StrideCurve, StrideParams, StridePoint, WalkWay};
use crate::setup::{Length, Measured, engine, measure};
use ample_host::PageBacking;
use ample_machine::MachineConfig;
use ample_trace::{Access, Program, Recorder, Region, RegionLayout};
use ample_translate::{Engine, FrameSource, IdealFrames, PageSize};
use anyhow::{Context, Result};
use std::collections::BTreeMap;

/// Instructions of the measured loop beside its load.
const LOOP_INSTRUCTIONS: u16 = 3;

/// A chain of dependent loads, round and round.
struct Chain {
    layout: RegionLayout,
    addresses: Vec<u64>,
    at: usize,
}

impl Program for Chain {
    fn name(&self) -> &str {
        "strided chase"
    }

    fn regions(&self) -> &[Region] {
        self.layout.regions()
    }

    fn step(&mut self, recorder: &mut Recorder<'_>) {
        recorder.push(Access::load(self.addresses[self.at], LOOP_INSTRUCTIONS).after(1));
        self.at = (self.at + 1) % self.addresses.len();
    }
}

/// Frames of the nodes' pages, each node's page a block of `size`: as listed in order of address.
fn frames(
    (strided, backing, size): (&Strided, PageBacking, PageSize),
    scatter: Option<&Scatter>,
    seed: u64,
) -> Result<BTreeMap<u64, u64>> {
    let mut pages: Vec<u64> = strided
        .places()
        .iter()
        .map(|at| at >> size.shift())
        .collect();
    pages.dedup();
    let count = pages.len() as u64;
    let frames: Vec<u64> = match (backing, scatter) {
        (PageBacking::Small, Some(scatter)) => scatter.frames(4096 * count, seed),
        (PageBacking::Small, None) => {
            let mut frames = IdealFrames::new((4 * 4096 * count) + (4 << 30)).scattered();
            let all = (0..count).map(|_| frames.alloc(0));
            all.collect::<Option<_>>().context("frames of a guest")?
        }
        // Blocks of 2 MB in order, as a whole or in parts.
        (PageBacking::Split, _) => {
            let mut blocks: Vec<u64> = pages.iter().map(|page| page >> 9).collect();
            blocks.dedup();
            let block_of = |page: u64| blocks.partition_point(|&block| block < page >> 9) as u64;
            pages
                .iter()
                .map(|&page| block_of(page) << 9 | page & 511)
                .collect()
        }
        _ => (0..count).map(|at| at << size.order()).collect(),
    };
    Ok(pages.into_iter().zip(frames).collect())
}

/// Translation hardware with the pages of a chain mapped from `base` on.
fn hardware(
    machine: &MachineConfig,
    walks: &WalkWay,
    (strided, backing): (&Strided, PageBacking),
    (scatter, seed, base): (Option<&Scatter>, u64, u64),
) -> Result<Engine> {
    let size = match walks {
        // A host that shadows a guest's tables has its own pages in them.
        WalkWay::Shadow => PageSize::K4,
        _ => page_size(backing),
    };
    let listed = frames((strided, backing, size), scatter, seed)?;
    let mut engine = match walks {
        WalkWay::Native | WalkWay::Shadow => engine(machine, "paging")?,
        WalkWay::Nested(host) => {
            let tables = (1..=3).map(|level| strided.tables(level)).sum();
            let span = scatter.map_or(1, |scatter| scatter.span_blocks);
            let program = listed.values().copied().collect();
            guest_of(machine, (program, size), (tables, span), host)?
        }
    };
    for page in listed.keys() {
        engine.premap(base + (page << size.shift()), size.bytes(), size)?;
    }
    Ok(engine)
}

/// Simulates one point of a curve: three rounds of its chain, then those that count.
///
/// # Errors
/// If the hardware cannot be built.
pub(super) fn point(
    params: &StrideParams,
    machine: &MachineConfig,
    walks: &WalkWay,
    curve: &StrideCurve,
    at: &StridePoint,
) -> Result<Measured> {
    let strided = at.strided(&curve.shape);
    let mut layout = RegionLayout::new();
    let base = layout.anonymous("nodes", strided.bytes().next_multiple_of(1 << 30));
    let strides = &curve.shape.stride_pages;
    let stride_at = strides.iter().position(|&stride| stride == at.stride_pages);
    let scatter = stride_at.and_then(|at| curve.scatters.get(at)?.as_ref());
    let memory = (&strided, curve.shape.backing);
    let engine = hardware(machine, walks, memory, (scatter, params.seed, base))?;
    let chain = strided.chain(params.seed);
    let lap = chain.len() as u64;
    let mut program = Chain {
        layout,
        addresses: chain.iter().map(|offset| base + offset).collect(),
        at: 0,
    };
    let length = Length {
        warm_up_accesses: 3 * lap,
        accesses: counted(params, lap),
    };
    measure(machine, engine, &mut program, &length)
}

/// Loads that count: whole rounds.
fn counted(params: &StrideParams, lap: u64) -> u64 {
    (params.laps * lap).max(4096u64.next_multiple_of(lap))
}

/// A point that was simulated.
pub(super) struct Load {
    /// Time of a load without the loop around it, ns.
    pub(super) ns: f64,
    /// References of walks a load.
    pub(super) references: f64,
}

/// Simulates one point.
///
/// # Errors
/// As [`point`].
pub(super) fn load(
    params: &StrideParams,
    machine: &MachineConfig,
    walks: &WalkWay,
    curve: &StrideCurve,
    at: &StridePoint,
) -> Result<Load> {
    let run = point(params, machine, walks, curve, at)?;
    let strided = at.strided(&curve.shape);
    let loads = counted(params, strided.nodes * strided.lines) as f64;
    Ok(Load {
        ns: run.report.cycles / loads / machine.core.ghz,
        references: run.stats.walk_refs() as f64 / loads,
    })
}

/// Simulates every point of a curve.
///
/// # Errors
/// As [`point`].
pub(super) fn fill(
    params: &StrideParams,
    machine: &MachineConfig,
    walks: &WalkWay,
    loop_ns: f64,
    curve: &mut StrideCurve,
) -> Result<()> {
    for at in 0..curve.points.len() {
        let load = load(params, machine, walks, curve, &curve.points[at])?;
        let point = &mut curve.points[at];
        let model_ns = load.ns + loop_ns;
        point.model_ns = Some(model_ns);
        point.error_percent = Some(100.0 * (model_ns / point.measured_ns - 1.0));
    }
    let errors: Vec<f64> = curve
        .points
        .iter()
        .filter_map(|p| p.error_percent)
        .collect();
    let sum: f64 = errors.iter().map(|error| error.abs()).sum();
    curve.mean_error_percent = Some(sum / errors.len().max(1) as f64);
    Ok(())
}
