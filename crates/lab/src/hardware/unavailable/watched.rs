// SPDX-License-Identifier: MIT OR Apache-2.0
//! What accesses to a page see while it moves: cores and a NIC visit a page, which moves again
//! and again; the same machine goes on without migrations beside it.

use super::super::Way;
use super::super::stats::{SeedEnds, SeedFigures, advance, mean_of};
use super::params::UnavailableParams;
use ample_kit::random::SplitMix64;
use ample_kit::statistics::{Distribution, MedianRange, mean};
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

    fn with(self, other: Self, choose: fn(f64, f64) -> f64) -> Self {
        Self {
            p50: choose(self.p50, other.p50),
            p99: choose(self.p99, other.p99),
            max: choose(self.max, other.max),
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
    /// The longest delay in each migration: what the page was unavailable for.
    pub longest: MedianRange,
    /// Over all migrations.
    #[serde(flatten)]
    pub figures: SeenFigures,
    /// Over those of one seed.
    pub seeds: SeedEnds<SeenFigures>,
}

/// What the accesses of some migrations come to, in core cycles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeenFigures {
    /// Share of the accesses that the migration delayed.
    pub delayed_share: f64,
    /// Share that bypassed the private caches.
    pub uncached_share: f64,
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

impl SeedFigures for SeenFigures {
    fn with(self, other: Self, choose: fn(f64, f64) -> f64) -> Self {
        let of = |part: fn(&Self) -> f64| choose(part(&self), part(&other));
        let lost = self.copies_lost_share.zip(other.copies_lost_share);
        Self {
            delayed_share: of(|f| f.delayed_share),
            uncached_share: of(|f| f.uncached_share),
            delay: self.delay.with(other.delay, choose),
            latency: self.latency.with(other.latency, choose),
            still_latency: self.still_latency.with(other.still_latency, choose),
            kernel_max: of(|f| f.kernel_max),
            unmapped_max: of(|f| f.unmapped_max),
            engine_max: of(|f| f.engine_max),
            nack_max: of(|f| f.nack_max),
            forward_max: of(|f| f.forward_max),
            nic_latency_max: of(|f| f.nic_latency_max),
            nic_still_latency_max: of(|f| f.nic_still_latency_max),
            migration_cycles: of(|f| f.migration_cycles),
            copies_lost_share: lost.map(|(one, other)| choose(one, other)),
        }
    }
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

/// What a case gives.
pub(super) struct Watched {
    pub(super) row: SeenRow,
    /// Of all seeds together.
    pub(super) all: Moved,
    pub(super) by_seed: Vec<Moved>,
}

/// Some migrations.
#[derive(Clone, Default)]
pub(super) struct Moved {
    /// Longest delay of a core's access in each of them, in cycles.
    pub(super) longest: Vec<f64>,
    pub(super) timelines: Vec<Timeline>,
}

/// What was seen of a case.
#[derive(Default)]
struct Visits {
    moved: Moved,
    seen: Vec<SeenAccess>,
    /// Seen without migrations.
    still: Vec<SeenAccess>,
    transactions: u64,
    failed_transactions: u64,
}

impl Visits {
    fn extend(&mut self, other: &Visits) {
        self.moved.longest.extend(&other.moved.longest);
        self.moved.timelines.extend(&other.moved.timelines);
        self.seen.extend(&other.seen);
        self.still.extend(&other.still);
        self.transactions += other.transactions;
        self.failed_transactions += other.failed_transactions;
    }

    /// Accesses of cores, not of the NIC.
    fn of_cores(all: &[SeenAccess], cores: u8) -> Vec<SeenAccess> {
        all.iter().filter(|a| a.agent < cores).copied().collect()
    }
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
    let seeds = params.seeds.iter();
    let by_seed = seeds.map(|&seed| visits(params, case, seed));
    let by_seed = by_seed.collect::<Result<Vec<Visits>>>()?;
    let mut all = Visits::default();
    by_seed.iter().for_each(|one| all.extend(one));
    Ok(Watched {
        row: row(case, &all, &by_seed)?,
        all: all.moved,
        by_seed: by_seed.into_iter().map(|one| one.moved).collect(),
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
        visits.moved.longest.push(longest.unwrap_or(0) as f64);
        visits.seen.extend(during);
    }
    still.take_seen();
    advance(&mut still, WARM_UP_CYCLES, now);
    machine.check_values()?;
    visits.still = still.take_seen();
    visits.transactions = machine.transactions;
    visits.failed_transactions = machine.failed_transactions;
    visits.moved.timelines = machine.finished;
    Ok(visits)
}

fn row(case: WatchedCase, all: &Visits, by_seed: &[Visits]) -> Result<SeenRow> {
    let cores = case.remote_tlbs + 1;
    let seeds: Vec<SeenFigures> = by_seed.iter().map(|one| figures(one, cores)).collect();
    Ok(SeenRow {
        way: case.way,
        remote_tlbs: case.remote_tlbs,
        page_bytes: if case.is_large { 2 << 20 } else { 4096 },
        migrations: all.moved.timelines.len(),
        accesses: Visits::of_cores(&all.seen, cores).len(),
        longest: MedianRange::of(all.moved.longest.clone()).context("migrations: none")?,
        figures: figures(all, cores),
        seeds: SeedEnds::of(&seeds).context("seeds: none")?,
    })
}

fn figures(visits: &Visits, cores: u8) -> SeenFigures {
    let own = Visits::of_cores(&visits.seen, cores);
    let own_still = Visits::of_cores(&visits.still, cores);
    let nic_max = |all: &[SeenAccess]| {
        let of_nic = all.iter().filter(|a| a.agent == cores);
        of_nic.map(|a| a.latency_cycles).max().unwrap_or(0) as f64
    };
    let done = visits.moved.timelines.iter().filter_map(|t| t.done_cycles);
    let lost = visits.failed_transactions as f64 / visits.transactions as f64;
    let most = |part: fn(&SeenAccess) -> u64| own.iter().map(part).max().unwrap_or(0) as f64;
    let share = |test: fn(&SeenAccess) -> bool| mean_of(&own, |a| f64::from(u8::from(test(a))));
    SeenFigures {
        delayed_share: share(|a| a.delay_cycles() > 0),
        uncached_share: share(|a| a.lines.is_uncached),
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_those_of_each_seed_alone() {
        let shipped: UnavailableParams =
            crate::shipped_parameters("hw-unavailable", true).expect("shipped");
        let seen = |seeds: &[u64]| {
            let params = UnavailableParams {
                seeds: seeds.to_vec(),
                ..shipped.clone()
            };
            let case = WatchedCase {
                way: Way::NonCacheable,
                remote_tlbs: 1,
                is_large: false,
                change: |_, _| {},
            };
            watch(&params, case).expect("runs").row
        };
        let (both, one, other) = (seen(&[1, 2]), seen(&[1]).figures, seen(&[2]).figures);
        let SeedEnds { least, greatest } = both.seeds;
        assert_eq!(least, one.with(other, f64::min));
        assert_eq!(greatest, one.with(other, f64::max));
        assert!(least.delayed_share < both.figures.delayed_share);
        assert!(both.figures.delayed_share < greatest.delayed_share);
        assert_eq!(both.figures.delay.max, greatest.delay.max);
    }
}
