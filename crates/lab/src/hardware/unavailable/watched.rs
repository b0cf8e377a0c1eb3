// SPDX-License-Identifier: MIT OR Apache-2.0
//! What accesses to a page see while it moves: cores and a NIC visit a page, which moves again
//! and again; the same machine goes on without migrations beside it.

use super::super::Way;
use super::super::stats::{advance, mean_of};
use super::UnavailableParams;
use ample_kit::random::SplitMix64;
use ample_kit::statistics::{Distribution, MedianRange, mean, median};
use ample_machine::multi::{
    CoreAccess, CoreParams, CoreProgram, MemoryParams, MultiCore, OsParams, PAGE_LINES,
    PagePlacement, SeenAccess, Timeline,
};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

/// Pages of 4 KB in one of 2 MB.
pub(super) const LARGE_PAGES: u32 = 512;
/// Cycles between two visits of the page, all cores together: samples without crowding it.
const VISIT_CYCLES: u32 = 60;
/// Instructions between two accesses of a core.
const GAP: u32 = 59;
/// Mean cycles between two accesses of the NIC to the page.
const NIC_CYCLES: u64 = 2000;
/// Cycles for which caches fill first.
const WARM_UP_CYCLES: u64 = 100_000;

/// Middle and end of what some accesses took, in core cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CycleTail {
    /// Half of the accesses took no longer.
    pub p50: f64,
    /// 99 of 100 took no longer.
    pub p99: f64,
    /// None of them took longer.
    pub max: f64,
}

impl CycleTail {
    fn of(values: impl IntoIterator<Item = u64>) -> Self {
        let all = Distribution::of(values.into_iter().map(|cycles| cycles as f64));
        let at = |share| all.quantile(share).unwrap_or(0.0);
        Self {
            p50: at(0.5),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}

/// Accesses of cores to a page while it moved, all in core cycles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeenRow {
    /// Who moved it.
    pub way: Way,
    /// Other cores, each with a TLB.
    pub remote_tlbs: u8,
    /// Size of the page, which one TLB entry maps.
    pub page_bytes: u64,
    /// Times that it moved.
    pub migrations: usize,
    /// Accesses of cores meanwhile.
    pub accesses: usize,
    /// Share of them that the migration delayed.
    pub delayed_share: f64,
    /// Share that bypassed the private caches.
    pub uncached_share: f64,
    /// The longest delay in each migration: what the page was unavailable for.
    pub longest: MedianRange,
    /// Delay: the kernel's work on the core, an absent translation, waits for the copy engine,
    /// refusals, forwards.
    pub delay: CycleTail,
    /// From the core's wish to the data.
    pub latency: CycleTail,
    /// The same without migrations.
    pub still_latency: CycleTail,
    /// Longest part of a delay that was the kernel's work.
    pub kernel_max: f64,
    /// That was an absent translation.
    pub unmapped_max: f64,
    /// That was a wait for a line in the hands of the copy engine.
    pub engine_max: f64,
    /// That was a refusal by the non-cacheable design.
    pub nack_max: f64,
    /// That was the way from one slice to another.
    pub forward_max: f64,
    /// Longest latency of the NIC.
    pub nic_latency_max: f64,
    /// The same without migrations.
    pub nic_still_latency_max: f64,
    /// From the start to the freed source, mean.
    pub migration_cycles: f64,
    /// Transactional: share of the copies that a store made worthless.
    pub copies_lost_share: Option<f64>,
}

/// Cores that visit the first pages now and then, and otherwise a page of their own; a NIC that
/// reads and writes the first pages.
#[derive(Clone)]
struct Visitors {
    /// Pages that are visited.
    visited: u32,
    first_own: u32,
    write_share: f64,
    rngs: Vec<SplitMix64>,
    nic: SplitMix64,
}

impl CoreProgram for Visitors {
    fn next(&mut self, core: u8) -> CoreAccess {
        let cores = self.rngs.len() as u64;
        let rng = &mut self.rngs[usize::from(core)];
        // A core has four instructions a cycle.
        let every = u64::from(VISIT_CYCLES * 4 / (GAP + 1)) * cores;
        let visits = rng.below(every) == 0;
        let page = match visits {
            true => rng.below(u64::from(self.visited)) as u32,
            false => self.first_own + u32::from(core),
        };
        CoreAccess {
            gap: GAP,
            page,
            index: rng.below(PAGE_LINES) as u32,
            write: rng.unit() < self.write_share,
            dependent: false,
        }
    }

    fn next_dma(&mut self) -> Option<(u64, Option<CoreAccess>)> {
        let rng = &mut self.nic;
        let op = CoreAccess {
            gap: 0,
            page: rng.below(u64::from(self.visited)) as u32,
            index: rng.below(PAGE_LINES) as u32,
            write: rng.below(2) == 0,
            dependent: false,
        };
        Some((1 + rng.below(2 * NIC_CYCLES), Some(op)))
    }
}

/// One point: a way, a number of cores, a size of page.
#[derive(Clone, Copy, Debug)]
pub(super) struct WatchedCase {
    pub(super) way: Way,
    pub(super) remote_tlbs: u8,
    pub(super) is_large: bool,
    /// What differs from the machine and the operating system as they are.
    pub(super) change: Change,
}

/// A change of machine or operating system.
pub(super) type Change = fn(&mut MemoryParams, &mut OsParams);

/// What a case gives, over all seeds.
pub(super) struct Watched {
    pub(super) row: SeenRow,
    pub(super) timelines: Vec<Timeline>,
    /// Median of `row.longest` with each seed alone.
    pub(super) seed_medians: Vec<f64>,
}

/// What was seen of a case.
#[derive(Default)]
struct Visits {
    /// Longest delay of a core's access in each migration, in cycles.
    longest: Vec<f64>,
    seen: Vec<SeenAccess>,
    /// Seen without migrations.
    still: Vec<SeenAccess>,
    timelines: Vec<Timeline>,
    transactions: u64,
    failed_transactions: u64,
}

fn machine(
    params: &UnavailableParams,
    case: WatchedCase,
    seed: u64,
) -> Result<MultiCore<Visitors>> {
    let cores = case.remote_tlbs + 1;
    let mut memory = MemoryParams::with_cores(cores);
    memory.engine = case.way.engine(memory.engine);
    let mut os = params.os;
    (case.change)(&mut memory, &mut os);
    let group = if case.is_large { LARGE_PAGES } else { 1 };
    let moving = group * case.way.pages_at_once(&params.os);
    let pages = (moving + u32::from(cores)).next_multiple_of(group);
    let mut seeds = SplitMix64::new(seed);
    let program = Visitors {
        visited: moving,
        first_own: moving,
        write_share: params.write_share,
        rngs: (0..cores)
            .map(|_| SplitMix64::new(seeds.next_u64()))
            .collect(),
        nic: SplitMix64::new(seeds.next_u64()),
    };
    let placement = PagePlacement {
        pages,
        spare: if case.is_large { 16 } else { 1024 },
        group_pages: group,
        is_large_page: case.is_large,
    };
    let core = CoreParams::table1();
    let mut machine = MultiCore::new(&memory, core, os, program, placement, seed)?;
    // Destinations lie anywhere, as free frames of a server do.
    let frames = &mut machine.free_frames;
    for i in (1..frames.len()).rev() {
        frames.swap(i, seeds.below(i as u64 + 1) as usize);
    }
    machine.watch(0..moving);
    Ok(machine)
}

/// One migration of all visited pages; what was seen meanwhile.
fn migrate(
    machine: &mut MultiCore<Visitors>,
    case: WatchedCase,
    pages: u32,
    now: &mut u64,
) -> Result<Vec<SeenAccess>> {
    let (group, step, limit) = match case.is_large {
        true => (LARGE_PAGES, 100_000, 60_000_000),
        false => (1, 5_000, 8_000_000),
    };
    let wanted = machine.finished.len() + pages as usize;
    settle(machine, now, 4 * step)?;
    for page in 0..pages {
        machine.requests.push((page * group, case.way.mover()));
    }
    let deadline = *now + limit;
    while machine.finished.len() < wanted {
        ensure!(
            *now < deadline,
            "{case:?}: a migration had not ended after {limit} cycles"
        );
        advance(machine, *now, *now + step);
        *now += step;
    }
    let moved = &machine.finished[wanted - pages as usize..];
    let start = moved.iter().map(|t| t.start_cycle).min();
    let end = moved
        .iter()
        .filter_map(|t| Some(t.start_cycle + t.done_cycles?));
    let (start, end) = (start.unwrap_or(0), end.max().unwrap_or(0));
    // One that waits for the page ends behind the migration.
    let mut seen = machine.take_seen();
    seen.retain(|a| a.at_cycle <= end && a.at_cycle + a.latency_cycles >= start);
    Ok(seen)
}

/// Goes on until no access is late for the sake of the migration before: what then waits, waits for
/// the next one.
fn settle(machine: &mut MultiCore<Visitors>, now: &mut u64, step: u64) -> Result<()> {
    machine.take_seen();
    for _ in 0..100 {
        advance(machine, *now, *now + step);
        *now += step;
        let seen = machine.take_seen();
        if seen.iter().all(|access| access.delay_cycles() == 0) {
            return Ok(());
        }
    }
    bail!("accesses were late {} cycles after a migration", 100 * step)
}

/// Moves a page again and again and watches it, with each seed.
pub(super) fn watch(params: &UnavailableParams, case: WatchedCase) -> Result<Watched> {
    let mut all = Visits::default();
    let mut seed_medians = Vec::new();
    for &seed in &params.seeds {
        let one = visits(params, case, seed)?;
        seed_medians.extend(median(one.longest.iter().copied()));
        all.longest.extend(one.longest);
        all.seen.extend(one.seen);
        all.still.extend(one.still);
        all.timelines.extend(one.timelines);
        all.transactions += one.transactions;
        all.failed_transactions += one.failed_transactions;
    }
    Ok(Watched {
        row: row(case, &all)?,
        timelines: all.timelines,
        seed_medians,
    })
}

fn visits(params: &UnavailableParams, case: WatchedCase, seed: u64) -> Result<Visits> {
    let mut machine = machine(params, case, seed)?;
    let mut now = WARM_UP_CYCLES;
    advance(&mut machine, 0, now);
    let mut still = machine.clone();
    let pages = case.way.pages_at_once(&params.os);
    let migrations = match case.is_large {
        true => params.large_migrations,
        false => params.migrations.div_ceil(pages),
    };
    let mut visits = Visits::default();
    let cores = case.remote_tlbs + 1;
    for _ in 0..migrations {
        let during = migrate(&mut machine, case, pages, &mut now)?;
        let own = during.iter().filter(|access| access.agent < cores);
        let longest = own.map(|access| access.delay_cycles()).max();
        visits.longest.push(longest.unwrap_or(0) as f64);
        visits.seen.extend(during);
    }
    still.take_seen();
    advance(&mut still, WARM_UP_CYCLES, now);
    machine.check_values()?;
    visits.still = still.take_seen();
    visits.transactions = machine.transactions;
    visits.failed_transactions = machine.failed_transactions;
    visits.timelines = machine.finished;
    Ok(visits)
}

fn row(case: WatchedCase, visits: &Visits) -> Result<SeenRow> {
    let cores = case.remote_tlbs + 1;
    let of_cores = |all: &[SeenAccess]| -> Vec<SeenAccess> {
        all.iter().filter(|a| a.agent < cores).copied().collect()
    };
    let nic_max = |all: &[SeenAccess]| {
        let of_nic = all.iter().filter(|a| a.agent == cores);
        of_nic.map(|a| a.latency_cycles).max().unwrap_or(0) as f64
    };
    let (own, own_still) = (of_cores(&visits.seen), of_cores(&visits.still));
    let longest = MedianRange::of(visits.longest.clone()).context("migrations: none")?;
    let done = visits.timelines.iter().filter_map(|t| t.done_cycles);
    let lost = visits.failed_transactions as f64 / visits.transactions as f64;
    let most = |part: fn(&SeenAccess) -> u64| own.iter().map(part).max().unwrap_or(0) as f64;
    let share = |test: fn(&SeenAccess) -> bool| mean_of(&own, |a| f64::from(u8::from(test(a))));
    Ok(SeenRow {
        way: case.way,
        remote_tlbs: case.remote_tlbs,
        page_bytes: if case.is_large { 2 << 20 } else { 4096 },
        migrations: visits.timelines.len(),
        accesses: own.len(),
        delayed_share: share(|a| a.delay_cycles() > 0),
        uncached_share: share(|a| a.lines.is_uncached),
        longest,
        delay: CycleTail::of(own.iter().map(SeenAccess::delay_cycles)),
        latency: CycleTail::of(own.iter().map(|a| a.latency_cycles)),
        still_latency: CycleTail::of(own_still.iter().map(|a| a.latency_cycles)),
        kernel_max: most(|a| a.kernel_cycles),
        unmapped_max: most(|a| a.unmapped_cycles),
        engine_max: most(|a| a.lines.engine_cycles),
        nack_max: most(|a| a.lines.nack_cycles),
        forward_max: most(|a| a.lines.forward_cycles),
        nic_latency_max: nic_max(&visits.seen),
        nic_still_latency_max: nic_max(&visits.still),
        migration_cycles: mean(done.map(|cycles| cycles as f64)).unwrap_or(0.0),
        copies_lost_share: (visits.transactions > 0).then_some(lost),
    })
}
