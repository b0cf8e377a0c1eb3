// SPDX-License-Identifier: MIT OR Apache-2.0
//! A calibrated out-of-order core with O(1) work an instruction.
//!
//! Each instruction gets a dispatch time (width, reorder buffer, store buffer), a start (when the
//! load its address depends on is done), a completion (translation, then cache) and an in-order
//! commit time. Nothing is simulated cycle by cycle: an instruction's times follow from those of
//! earlier ones, so that speed does not depend on how long memory takes.
//!
//! Time unit: a `width`-th of a cycle, so that an instruction takes one unit of dispatch.

use super::functional::{AHEAD, intent_of, walks_often};
use super::ports::{CorePort, WalkActive, WarmPort};
use ample_memory::{MemorySystem, READ_AHEAD};
use ample_trace::{Access, AccessKind, Consumer};
use ample_translate::Engine;
use ample_translate::engine::BadAccess;
use serde::{Deserialize, Serialize};
use std::hint::black_box;

/// The core without its caches and TLBs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreConfig {
    /// Clock, GHz.
    pub ghz: f64,
    /// Instructions dispatched and committed a cycle.
    pub width: u32,
    /// Reorder buffer, instructions.
    pub rob: u32,
    /// Stores between commit and the first-level cache.
    pub store_buffer: u32,
}

/// Accesses whose completion is remembered, for dependences.
const HISTORY: usize = 1024;
/// Pages whose walk may still be under way.
const PENDING: usize = 32;

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
    completed: Vec<u64>,
    accesses: u64,
    instructions: u64,
    front: u64,
    /// 256ths of a unit by which the front end is later than `front`, from instructions that were
    /// not simulated.
    paced: u64,
    commit: u64,
    stores: Vec<u64>,
    store_at: usize,
    last_drain: u64,
    pending: [(u64, u64); PENDING],
    pending_until: u64,
    stall_units: u64,
    fetch_stall_units: u64,
    fault_stall_units: u64,
    /// Whether many accesses walk, so that reading ahead pays.
    far: bool,
    /// The access that stopped the run, with its number.
    pub failed: Option<(u64, BadAccess)>,
    start: Mark,
}

/// Counters at the start of the measured part.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    instructions: u64,
    units: u64,
    active: u64,
    stall: u64,
    fetch_stall: u64,
    fault_stall: u64,
}

/// What a timed run reports; cycles are of the core.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimedReport {
    /// Instructions committed.
    pub instructions: u64,
    /// Cycles taken.
    pub cycles: f64,
    /// Instructions a cycle.
    pub ipc: f64,
    /// Cycles with a page walk under way, as hardware counters count.
    pub walk_active_cycles: f64,
    /// Sum of all walks' durations, cycles.
    pub walk_duration_cycles: f64,
    /// Commit cycles lost to translation: an estimate, at most the walk latency of each access.
    pub translation_stall_cycles: f64,
    /// Front-end cycles lost to instruction translation.
    pub fetch_translation_stall_cycles: f64,
    /// Commit and front-end cycles lost to the operating system's work in page faults.
    pub fault_stall_cycles: f64,
}

impl TimedReport {
    /// Walk-active cycles in percent of all.
    pub fn walk_percent(&self) -> f64 {
        100.0 * self.walk_active_cycles / self.cycles
    }
}

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
            completed: vec![0; HISTORY],
            accesses: 0,
            instructions: 0,
            front: 0,
            paced: 0,
            commit: 0,
            stores: vec![0; config.store_buffer as usize],
            store_at: 0,
            last_drain: 0,
            pending: [(u64::MAX, 0); PENDING],
            pending_until: 0,
            stall_units: 0,
            fetch_stall_units: 0,
            fault_stall_units: 0,
            far: false,
            failed: None,
            start: Mark::default(),
        }
    }

    /// Starts the measured part: what went before was warm-up.
    pub fn start_measuring(&mut self) {
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

    /// What has been measured so far.
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

    /// Simulates one access.
    ///
    /// # Errors
    /// If its page is not mapped or its rights do not allow it.
    #[inline]
    pub fn run(&mut self, access: &Access) -> Result<(), BadAccess> {
        match access.kind {
            AccessKind::Fetch => self.fetch(access),
            AccessKind::Load | AccessKind::Store => self.step(access),
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
        let mut port = WarmPort(&mut self.memory);
        let intent = intent_of(access.kind);
        let pa = self.engine.translate(access.va, intent, now, &mut port)?.pa;
        match access.kind {
            AccessKind::Fetch => self.memory.fetch(pa, now),
            AccessKind::Load => self.memory.data(pa, false, now),
            AccessKind::Store => self.memory.data(pa, true, now),
        };
        Ok(())
    }

    /// Lets the core stand still for `cycles` (a fault, a shootdown, a context switch).
    pub fn stall(&mut self, cycles: u64) {
        self.front = self.front.max(self.commit) + cycles * self.units;
        self.commit = self.front;
    }

    #[inline(always)]
    fn translate(&mut self, access: &Access, now: u64) -> Result<(u64, u64), BadAccess> {
        let before = self.engine.mmu.stats.l1d_misses;
        let mut port = CorePort {
            memory: &mut self.memory,
            walkers: &mut self.walkers,
            current: 0,
            active: &mut self.active,
        };
        let intent = intent_of(access.kind);
        let answer = self.engine.translate(access.va, intent, now, &mut port)?;
        let mut done = answer.done;
        if self.engine.mmu.stats.l1d_misses != before {
            let (page, at) = self.page_of(access.va);
            self.pending[at] = (page, done);
            self.pending_until = self.pending_until.max(done);
        } else if now < self.pending_until {
            // A hit on an entry that is still on its way waits for it.
            let (page, at) = self.page_of(access.va);
            let (walking, ready) = self.pending[at];
            if walking == page {
                done = done.max(ready);
            }
        }
        Ok((answer.pa, done))
    }

    /// The page of an address just translated, and where its walk is remembered.
    #[inline(always)]
    fn page_of(&self, va: u64) -> (u64, usize) {
        let (base, bits) = self.engine.mmu.page_of(va);
        (base | u64::from(bits), (base >> bits) as usize % PENDING)
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
    fn dispatch(&mut self, slots: u64) {
        self.instructions += slots;
        self.front += slots;
        if self.instructions > self.rob {
            let room = self.committed(self.instructions - self.rob);
            self.front = self.front.max(room);
        }
    }

    #[inline(always)]
    fn step(&mut self, access: &Access) -> Result<(), BadAccess> {
        let slots = access.instructions();
        self.dispatch(slots);
        let is_store = access.kind == AccessKind::Store;
        if is_store {
            self.front = self.front.max(self.stores[self.store_at]);
        }
        let mut start = self.front;
        let dep = usize::from(access.dep);
        if dep > 0 && dep < HISTORY {
            let at = (self.accesses as usize).wrapping_sub(dep) % HISTORY;
            start = start.max(self.completed[at]);
        }
        let os_cycles = self.engine.os_cycles;
        let (pa, translated) = self.translate(access, start)?;
        let (data, _) = self.memory.data(pa, is_store, translated);
        // A store commits once its address is known; its line may come later.
        let complete = if is_store {
            translated + self.units
        } else {
            data
        };
        let in_order = self.commit + slots;
        if complete > in_order {
            let stall = (complete - in_order).min(translated - start);
            let fault = self.faulted_since(os_cycles).min(stall);
            self.fault_stall_units += fault;
            self.stall_units += stall - fault;
        }
        self.commit = in_order.max(complete);
        if is_store {
            self.last_drain = self.last_drain.max(self.commit).max(data);
            self.stores[self.store_at] = self.last_drain;
            self.store_at += 1;
            if self.store_at == self.stores.len() {
                self.store_at = 0;
            }
        }
        self.completed[self.accesses as usize % HISTORY] = complete;
        self.accesses += 1;
        let mask = self.window.len() - 1;
        self.window[self.newest & mask] = (self.instructions, self.commit);
        self.newest += 1;
        if self.newest - self.oldest > mask {
            self.oldest = self.newest - mask;
        }
        Ok(())
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
    fn fetch(&mut self, access: &Access) -> Result<(), BadAccess> {
        if access.gap > 0 {
            let slots = access.instructions();
            self.dispatch(slots);
            self.commit += slots;
        }
        let (now, os_cycles) = (self.front, self.engine.os_cycles);
        let mut port = CorePort {
            memory: &mut self.memory,
            walkers: &mut self.walkers,
            current: 0,
            active: &mut self.active,
        };
        let answer = self
            .engine
            .translate(access.va, intent_of(access.kind), now, &mut port)?;
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
                if let Err(bad) = self.run(access) {
                    self.failed = Some((self.accesses, bad));
                    return false;
                }
            }
        }
        self.far = walks_often(self.engine.mmu.stats.walks() - walks, block.len());
        true
    }
}
