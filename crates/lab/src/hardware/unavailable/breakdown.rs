// SPDX-License-Identifier: MIT OR Apache-2.0
//! Migrations on a busy server, and where the time of one goes.

use super::super::stats::{SeedEnds, SeedFigures, advance};
use super::super::{Server, Service};
use super::params::UnavailableParams;
use super::watched::Change;
use ample_kit::random::SplitMix64;
use ample_machine::multi::{CoreParams, MemoryParams, Mover, MultiCore, PagePlacement, Timeline};
use ample_migration::protocol::Design;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// One migration in hardware.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MigrationBreakdown {
    /// Cacheable or not.
    pub design: Design,
    /// Over all migrations.
    #[serde(flatten)]
    pub times: MigrationTimes,
    /// Over those of one seed.
    pub seeds: SeedEnds<MigrationTimes>,
}

/// The times of some migrations, means, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MigrationTimes {
    /// Until both mappings are usable and the destination is purged.
    pub install_ns: f64,
    /// Copying alone.
    pub copy_ns: f64,
    /// From the page table entry to the last TLB.
    pub invalidate_ns: f64,
    /// From the start to the freed source.
    pub total_ns: f64,
}

/// Which migrations to look at.
#[derive(Clone, Copy)]
pub(super) struct Case {
    pub(super) cores: u8,
    pub(super) design: Design,
    pub(super) mover: Mover,
    pub(super) service: Service,
    pub(super) mshrs: Option<u32>,
    pub(super) change: Change,
}

/// Eight cores under load, the page moved by software.
pub(super) const EIGHT: Case = Case {
    cores: 8,
    design: Design::NonCacheable,
    mover: Mover::Software,
    service: Service::Memcached,
    mshrs: None,
    change: |_, _| {},
};

/// The migrations of each seed.
pub(super) fn migrate(params: &UnavailableParams, case: Case) -> Result<Vec<Vec<Timeline>>> {
    let each = params.seeds.iter();
    each.map(|&seed| migrate_seed(params, case, seed)).collect()
}

fn migrate_seed(params: &UnavailableParams, case: Case, seed: u64) -> Result<Vec<Timeline>> {
    let mut memory = MemoryParams::with_cores(case.cores);
    memory.engine.design = case.design;
    memory.mshrs = case.mshrs.unwrap_or(memory.mshrs);
    let mut os = params.os;
    (case.change)(&mut memory, &mut os);
    let program = Server::new(case.service, case.cores, seed);
    let pages = Server::pages(case.service, case.cores);
    let core = CoreParams::table1();
    let placement = PagePlacement::single(pages, 1024);
    let mut machine = MultiCore::new(&memory, core, os, program, placement, seed)?;
    // Destinations lie anywhere, as free frames of a server do.
    let mut rng = SplitMix64::new(seed);
    for i in (1..machine.free_frames.len()).rev() {
        machine
            .free_frames
            .swap(i, rng.below(i as u64 + 1) as usize);
    }
    // Caches fill, all cores run.
    let mut now = 100_000;
    advance(&mut machine, 0, now);
    let buffers = Server::buffer_pages(case.cores);
    for n in 0..params.migrations {
        machine.requests.push((n * 7 % buffers, case.mover));
        let limit = now + 5_000_000;
        while machine.in_flight() > 0 && now < limit {
            advance(&mut machine, now, now + 10_000);
            now += 10_000;
        }
    }
    machine.check_values()?;
    Ok(machine.finished)
}

/// Mean of a time over the migrations that have it, in cycles; 0 without any.
pub(super) fn mean(all: &[Timeline], f: impl Fn(&Timeline) -> Option<u64>) -> f64 {
    let values: Vec<u64> = all.iter().filter_map(f).collect();
    values.iter().sum::<u64>() as f64 / values.len().max(1) as f64
}

/// The migrations of one design, on eight cores under load.
pub(super) fn breakdown(
    params: &UnavailableParams,
    design: Design,
    change: Change,
) -> Result<MigrationBreakdown> {
    let case = Case {
        design,
        change,
        mover: Mover::Hardware,
        ..EIGHT
    };
    let seeds = migrate(params, case)?;
    let each: Vec<MigrationTimes> = seeds.iter().map(|own| times(own, design)).collect();
    Ok(MigrationBreakdown {
        design,
        times: times(&seeds.concat(), design),
        seeds: SeedEnds::of(&each).context("seeds: none")?,
    })
}

fn times(all: &[Timeline], design: Design) -> MigrationTimes {
    let ns = 1.0 / MemoryParams::table1().clock_ghz;
    let between = |from: fn(&Timeline) -> Option<u64>, to: fn(&Timeline) -> Option<u64>| {
        mean(all, |t| Some(to(t)?.saturating_sub(from(t)?))) * ns
    };
    let cacheable = design == Design::Cacheable;
    MigrationTimes {
        install_ns: match cacheable {
            true => mean(all, |t| t.installed_cycles) * ns,
            // Installing and copying are one command; the former is not seen by the OS.
            false => 0.0,
        },
        copy_ns: mean(all, |t| t.copying()) * ns,
        invalidate_ns: match cacheable {
            true => between(|t| t.installed_cycles, |t| t.clean_cycles),
            false => between(|t| t.copied_cycles, |t| t.clean_cycles),
        },
        total_ns: mean(all, |t| t.done_cycles) * ns,
    }
}

impl SeedFigures for MigrationTimes {
    fn with(self, other: Self, choose: fn(f64, f64) -> f64) -> Self {
        Self {
            install_ns: choose(self.install_ns, other.install_ns),
            copy_ns: choose(self.copy_ns, other.copy_ns),
            invalidate_ns: choose(self.invalidate_ns, other.invalidate_ns),
            total_ns: choose(self.total_ns, other.total_ns),
        }
    }
}
