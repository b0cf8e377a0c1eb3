// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory behind a trace: as faults bring it in, or there from the start in pages of 1 GB, on
//! fragmented blocks, with perforated pages; and in a virtual machine.

use super::{MEMORY_BYTES, Model, RIGHTS, addresses};
use crate::setup::{HostPages, back_with_host};
use crate::translation::perforated::{Fragmentation, MappingPolicy, map_range};
use ample_machine::MachineConfig;
use ample_trace::{Access, Program, Recorder, Replay};
use ample_translate::{Engine, IdealFrames, PageSize, Vma, schemes};
use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Serialize;
use std::collections::BTreeSet;
use std::ops::Range;

/// Bytes of a block of memory that can be a 2 MB page.
const BLOCK_BYTES: u64 = 2 << 20;

/// The state that a trace finds its memory in. The default: no virtual machine, no holes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TraceMemory {
    /// Pages of the host, in bytes, under all memory of a virtual machine; none: no such machine.
    #[serde(rename = "host_page_bytes", serialize_with = "page_bytes")]
    pub host: Option<PageSize>,
    /// Share of the 2 MB blocks that have holes.
    pub fragmented_share: f64,
    /// Frames of such a block that something else holds, anywhere in it; their pages lie elsewhere.
    pub holes: u32,
    /// Seed of the holes.
    pub seed: u64,
}

fn page_bytes<S: serde::Serializer>(size: &Option<PageSize>, to: S) -> Result<S::Ok, S::Error> {
    size.map(PageSize::bytes).serialize(to)
}

impl Default for TraceMemory {
    fn default() -> Self {
        TraceMemory {
            host: None,
            fragmented_share: 0.0,
            holes: TraceMemory::HOLES,
            seed: TraceMemory::SEED,
        }
    }
}

impl TraceMemory {
    /// Holes of a fragmented block if nothing else is said.
    pub const HOLES: u32 = 64;
    /// Their seed if nothing else is said.
    pub const SEED: u64 = 1;

    /// Whether memory is mapped before the trace begins.
    fn is_mapped_first(&self, model: &Model) -> bool {
        self.fragmented_share > 0.0
            || model.pages == PageSize::G1
            || model.scheme_name() == "perforated"
    }

    /// Refuses what no machine offers.
    ///
    /// # Errors
    /// When a number is out of range, or the model does not fit it: which.
    pub fn check(&self, model: &Model) -> Result<()> {
        let scheme = model.scheme_name();
        ensure!(
            (0.0..=1.0).contains(&self.fragmented_share),
            "a fragmented share of {} is none from 0 to 1",
            self.fragmented_share
        );
        ensure!(
            self.fragmented_share == 0.0 || (1..=512).contains(&self.holes),
            "a fragmented block of 2 MB has 1 to 512 holes, not {}",
            self.holes
        );
        ensure!(
            scheme != "segment" || !self.is_mapped_first(model),
            "a direct segment maps memory without holes; leave out the fragmentation and 1 GB pages"
        );
        if model.pages == PageSize::G1 {
            ensure!(
                scheme == "paging" && self.fragmented_share == 0.0,
                "1 GB pages are for scheme paging on memory without holes"
            );
        }
        ensure!(
            self.host.is_none() || matches!(scheme, "paging" | "perforated" | "segment"),
            "scheme {scheme} is not defined in a virtual machine; known there: paging, perforated, \
             segment"
        );
        Ok(())
    }
}

/// The engine of a run on memory in such a state.
///
/// # Errors
/// If the state and the model do not fit each other, or memory runs out.
pub(super) fn engine(
    model: &Model,
    state: &TraceMemory,
    trace: &mut Replay,
    units: u64,
) -> Result<Engine> {
    schemes::by_name(&model.scheme).map_err(|e| anyhow!(e))?;
    state.check(model)?;
    if !state.is_mapped_first(model) && state.host.is_none() {
        return model.engine(units, MEMORY_BYTES, false);
    }
    let blocks = touched(trace);
    let bytes = memory_bytes(model, trace, &blocks);
    let mut engine = model.engine(units, bytes, state.host.is_some())?;
    match model.pages {
        PageSize::G1 => map_1g(&mut engine, &blocks)?,
        _ if state.is_mapped_first(model) => map_blocks(&mut engine, model, state, &blocks)?,
        _ => {}
    }
    if let Some(size) = state.host {
        let pages = HostPages {
            share_2m: if size == PageSize::M2 { 1.0 } else { 0.0 },
            huge_1g: size == PageSize::G1,
        };
        let guest = MachineConfig {
            memory_bytes: bytes,
            ..model.machine.clone()
        };
        back_with_host(&mut engine, &guest, &pages).context("memory of the host")?;
    }
    Ok(engine)
}

/// Numbers of the 2 MB blocks that a trace touches.
fn touched(trace: &mut Replay) -> BTreeSet<u64> {
    let mut blocks = BTreeSet::new();
    let mut note = |block: &[Access]| {
        for access in block {
            let last = access.va.saturating_add(u64::from(access.bytes.max(1)) - 1);
            blocks.extend([access.va / BLOCK_BYTES, last / BLOCK_BYTES]);
        }
        true
    };
    trace.rewind();
    let mut recorder = Recorder::new(&mut note, trace.len());
    trace.run(&mut recorder);
    recorder.flush();
    trace.rewind();
    blocks
}

/// Memory that a run needs: every page twice, since holes lie elsewhere, and page tables.
fn memory_bytes(model: &Model, trace: &Replay, blocks: &BTreeSet<u64>) -> u64 {
    let gigabyte = PageSize::G1.bytes();
    let pages = match model.pages {
        PageSize::G1 => gigabytes(blocks).len() as u64 * gigabyte,
        _ => blocks.len() as u64 * BLOCK_BYTES,
    };
    let largest = trace.regions().iter().map(|region| region.bytes).max();
    let segment = match model.scheme_name() {
        "segment" => largest.unwrap_or(0),
        _ => 0,
    };
    (2 * pages + segment + gigabyte).next_multiple_of(gigabyte)
}

fn gigabytes(blocks: &BTreeSet<u64>) -> BTreeSet<u64> {
    let in_one = PageSize::G1.bytes() / BLOCK_BYTES;
    blocks.iter().map(|block| block / in_one).collect()
}

fn map_1g(engine: &mut Engine, blocks: &BTreeSet<u64>) -> Result<()> {
    let (space, frames) = engine.space_and_frames();
    let size = PageSize::G1;
    for number in gigabytes(blocks) {
        let pfn = frames
            .alloc(size.order())
            .ok_or_else(|| frames.exhausted(size.order()))?;
        space.map(number * size.bytes(), size, pfn, RIGHTS, frames)?;
    }
    engine.sync();
    Ok(())
}

/// Maps what a trace touches, holes and all, as the operating system of the scheme would.
fn map_blocks(
    engine: &mut Engine,
    model: &Model,
    state: &TraceMemory,
    blocks: &BTreeSet<u64>,
) -> Result<()> {
    let policy = match (model.scheme_name(), model.pages) {
        ("paging", PageSize::K4) => MappingPolicy::Small,
        ("paging", _) => MappingPolicy::Conventional,
        ("perforated", _) => MappingPolicy::Perforated,
        ("colt", _) => MappingPolicy::Coalesced,
        ("rmm", _) => MappingPolicy::Ranges,
        (scheme, _) => bail!("scheme {scheme} has no form on fragmented memory"),
    };
    let (share, holes) = (state.fragmented_share, state.holes);
    let all = Fragmentation::random(blocks.len(), share, holes, false, true, state.seed);
    let mut maps = all.blocks.into_iter();
    let (space, frames) = engine.space_and_frames();
    for run in runs(blocks) {
        let own = Fragmentation {
            blocks: maps.by_ref().take((run.end - run.start) as usize).collect(),
            used: true,
        };
        let start = run.start * BLOCK_BYTES;
        map_range(space, frames, start, &own, policy, RIGHTS)?;
    }
    engine.sync();
    Ok(())
}

/// Numbers that follow each other, as ranges.
fn runs(numbers: &BTreeSet<u64>) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some(run) if run.end == number => run.end += 1,
            _ => runs.push(number..number + 1),
        }
    }
    runs
}

impl Model {
    /// The scheme's name, without its parameters.
    pub(super) fn scheme_name(&self) -> &str {
        schemes::base_name(&self.scheme)
    }

    /// An engine for a program that runs: what it will touch is not known.
    pub(super) fn behind_a_program(&self) -> Result<Engine> {
        ensure!(
            self.pages != PageSize::G1,
            "faults bring in 4 KB or 2 MB pages, not 1 GB"
        );
        self.engine(1, MEMORY_BYTES, false)
    }

    /// An engine over so much memory, which faults bring in page by page.
    pub(super) fn engine(&self, units: u64, memory_bytes: u64, is_guest: bool) -> Result<Engine> {
        let mmu = &self.machine.mmu;
        let scheme = schemes::by_name(&self.scheme).map_err(|e| anyhow!(e))?;
        let frames = IdealFrames::new(memory_bytes);
        // The pages of a guest lie anywhere in its memory.
        let frames = Box::new(match is_guest {
            true => frames.scattered(),
            false => frames,
        });
        let mut engine = Engine::new(mmu, scheme, frames, units).map_err(|e| anyhow!(e))?;
        for Range { start, end } in addresses(mmu.levels) {
            engine.vmas[0].push(Vma {
                base: start,
                end,
                flags: RIGHTS,
                largest: self.pages.min(PageSize::M2),
            });
        }
        Ok(engine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_follow_each_other_are_one_run() {
        let numbers = BTreeSet::from([3, 4, 5, 9, 11, 12]);
        assert_eq!(runs(&numbers), [3..6, 9..10, 11..13]);
        assert_eq!(runs(&BTreeSet::new()), []);
    }

    #[test]
    fn an_access_across_a_border_touches_both_blocks() {
        let access = |va, bytes| Access {
            va,
            bytes,
            ..Access::load(0, 0)
        };
        let accesses = vec![
            access(BLOCK_BYTES - 4, 8),
            access(5 * BLOCK_BYTES, 64),
            access(0x7fff_ffff_ffff, 1),
        ];
        let mut trace = Replay::new("borders".into(), Vec::new(), accesses);
        let last = 0x7fff_ffff_ffff / BLOCK_BYTES;
        assert_eq!(touched(&mut trace), BTreeSet::from([0, 1, 5, last]));
    }
}
