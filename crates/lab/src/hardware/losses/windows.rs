// SPDX-License-Identifier: MIT OR Apache-2.0
//! Windows of a run and of its clones, one of which migrates a page in each.

use super::super::stats::advance;
use super::super::{Server, Service, Way};
use super::LossParams;
use ample_kit::random::SplitMix64;
use ample_machine::multi::MultiCore;
use anyhow::{Context, Result, bail};

/// One window of one clone; times are those of one page where several move at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) lost_ns: f64,
    pub(super) late_lost_ns: f64,
    pub(super) migration_ns: Option<f64>,
    pub(super) blocked_ns: f64,
}

/// What the placebo loses on one core of eight: 3 ns of the machine.
const PLACEBO_CYCLES: u64 = 50;

type Server8 = MultiCore<Server>;

fn blocked(machine: &Server8) -> u64 {
    machine.cores.iter().map(|core| core.blocked_cycles).sum()
}

/// Runs a machine to two moments and returns its work at both.
fn observe(machine: &mut Server8, now: u64, late: u64, end: u64) -> (u64, u64) {
    advance(machine, now, late);
    let at_late = machine.work();
    advance(machine, late, end);
    (at_late, machine.work())
}

/// One clone's future: a migration of `page`, or the placebo.
fn future(
    mut machine: Server8,
    way: Option<Way>,
    page: u32,
    (start, late, end): (u64, u64, u64),
    still: (u64, u64, u64),
) -> Result<(Event, u64)> {
    let ghz = machine.memory.params().clock_ghz;
    let before = still.0;
    let blocked_before = blocked(&machine);
    let pages = way.map_or(1, |way| way.pages_at_once(machine.os_params()));
    match way {
        Some(way) => {
            let engine = machine.memory.params().engine;
            machine.memory.set_engine(way.engine(engine))?;
            let buffers = Server::buffer_pages(machine.memory.params().cores);
            let each = (page..page + pages).map(|page| (page % buffers, way.mover()));
            machine.requests.extend(each);
        }
        None => machine.cores[0].spend(PLACEBO_CYCLES),
    }
    let (at_late, at_end) = observe(&mut machine, start, late, end);
    machine
        .check_values()
        .with_context(|| format!("mover {way:?}"))?;
    if way.is_some() && machine.finished.len() != pages as usize {
        let way = format!("{way:?}");
        bail!("window_us: a migration ({way}) had not ended after the window; choose a longer one");
    }
    let share = |moved: u64, still: u64| 1.0 - moved as f64 / still as f64;
    let (_, still_late, still_end) = still;
    let whole = (end - start) as f64 / ghz;
    let tail = (end - late) as f64 / ghz;
    let each = 1.0 / f64::from(pages);
    let event = Event {
        lost_ns: share(at_end - before, still_end - before) * whole * each,
        late_lost_ns: share(at_end - at_late, still_end - still_late) * tail * each,
        migration_ns: machine
            .finished
            .first()
            .and_then(|t| t.done_cycles)
            .map(|cycles| cycles as f64 / ghz),
        blocked_ns: (blocked(&machine) - blocked_before) as f64 / ghz * each,
    };
    Ok((event, at_end - before))
}

/// All windows of one server and seed: for each, one event a mover and then the placebo's.
pub(super) fn one_seed(
    params: &LossParams,
    service: Service,
    seed: u64,
) -> Result<(Vec<Vec<Event>>, u64)> {
    let memory = params.memory;
    let per_us = memory.clock_ghz * 1e3;
    let mut machine = Server::machine(service, &memory, params.os, 1, seed)?;
    let mut rng = SplitMix64::new(seed ^ 0x6d69_6772_6174_6573);
    let mut now = (params.warm_up_us * per_us) as u64;
    advance(&mut machine, 0, now);
    let mut instructions = 0;
    let mut all = Vec::new();
    for _ in 0..params.events {
        // Windows start at random moments, up to a fifth of a window after the last one.
        let before = now;
        now += (rng.unit() * params.window_us * per_us / 5.0) as u64;
        advance(&mut machine, before, now);
        let end = now + (params.window_us * per_us) as u64;
        let late = now + (params.window_us * per_us * 2.0 / 3.0) as u64;
        let page = rng.below(u64::from(Server::buffer_pages(memory.cores))) as u32;
        let past = machine.clone();
        let before = machine.work();
        let (still_late, still_end) = observe(&mut machine, now, late, end);
        let mut events = Vec::new();
        for way in params.futures() {
            let still = (before, still_late, still_end);
            let (event, worked) = future(past.clone(), way, page, (now, late, end), still)?;
            events.push(event);
            instructions += worked;
        }
        all.push(events);
        now = end;
    }
    Ok((all, instructions + machine.work()))
}
