// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server: cores running a program each, a NIC, the memory system, and an operating system
//! that moves pages.

use super::core::{Core, CoreAccess, CoreParams, Wait};
use super::iommu::InvalidationQueue;
use super::memory::{AccessStatus, CoherentMemory};
use super::os_params::{Mover, OsParams};
use super::params::{MemoryParams, PAGE_LINES};
use super::parts::{
    CoreProgram, Event, FailedTransaction, Hardware, PagePlacement, Software, Then, Timeline, Walk,
};
use super::watch::Watch;
use ample_kit::random::SplitMix64;
use ample_memory::BadParams;
use ample_migration::protocol::{LineAddr, OsMigration, Role};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// The server. A clone goes on from the same state: two futures of one past.
#[derive(Clone)]
pub struct MultiCore<P> {
    /// Caches, slices, engine and DRAM that the cores share.
    pub memory: CoherentMemory,
    /// Cores by number.
    pub cores: Vec<Core>,
    pub(super) program: P,
    pub(super) os: OsParams,
    pub(super) entry_interval: f64,
    pub(super) next_entry: Vec<u64>,
    pub(super) frames: Vec<u32>,
    pub(super) group_pages: u32,
    /// TLB entries that map a group.
    pub(super) group_entries: u32,
    /// Pages of data under migration in hardware.
    pub(super) hardware: Vec<Hardware>,
    pub(super) software: Option<Software>,
    /// Copies of the transactional mover that a store made worthless, of pages not moved since.
    pub(super) failed: Vec<FailedTransaction>,
    /// Copies that the transactional mover has made while the page stayed mapped.
    pub transactions: u64,
    /// Those that a store made worthless.
    pub failed_transactions: u64,
    pub(super) queue: InvalidationQueue,
    /// What each core does when its kernel's accesses are over.
    pub(super) then: Vec<Then>,
    /// Token of the IOMMU's read of the ring, if one is under way.
    pub(super) iommu_fetch: Option<u64>,
    /// Its writes of statuses that are under way: token, place, page.
    pub(super) iommu_statuses: Vec<(u64, u64, u32)>,
    /// Tails written, and when, of submissions whose status is not written.
    pub(super) published: VecDeque<(u64, u64)>,
    /// Invalidations of devices that are over, and the sum of their cycles from the write of the
    /// tail to the status in memory.
    pub invalidations: u64,
    /// See `invalidations`.
    pub invalidation_cycles: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    pub(super) rng: SplitMix64,
    pub(super) token: u64,
    pub(super) walks: HashMap<u64, Walk>,
    /// The program has a NIC.
    pub(super) has_nic: bool,
    pub(super) pending_dma: Option<CoreAccess>,
    /// Free frames (the first of each group), taken from the end.
    pub free_frames: Vec<u32>,
    /// Migrations to start: page and how. Taken up at the next kernel entry of any core.
    pub requests: Vec<(u32, Mover)>,
    /// Migrations that ended.
    pub finished: Vec<Timeline>,
    /// Migrations given up: the page stayed where it was.
    pub aborted: Vec<Timeline>,
    /// Commands that met a full table.
    pub refused: u64,
    /// Page-table lines read by walks.
    pub walk_reads: u64,
    /// Cycles of walks; those of walks that overlap all count.
    pub walk_cycles: u64,
    pub(super) dma_starts: HashMap<u64, u64>,
    /// When the NIC's next access was to be made first.
    pub(super) dma_asked_at: Option<u64>,
    pub(super) watch: Watch,
    /// Accesses of the NIC, and the sum of their latencies.
    pub dma_accesses: u64,
    /// See `dma_accesses`.
    pub dma_latency_cycles: u64,
}

/// A core may run ahead of the memory system by this much between two events.
const QUANTUM_CYCLES: u64 = 64;

impl<P: CoreProgram> MultiCore<P> {
    /// A server with its data placed.
    ///
    /// # Errors
    /// When the parameters cannot be built or the frames do not suffice.
    pub fn new(
        memory: &MemoryParams,
        core: CoreParams,
        os: OsParams,
        program: P,
        placement: PagePlacement,
        seed: u64,
    ) -> Result<Self, BadParams> {
        placement.check(memory.frames)?;
        os.check()?;
        let (pages, group) = (placement.pages, placement.group_pages);
        let mut rng = SplitMix64::new(seed);
        let interval = memory.clock_ghz * 1e9 / os.kernel_entries_per_s;
        let mut machine = Self {
            memory: CoherentMemory::new(memory)?,
            cores: (0..memory.cores).map(|_| Core::new(core)).collect(),
            program,
            os,
            entry_interval: interval,
            next_entry: (0..memory.cores)
                .map(|_| (rng.unit() * interval) as u64)
                .collect(),
            frames: (0..pages).collect(),
            group_pages: group,
            group_entries: if placement.is_large_page { 1 } else { group },
            hardware: Vec::new(),
            software: None,
            failed: Vec::new(),
            transactions: 0,
            failed_transactions: 0,
            queue: InvalidationQueue::new(os.invalidation_queue_entries, os.device_invalidations),
            then: vec![Then::Nothing; usize::from(memory.cores)],
            iommu_fetch: None,
            iommu_statuses: Vec::new(),
            published: VecDeque::new(),
            invalidations: 0,
            invalidation_cycles: 0,
            events: BinaryHeap::new(),
            sequence: 0,
            rng,
            token: 0,
            walks: HashMap::new(),
            walk_reads: 0,
            walk_cycles: 0,
            has_nic: false,
            pending_dma: None,
            free_frames: (0..placement.spare).map(|i| pages + i * group).collect(),
            requests: Vec::new(),
            finished: Vec::new(),
            aborted: Vec::new(),
            refused: 0,
            dma_starts: HashMap::new(),
            dma_asked_at: None,
            watch: Watch::default(),
            dma_accesses: 0,
            dma_latency_cycles: 0,
        };
        for core in 0..memory.cores {
            machine.schedule(0, Event::Core(core));
        }
        machine.schedule_dma(0);
        Ok(machine)
    }

    pub(super) fn schedule(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    /// The program, for what it counts.
    pub fn program(&self) -> &P {
        &self.program
    }

    /// Costs of the operating system.
    pub fn os_params(&self) -> &OsParams {
        &self.os
    }

    /// Instructions of the program so far, all cores, without those in which it waited for
    /// packets: the work done.
    pub fn work(&self) -> u64 {
        let all: u64 = self.cores.iter().map(Core::work).sum();
        all.saturating_sub(self.program.waited_instructions())
    }

    /// Refuses to go on from a load that returned a wrong value.
    ///
    /// # Errors
    /// When there was one.
    pub fn check_values(&self) -> Result<(), BadParams> {
        match self.memory.wrong_values() {
            0 => Ok(()),
            wrong => Err(BadParams {
                field: "memory",
                reason: format!("{wrong} loads returned a wrong value: an error of the simulator"),
            }),
        }
    }

    /// Migrations under way.
    pub fn in_flight(&self) -> usize {
        let software = self.software.as_ref().map_or(0, |s| s.moves.len());
        self.hardware.len() + software + self.requests.len()
    }

    /// Runs all events up to cycle `until`.
    pub fn run_until(&mut self, until: u64) {
        loop {
            let own = self.events.peek().map(|Reverse((at, ..))| *at);
            let memory = self.memory.next_event();
            match (own, memory) {
                (_, Some(at)) if at <= until && own.is_none_or(|own| at <= own) => {
                    self.memory.run_until(at);
                    self.take_results();
                }
                (Some(at), _) if at <= until => {
                    if let Some(Reverse((at, _, event))) = self.events.pop() {
                        self.event(at, event);
                        self.take_results();
                    }
                }
                _ => return,
            }
        }
    }

    fn take_results(&mut self) {
        for record in std::mem::take(&mut self.memory.records) {
            let map = record.1.command.map();
            if let Some(h) = self.hardware.iter_mut().find(|h| h.os.map == map) {
                h.records.push(record);
            }
        }
        let mut completed = std::mem::take(&mut self.memory.completed);
        for done in completed.drain(..) {
            self.seen_end(&done);
            if self.walker_read(done.token, done.at) {
                continue;
            }
            match self.cores.get_mut(usize::from(done.agent)) {
                Some(core) => {
                    if core.ended(done.token, done.at) {
                        let at = core.now();
                        self.schedule(at, Event::Core(done.agent));
                    }
                }
                None if done.agent > self.memory.params().cores => {
                    self.iommu_answer(done.token, done.at);
                }
                None => {
                    let start = self.dma_starts.remove(&done.token);
                    let start = start.expect("every access of the NIC has a start");
                    debug_assert!(start <= done.at, "an access ended before it began");
                    self.dma_accesses += 1;
                    self.dma_latency_cycles += done.at - start;
                }
            }
        }
        self.memory.completed = completed;
    }

    fn event(&mut self, at: u64, event: Event) {
        match event {
            Event::Core(core) => {
                if self.cores[usize::from(core)].wait == Wait::None {
                    self.run_core(core, at);
                }
            }
            Event::Nic => self.dma(at),
            Event::Tail(tail) => {
                self.queue.set_tail(tail);
                self.iommu(at);
            }
            Event::IotlbDone => {
                self.queue.done();
                self.iommu(at);
            }
            Event::NicTlbDone {
                place,
                page,
                at: dropped,
            } => self.nic_drops(at, place, page, dropped),
            Event::AskDevices => self.ask_devices(at),
            Event::ShootdownDone => self.shootdown_done(at),
            Event::Walk(token) => self.retry_walk(token, at),
        }
    }

    /// The line an agent's TLB names; `tlb` is the agent's bit in `stale_tlbs`.
    pub(super) fn translate(&self, page: u32, index: u32, tlb: u128) -> LineAddr {
        for h in &self.hardware {
            if (h.page..h.page + self.group_pages).contains(&page) {
                let is_nic = tlb == OsMigration::nic_tlb(self.memory.rules());
                let suspect = h.os.stale_tlbs & !h.unchanged_tlbs & tlb != 0;
                let stale = suspect && !(is_nic && h.nic_dropped);
                let role = match (h.os.pte, stale) {
                    (Role::Source, false) | (Role::Destination, true) => Role::Source,
                    _ => Role::Destination,
                };
                let offset = (page - h.page) * PAGE_LINES as u32;
                return h.os.map.line(role, offset + index);
            }
        }
        let frame = u64::from(self.frames[page as usize]);
        debug_assert!(frame < self.memory.params().frames && u64::from(index) < PAGE_LINES);
        LineAddr(frame * PAGE_LINES + u64::from(index))
    }

    fn run_core(&mut self, id: u8, at: u64) {
        let c = usize::from(id);
        self.cores[c].skip_to(at);
        loop {
            let core = &mut self.cores[c];
            if core.kernel.is_empty() && self.then[c] != Then::Nothing {
                if core.outstanding > 0 {
                    core.wait = Wait::Drain;
                    return;
                }
                if !self.kernel_done(id) {
                    return;
                }
                continue;
            }
            let core = &mut self.cores[c];
            let now = core.now();
            if now > at + QUANTUM_CYCLES {
                self.schedule(now, Event::Core(id));
                return;
            }
            if now >= self.next_entry[c] && core.kernel.is_empty() {
                core.hold();
                if !self.kernel_entry(id) {
                    return;
                }
            }
            if !self.issue(id) {
                return;
            }
        }
    }

    /// Issues one access; `false` when the core must wait.
    fn issue(&mut self, id: u8) -> bool {
        let c = usize::from(id);
        let copying = !self.cores[c].kernel.is_empty();
        let op = match self.cores[c].kernel.front() {
            Some(&op) => op,
            None => *self.cores[c]
                .next
                .get_or_insert_with(|| self.program.next(id)),
        };
        let core = &mut self.cores[c];
        core.release(copying);
        if let Err(wait) = core.make_room(&op) {
            core.wait = wait;
            return false;
        }
        core.come_to_access(copying);
        let mut now = core.now();
        let line = if copying {
            LineAddr(u64::from(op.page) * PAGE_LINES + u64::from(op.index))
        } else {
            if self.is_unmapped(op.page, id) {
                self.cores[c].wait_for_page(op.page);
                return false;
            }
            let mut reads = Vec::new();
            now += self.program.translation(id, &op, &mut reads);
            if !reads.is_empty() {
                self.cores[c].next = None;
                self.cores[c].coming = None;
                self.start_walk(id, op, now, reads);
                return true;
            }
            if op.write {
                self.note_store(op.page);
            }
            self.translate(op.page, op.index, 1 << id)
        };
        self.token += 1;
        let token = self.token;
        let outcome = self.memory.access(now, id, line, op.write, token);
        let core = &mut self.cores[c];
        match outcome {
            AccessStatus::Done(at) => core.issued_hit(&op, at),
            AccessStatus::Pending => core.issued_miss(&op, token),
            AccessStatus::Full if core.outstanding == 0 => {
                // A write-back of the same line is under way; there is no miss to wait for.
                let later = now + 20;
                self.schedule(later, Event::Core(id));
                return false;
            }
            AccessStatus::Full => {
                core.wait = Wait::Any;
                return false;
            }
        }
        if copying {
            core.kernel.pop_front();
            core.kernel_instructions += u64::from(op.gap) + 1;
            return true;
        }
        core.next = None;
        self.note_issued(now, (id, &op), line, token, outcome);
        true
    }
}
