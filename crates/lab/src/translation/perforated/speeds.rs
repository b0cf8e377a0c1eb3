// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program under each policy on one state of memory.

use super::holes::{Fragmentation, M2, MappingPolicy};
use super::layout::map_range;
use crate::setup::{Length, Measured, Redirect, anonymous_range, map_rest};
use crate::translation::runs::whole;
use ample_kit::random::mix64;
use ample_machine::MachineConfig;
use ample_trace::{Access, Program, Region, Replay};
use ample_translate::{Engine, Host, IdealFrames, Space, TranslationStats, USER_RW, schemes};
use anyhow::{Result, anyhow};
use std::collections::HashMap;

/// How a system maps memory, and the scheme of the hardware under it.
pub(super) type Form = (MappingPolicy, &'static str);

/// A policy on the hardware that it is for.
fn form(policy: MappingPolicy) -> Form {
    let scheme = match policy {
        MappingPolicy::Perforated | MappingPolicy::PerforatedWhereClear => "perforated",
        MappingPolicy::Coalesced => "colt",
        MappingPolicy::Ranges => "rmm",
        _ => "paging",
    };
    (policy, scheme)
}

/// An engine with a program's memory mapped, natively or under a host fragmented the same way.
fn build(
    machine: &MachineConfig,
    regions: &[Region],
    fragmentation: &Fragmentation,
    (policy, name): Form,
    virtualised: bool,
) -> Result<Engine> {
    let scheme = schemes::by_name(name).map_err(|e| anyhow!(e))?;
    let range = anonymous_range(regions);
    // Room for every page twice, and the small regions and page tables.
    let memory = ((range.end - range.start) * 2 + (1 << 30)).next_multiple_of(M2);
    // The frames of holes are those that were left: they lie anywhere.
    let frames = Box::new(IdealFrames::new(memory).scattered());
    let units = u64::from(machine.core.width);
    let mut engine = Engine::new(&machine.mmu, scheme, frames, units).map_err(|e| anyhow!(e))?;
    map_rest(&mut engine, regions, false)?;
    let (space, frames) = engine.space_and_frames();
    map_range(space, frames, range.start, fragmentation, policy, USER_RW)?;
    if virtualised {
        let mut host_frames = IdealFrames::new(memory * 4).scattered();
        let mut host = Space::new(0, machine.mmu.levels, &mut host_frames)?;
        let blocks = (memory / M2) as usize;
        // The same state of memory in another order, whatever the policy; the guest uses all it was
        // given.
        let own = &fragmentation.blocks;
        let pick = |i: usize| own[mix64(i as u64 ^ 0x4057) as usize % own.len()];
        let host_fragmentation = Fragmentation {
            blocks: (0..blocks).map(pick).collect(),
            used: true,
        };
        let (space, frames) = (&mut host, &mut host_frames);
        map_range(space, frames, 0, &host_fragmentation, policy, USER_RW)?;
        engine.host = Some(Host::new(host, &machine.mmu, units).map_err(|e| anyhow!(e))?);
    }
    Ok(engine)
}

/// Runs one program under one policy.
pub(super) fn one(
    machine: &MachineConfig,
    length: &Length,
    program: &mut Replay,
    fragmentation: &Fragmentation,
    form: Form,
    virtualised: bool,
) -> Result<Measured> {
    program.rewind();
    let regions = program.regions();
    let engine = build(machine, regions, fragmentation, form, virtualised)?;
    let start = anonymous_range(program.regions()).start;
    let avoid = |access: Access| Access {
        va: fragmentation.avoid(start, access.va),
        ..access
    };
    let redirect: Option<Redirect<'_>> = if fragmentation.used {
        None
    } else {
        Some(&avoid)
    };
    whole(machine, engine, program, length, redirect)
}

/// Blocks that a program's anonymous memory takes.
pub(in crate::translation) fn blocks_of(program: &Replay) -> usize {
    let range = anonymous_range(program.regions());
    (range.end - range.start).div_ceil(M2) as usize
}

/// A program under each policy on one state of memory, instructions a cycle.
pub(in crate::translation) struct Speeds {
    pub(in crate::translation) small: f64,
    pub(in crate::translation) conventional: f64,
    pub(in crate::translation) gtsm: f64,
    pub(in crate::translation) perforated: f64,
    pub(in crate::translation) colt: Option<f64>,
    pub(in crate::translation) rmm: Option<f64>,
    pub(in crate::translation) ideal: f64,
    /// Counters under perforated pages.
    pub(super) counters: TranslationStats,
}

/// Speeds that no state of fragmentation changes, so that they need one run for all states: 4 KB
/// pages and ideal pages of a program where holes are used. The key is of the program's choice.
#[derive(Clone, Debug, Default)]
pub struct Baselines(HashMap<(String, bool), [f64; 2]>);

/// Runs a program under each policy; `key` names program and seed among the baselines.
pub(in crate::translation) fn speeds(
    machine: &MachineConfig,
    length: &Length,
    program: &mut Replay,
    fragmentation: &Fragmentation,
    virtualised: bool,
    (baselines, key): (&mut Baselines, &str),
) -> Result<Speeds> {
    let mut run = |policy| {
        let form = form(policy);
        one(machine, length, program, fragmentation, form, virtualised)
    };
    let known = (key.to_owned(), virtualised);
    let [small, ideal] = match baselines.0.get(&known).filter(|_| fragmentation.used) {
        Some(&ipcs) => ipcs,
        None => [
            run(MappingPolicy::Small)?.report.ipc,
            run(MappingPolicy::Ideal)?.report.ipc,
        ],
    };
    if fragmentation.used {
        baselines.0.insert(known, [small, ideal]);
    }
    let perforated = run(MappingPolicy::Perforated)?;
    let mut ipc = |policy| run(policy).map(|run| run.report.ipc);
    let mut native = |policy| match virtualised {
        true => Ok(None),
        false => ipc(policy).map(Some),
    };
    Ok(Speeds {
        colt: native(MappingPolicy::Coalesced)?,
        rmm: native(MappingPolicy::Ranges)?,
        small,
        conventional: ipc(MappingPolicy::Conventional)?,
        gtsm: ipc(MappingPolicy::Gtsm)?,
        ideal,
        perforated: perforated.report.ipc,
        counters: perforated.stats,
    })
}
