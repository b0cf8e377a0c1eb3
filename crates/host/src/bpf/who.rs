// SPDX-License-Identifier: MIT OR Apache-2.0
//! The running kernel as [`KernelMemory`], and what a walk through it begins from.

use super::fields::KernelTypes;
use super::kernel::BpfPrograms;
use super::pageblocks::{find_note, symbol};
use crate::structpage::PageFormat;
use crate::who::evidence::{Evidence, EvidenceWords};
use crate::who::resolve::{KernelPlace, resolve};
use crate::who::{KernelMemory, Who};
use crate::{HostError, PageRuns};
use std::time::Instant;

/// Where the image of the kernel is mapped: `__START_KERNEL_map`.
const IMAGE_MAP: u64 = 0xffff_ffff_8000_0000;
const FRAME_BYTES: u64 = 4096;

struct Running<'a> {
    programs: &'a mut BpfPrograms,
    types: KernelTypes,
    memory_map: u64,
    direct_map: u64,
}

impl KernelMemory for Running<'_> {
    fn gather(&mut self, addresses: &[u64], bytes: usize) -> Result<Vec<u64>, HostError> {
        self.programs.gather(addresses, bytes)
    }

    fn offset(&mut self, path: &'static str) -> Option<u64> {
        self.types.offset(path)
    }

    fn size(&mut self, name: &'static str) -> Option<u64> {
        self.types.size(name)
    }

    fn memory_map(&self) -> u64 {
        self.memory_map
    }

    fn direct_map(&self) -> u64 {
        self.direct_map
    }
}

/// What collects the evidence while pages are copied.
pub fn evidence(programs: &mut BpfPrograms, format: &PageFormat) -> Evidence {
    let layout = programs.layout();
    let word = |offset: u32| {
        let inside = offset.is_multiple_of(8) && offset < layout.page_bytes;
        inside.then_some((offset / 8) as usize)
    };
    let (pool, charge) = (word(layout.page_pool), word(layout.memcg_data));
    Evidence::new(EvidenceWords::of(format, pool, charge))
}

/// Names the owners of what was collected.
///
/// # Errors
/// When neither the kernel's types nor its direct map can be found.
pub fn who(
    programs: &mut BpfPrograms,
    memory_map: u64,
    evidence: &Evidence,
    pages: &PageRuns,
    uptime_seconds: u64,
) -> Result<Who, HostError> {
    let started = Instant::now();
    let (note, direct_map) = find_note(programs)?;
    let number = |name: &str| {
        let start = format!("NUMBER({name})=");
        let text = note
            .lines()
            .find_map(|line| line.strip_prefix(start.as_str()))?;
        text.trim().parse::<i64>().ok()
    };
    let top = symbol(&note, "init_top_pgt").or_else(|| symbol(&note, "swapper_pg_dir"));
    let kernel_table = top
        .zip(number("phys_base"))
        .map(|(top, base)| top.wrapping_sub(IMAGE_MAP).wrapping_add_signed(base) / FRAME_BYTES);
    let controller = programs.layout().memory_controller;
    let place = KernelPlace {
        task: programs.task()?,
        memory_controller: (controller != u32::MAX).then_some(u64::from(controller)),
        kernel_table,
        levels: if number("pgtable_l5_enabled") == Some(1) {
            5
        } else {
            4
        },
        frames: pages.span().end.0,
        uptime_seconds,
    };
    let types = KernelTypes::read()?;
    let mut running = Running {
        programs,
        types,
        memory_map,
        direct_map,
    };
    let mut who = resolve(&mut running, &place, &evidence.runs, pages);
    who.duration_ns = started.elapsed().as_nanos() as u64;
    Ok(who)
}
