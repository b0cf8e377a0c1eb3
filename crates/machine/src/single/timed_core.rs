// SPDX-License-Identifier: MIT OR Apache-2.0
//! A calibrated out-of-order core with O(1) work an instruction.
//!
//! Each instruction gets a dispatch time (width, reorder buffer, store buffer), a start (when the
//! load its address depends on is done), a completion (translation, then cache) and an in-order
//! commit time. Nothing is simulated cycle by cycle: an instruction's times follow from those of
//! earlier ones, so that speed does not depend on how long memory takes.
//!
//! By [`AccessOrder::Events`] TLBs and walkers see accesses in the order in which they start: one
//! whose address is still to be loaded waits in [`Flight`] while later ones go by. Nothing that is
//! yet to be dispatched can start before what is taken from there: it is dispatched later, or waits
//! for room that an access in flight makes at its end.
//!
//! Time unit: a `width`-th of a cycle, so that an instruction takes one unit of dispatch.

mod order;

use super::core_config::{AccessOrder, CoreConfig, StoresTranslate};
use super::functional::{intent_of, walks_often};
use super::in_flight::{Done, Flight, HISTORY, InFlight};
use super::pending::PendingWalks;
use super::ports::{CorePort, WalkActive, WarmPort};
use super::report::{Mark, TimedReport};
use ample_memory::{MemorySystem, READ_AHEAD};
use ample_trace::{Access, AccessKind, Consumer};
use ample_translate::engine::{BadAccess, Translated};
use ample_translate::{Engine, Intent};
use std::collections::VecDeque;
use std::hint::black_box;

/// Accesses whose page-table entries, and data, are read ahead at once.
const AHEAD: usize = READ_AHEAD / 2;

/// One core at work.
pub struct TimedCore<M: MemorySystem> {
    /// TLBs, page-walk caches and walkers of this core.
    pub engine: Engine,
    /// Caches and memory.
    pub memory: M,
    units: u64,
    rob: u64,
    walkers: Vec<u64>,
    active: WalkActive,
    /// Memory instructions in flight: number and commit time.
    window: Vec<(u64, u64)>,
    oldest: usize,
    newest: usize,
    flight: Flight,
    instructions: u64,
    /// Instructions before a fetch that commit behind accesses in flight.
    carried: u64,
    front: u64,
    /// 256ths of a unit by which the front end is later than `front`, from instructions that were
    /// not simulated.
    paced: u64,
    commit: u64,
    /// When the place of a store was free again, by its number modulo the places.
    stores: Vec<u64>,
    /// Place of the store that commits next.
    store_at: usize,
    /// Stores whose place is still taken.
    stores_ahead: usize,
    /// Addresses of stores that have committed and are to be translated.
    committed_stores: VecDeque<u64>,
    stores_at_commit: bool,
    events: bool,
    pending: PendingWalks,
    last_drain: u64,
    stall_units: u64,
    fetch_stall_units: u64,
    fault_stall_units: u64,
    /// Whether many accesses walk, so that reading ahead pays.
    far: bool,
    /// The access that stopped the run, with its number.
    pub failed: Option<Failed>,
    start: Mark,
}

/// An access that could not be translated, with its number.
type Failed = (u64, BadAccess);

impl<M: MemorySystem> TimedCore<M> {
    /// A core; `engine` must have been made with `config.width` units a cycle.
    pub fn new(config: &CoreConfig, engine: Engine, memory: M) -> Self {
        let walkers = engine.mmu.config().walkers as usize;
        let window = (config.rob as usize + 2).next_power_of_two();
        TimedCore {
            engine,
            memory,
            units: u64::from(config.width),
            rob: u64::from(config.rob),
            walkers: vec![0; walkers],
            active: WalkActive::default(),
            window: vec![(0, 0); window],
            oldest: 0,
            newest: 0,
            flight: Flight::new(config.rob as usize),
            instructions: 0,
            carried: 0,
            front: 0,
            paced: 0,
            commit: 0,
            stores: vec![0; config.store_buffer as usize],
            store_at: 0,
            stores_ahead: 0,
            committed_stores: VecDeque::new(),
            stores_at_commit: config.stores_translate == StoresTranslate::Commit,
            events: config.order == AccessOrder::Events,
            pending: PendingWalks::new(),
            last_drain: 0,
            stall_units: 0,
            fetch_stall_units: 0,
            fault_stall_units: 0,
            far: false,
            failed: None,
            start: Mark::default(),
        }
    }

    /// Starts the measured part: what went before was warm-up and has [settled](Self::settle).
    pub fn start_measuring(&mut self) {
        debug_assert!(self.flight.is_empty());
        self.engine.mmu.stats = Default::default();
        self.start = Mark {
            instructions: self.instructions,
            units: self.commit,
            active: self.active.units,
            stall: self.stall_units,
            fetch_stall: self.fetch_stall_units,
            fault_stall: self.fault_stall_units,
        };
    }

    /// What has been measured so far, once it has [settled](Self::settle).
    pub fn report(&self) -> TimedReport {
        let cycles = |units: u64| units as f64 / self.units as f64;
        let total = cycles((self.commit - self.start.units).max(1));
        let instructions = self.instructions - self.start.instructions;
        TimedReport {
            instructions,
            cycles: total,
            ipc: instructions as f64 / total,
            walk_active_cycles: cycles(self.active.units - self.start.active).min(total),
            walk_duration_cycles: cycles(self.engine.mmu.stats.walk_cycles),
            translation_stall_cycles: cycles(self.stall_units - self.start.stall),
            fetch_translation_stall_cycles: cycles(self.fetch_stall_units - self.start.fetch_stall),
            fault_stall_cycles: cycles(self.fault_stall_units - self.start.fault_stall),
        }
    }

    /// Commit time so far and time with a walk under way, in `width`-ths of a cycle.
    #[inline(always)]
    pub fn clock(&self) -> (u64, u64) {
        (self.commit, self.active.units)
    }

    /// Simulates one access to its end: TLBs see it before later ones, also where those start
    /// earlier. For programs whose mappings change between accesses.
    ///
    /// # Errors
    /// If its page is not mapped or its rights do not allow it.
    #[inline(never)]
    pub fn run(&mut self, access: &Access) -> Result<(), BadAccess> {
        let taken = self.take::<false>(access);
        taken.and_then(|()| self.drain()).map_err(|(_, bad)| bad)
    }

    /// Takes one access; it may start after later ones.
    #[inline(always)]
    fn take<const REORDER: bool>(&mut self, access: &Access) -> Result<(), Failed> {
        match access.kind {
            AccessKind::Fetch => self.fetch(access),
            AccessKind::Load | AccessKind::Store => self.step::<REORDER>(access),
        }
    }

    /// Takes one access into TLBs and caches without simulating the core, which gets through each
    /// instruction in `pace` 256ths of a unit: functional warming between the windows of a sampled
    /// run (SMARTS, Wunderlich et al., ISCA 2003, §3). Requests reach memory at the times that the
    /// pace gives, so that its queues are as full as they were.
    ///
    /// # Errors
    /// If its page is not mapped or its rights do not allow it.
    #[inline]
    pub fn warm(&mut self, access: &Access, pace: u64) -> Result<(), BadAccess> {
        let slots = access.instructions();
        self.instructions += slots;
        self.paced += slots * pace;
        self.front = self.front.max(self.commit) + (self.paced >> 8);
        self.paced &= 0xff;
        self.commit = self.front;
        let now = self.front;
        let mut port = WarmPort {
            memory: &mut self.memory,
            arrivals: self.events,
        };
        let intent = intent_of(access.kind);
        let pa = self.engine.translate(access.va, intent, now, &mut port)?.pa;
        match access.kind {
            AccessKind::Fetch => self.memory.fetch(pa, now),
            AccessKind::Load => self.memory.data(pa, false, now),
            AccessKind::Store => self.memory.data(pa, true, now),
        };
        Ok(())
    }

    #[inline(always)]
    fn translate(&mut self, va: u64, intent: Intent, now: u64) -> Result<Translated, BadAccess> {
        let mut port = CorePort {
            memory: &mut self.memory,
            walkers: &mut self.walkers,
            current: 0,
            active: &mut self.active,
            arrivals: self.events,
        };
        if self.events || intent == Intent::Fetch {
            return self.engine.translate(va, intent, now, &mut port);
        }
        let before = self.engine.mmu.stats.l1d_misses;
        let mut answer = self.engine.translate(va, intent, now, &mut port)?;
        let mmu = &self.engine.mmu;
        match mmu.stats.l1d_misses == before {
            true => answer.done = self.pending.wait(mmu, va, now, answer.done),
            false => self.pending.note(mmu, va, answer.done),
        }
        Ok(answer)
    }

    /// Time of faults since the operating system had worked for `os_cycles`.
    #[inline(always)]
    fn faulted_since(&self, os_cycles: u64) -> u64 {
        (self.engine.os_cycles - os_cycles) * self.units
    }

    /// Commit time of instruction number `number`, which lies a whole window back.
    #[inline(always)]
    fn committed(&mut self, number: u64) -> u64 {
        let mask = self.window.len() - 1;
        while self.oldest + 1 < self.newest && self.window[(self.oldest + 1) & mask].0 <= number {
            self.oldest += 1;
        }
        let (at, commit) = self.window[self.oldest & mask];
        if at > number {
            0
        } else {
            commit + (number - at)
        }
    }

    /// Dispatches `slots` instructions as soon as the reorder buffer has room for the last.
    #[inline(always)]
    fn dispatch(&mut self, slots: u64) -> Result<(), Failed> {
        self.instructions += slots;
        self.front += slots;
        if self.instructions > self.rob {
            let last = self.instructions - self.rob;
            while (self.flight.oldest()).is_some_and(|oldest| oldest.number <= last) {
                self.run_earliest()?;
            }
            let room = self.committed(last);
            self.front = self.front.max(room);
        }
        Ok(())
    }

    /// Dispatches a store as soon as there is a place for it.
    #[inline(always)]
    fn dispatch_store(&mut self) -> Result<(), Failed> {
        while self.stores_ahead == self.stores.len() {
            self.run_earliest()?;
        }
        let mut place = self.store_at + self.stores_ahead;
        if place >= self.stores.len() {
            place -= self.stores.len();
        }
        self.front = self.front.max(self.stores[place]);
        Ok(())
    }

    #[inline(always)]
    fn step<const REORDER: bool>(&mut self, access: &Access) -> Result<(), Failed> {
        let mut slots = access.instructions();
        self.dispatch(slots)?;
        let is_store = access.kind == AccessKind::Store;
        if is_store {
            self.dispatch_store()?;
        }
        while self.flight.earliest() <= self.front || self.flight.is_full() {
            self.run_earliest()?;
        }
        let dep = usize::from(access.dep);
        let value = match dep {
            1..HISTORY => self.flight.completed(dep as u64),
            _ => 0,
        };
        slots += std::mem::take(&mut self.carried);
        if !self.flight.is_empty() || REORDER && value > self.front {
            let access = InFlight::new(access.va, is_store, self.instructions, slots, self.front);
            return self.hold(access, dep as u64, value);
        }
        let start = self.front.max(value);
        let done = self.perform(access.va, is_store, start);
        let done = done.map_err(|bad| (self.flight.next(), bad))?;
        self.flight.pass(done.complete);
        self.stores_ahead += usize::from(is_store);
        self.commit(self.instructions, access.va, slots, is_store, &done);
        Ok(())
    }

    /// Translates an access and asks memory for its line.
    #[inline(always)]
    fn perform(&mut self, va: u64, is_store: bool, start: u64) -> Result<Done, BadAccess> {
        if is_store && self.stores_at_commit {
            return Ok(Done::at(start + self.units));
        }
        let os_cycles = self.engine.os_cycles;
        let intent = match is_store {
            true => Intent::Write,
            false => Intent::Read,
        };
        let Translated { pa, done } = self.translate(va, intent, start)?;
        let (data, _) = self.memory.data(pa, is_store, done);
        Ok(Done {
            // A store commits once its address is known; its line may come later.
            complete: match is_store {
                true => done + self.units,
                false => data,
            },
            data,
            translating: done - start,
            fault: self.faulted_since(os_cycles),
        })
    }

    /// Commits the memory instruction `number` and those without an access before it.
    #[inline(always)]
    fn commit(&mut self, number: u64, va: u64, slots: u64, is_store: bool, done: &Done) {
        let in_order = self.commit + slots;
        if done.complete > in_order {
            let stall = (done.complete - in_order).min(done.translating);
            let fault = done.fault.min(stall);
            self.fault_stall_units += fault;
            self.stall_units += stall - fault;
        }
        self.commit = in_order.max(done.complete);
        if is_store && self.stores_at_commit {
            self.committed_stores.push_back(va);
            self.flight.store_at(self.commit);
        } else if is_store {
            self.drained(self.commit.max(done.data));
        }
        // Of the records of one instruction the last counts: the window has room for all others.
        let mask = self.window.len() - 1;
        let last = self.newest.wrapping_sub(1) & mask;
        if self.newest > 0 && self.window[last].0 == number {
            self.window[last].1 = self.commit;
            return;
        }
        self.window[self.newest & mask] = (number, self.commit);
        self.newest += 1;
        debug_assert!(self.newest - self.oldest <= mask + 1);
    }

    /// The oldest store in its buffer has its line at `data` and leaves after those before it.
    #[inline(always)]
    fn drained(&mut self, data: u64) {
        self.last_drain = self.last_drain.max(data);
        self.stores[self.store_at] = self.last_drain;
        self.stores_ahead -= 1;
        self.store_at += 1;
        if self.store_at == self.stores.len() {
            self.store_at = 0;
        }
    }

    /// Reads what the model needs for these accesses, entries and lines, and changes nothing.
    #[inline(always)]
    fn read_ahead(&self, chunk: &[Access]) -> u64 {
        let mut found = [0; READ_AHEAD];
        let mut count = 0;
        let addresses = chunk.iter().map(|access| access.va);
        self.engine.read_ahead(addresses, |entry, pa| {
            found[count] = entry;
            found[count + 1] = pa;
            count += 2;
        });
        self.memory.read_ahead(&found[..count])
    }

    /// An instruction fetch holds the front end until its line is there. The instructions before
    /// it access no memory.
    fn fetch(&mut self, access: &Access) -> Result<(), Failed> {
        if access.gap > 0 {
            let slots = access.instructions();
            self.dispatch(slots)?;
            match self.flight.is_empty() {
                true => self.commit += slots,
                false => self.carried += slots,
            }
        }
        while self.flight.earliest() <= self.front {
            self.run_earliest()?;
        }
        let (now, os_cycles) = (self.front, self.engine.os_cycles);
        let answer = self.translate(access.va, Intent::Fetch, now);
        let answer = answer.map_err(|bad| (self.flight.next(), bad))?;
        let fault = self.faulted_since(os_cycles);
        self.fault_stall_units += fault;
        self.fetch_stall_units += answer.done - now - fault;
        let (ready, _) = self.memory.fetch(answer.pa, answer.done);
        self.front = self.front.max(ready);
        Ok(())
    }
}

impl<M: MemorySystem> Consumer for TimedCore<M> {
    fn consume(&mut self, block: &[Access]) -> bool {
        let walks = self.engine.mmu.stats.walks();
        for chunk in block.chunks(AHEAD) {
            if self.far {
                black_box(self.read_ahead(chunk));
            }
            for access in chunk {
                let taken = match self.events {
                    true => self.take::<true>(access),
                    false => self.take::<false>(access),
                };
                if let Err(failed) = taken {
                    self.failed = Some(failed);
                    return false;
                }
            }
        }
        self.far = walks_often(self.engine.mmu.stats.walks() - walks, block.len());
        true
    }
}
