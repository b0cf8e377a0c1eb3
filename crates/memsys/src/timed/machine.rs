// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server: cores running a program each, a NIC, the memory system, and an operating system
//! that moves pages.

use super::core::{Core, CoreParams, Op, Wait};
use super::memory::{Access, MemorySystem};
use super::params::{BadParams, MemoryParams, PAGE_LINES};
use super::rng::Rng;
use crate::protocol::{Completion, LineAddr, Mapping, OsMigration, OsPhase, Role};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Costs of the operating system's work, in core cycles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OsParams {
    /// System calls, interrupts and context switches a second, each core.
    pub kernel_entries_per_s: f64,
    /// INVLPG, with the pipeline flush (Contiguitas §4: 250).
    pub invlpg_cycles: u64,
    /// Writing a page table entry.
    pub pte_cycles: u64,
    /// ENQCMD and looking at its completion record.
    pub submit_cycles: u64,
    /// Queueing an invalidation for the IOMMU or the NIC.
    pub queue_invalidation_cycles: u64,
    /// Until the IOTLB has dropped an entry.
    pub iotlb_cycles: u64,
    /// Until the NIC has dropped an entry and its requests with it are over.
    pub nic_tlb_cycles: u64,
    /// Sending one inter-processor interrupt.
    pub ipi_send_cycles: u64,
    /// From sending an interrupt to the handler's first instruction.
    pub ipi_flight_cycles: u64,
    /// The handler, without INVLPG.
    pub ipi_handler_cycles: u64,
    /// Taking in one acknowledgement.
    pub ipi_ack_cycles: u64,
}

impl Default for OsParams {
    /// Calibrated on software alone: send + acknowledge 700 cycles a remote core, so that 16
    /// cores take about 6 µs at 2 GHz, the shootdown time LATR (ASPLOS 2018) reports.
    fn default() -> Self {
        Self {
            kernel_entries_per_s: 40_000.0,
            invlpg_cycles: 250,
            pte_cycles: 50,
            submit_cycles: 150,
            queue_invalidation_cycles: 100,
            iotlb_cycles: 1000,
            nic_tlb_cycles: 2000,
            ipi_send_cycles: 400,
            ipi_flight_cycles: 600,
            ipi_handler_cycles: 700,
            ipi_ack_cycles: 300,
        }
    }
}

/// How pages are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mover {
    /// The hardware of the memory system.
    Hardware,
    /// Clear the page table entry, interrupt all cores, copy, restore.
    Software,
}

/// What the program of a core does.
pub trait Program {
    /// Its next access.
    fn next(&mut self, core: u8) -> Op;
    /// The NIC's next access and the cycles until it, if there is a NIC.
    fn next_dma(&mut self) -> Option<(u64, Op)>;
}

/// Times of one migration, in cycles since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Timeline {
    /// Cycle of the start.
    pub start_cycle: u64,
    /// Both mappings usable, the destination purged (cacheable design).
    pub installed_cycles: Option<u64>,
    /// All lines moved.
    pub copied_cycles: Option<u64>,
    /// All TLBs changed.
    pub clean_cycles: Option<u64>,
    /// The source is free.
    pub done_cycles: Option<u64>,
    /// Cycles in which an access to the page had to wait (software: until the entry is back).
    pub unavailable_cycles: u64,
}

impl Timeline {
    /// Cycles of the copy itself, in hardware. The cacheable design copies after the TLBs have
    /// changed, the non-cacheable one before.
    pub fn copying(&self) -> Option<u64> {
        let copied = self.copied_cycles?;
        let before = match (self.installed_cycles, self.clean_cycles) {
            (Some(_), clean) => clean?,
            _ => 0,
        };
        copied.checked_sub(before)
    }
}

struct Hardware {
    os: OsMigration,
    page: u32,
    records: Vec<(u64, Completion)>,
    nic_requested: bool,
    iotlb_requested: bool,
    timeline: Timeline,
}

struct Software {
    page: u32,
    destination: u32,
    initiator: u8,
    copying: bool,
    timeline: Timeline,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Core(u8),
    Nic,
    IotlbDone(u32),
    NicTlbDone(u32),
    ShootdownDone,
}

/// The server.
pub struct Machine<P> {
    /// Memory.
    pub memory: MemorySystem,
    /// Cores.
    pub cores: Vec<Core>,
    program: P,
    os: OsParams,
    entry_interval: f64,
    next_entry: Vec<u64>,
    frames: Vec<u32>,
    /// Pages of data under migration in hardware.
    hardware: Vec<Hardware>,
    software: Option<Software>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    rng: Rng,
    token: u64,
    pending_dma: Option<Op>,
    /// Free frames, taken from the end.
    pub free_frames: Vec<u32>,
    /// Migrations to start: page and how. Taken up at the next kernel entry of any core.
    pub requests: Vec<(u32, Mover)>,
    /// Migrations that ended.
    pub finished: Vec<Timeline>,
    dma_starts: HashMap<u64, u64>,
    /// Accesses of the NIC, and the sum of their latencies.
    pub dma_accesses: u64,
    /// See `dma_accesses`.
    pub dma_latency_cycles: u64,
}

/// A core may run ahead of the memory system by this much between two events.
const QUANTUM_CYCLES: u64 = 64;

impl<P: Program> Machine<P> {
    /// `pages` pages of data in frames `0..pages`, and `spare` free frames behind them.
    ///
    /// # Errors
    /// When the parameters cannot be built or the frames do not suffice.
    pub fn new(
        memory: &MemoryParams,
        core: CoreParams,
        os: OsParams,
        program: P,
        (pages, spare): (u32, u32),
        seed: u64,
    ) -> Result<Self, BadParams> {
        if u64::from(pages) + u64::from(spare) > memory.frames {
            return Err(BadParams {
                field: "frames",
                reason: format!(
                    "{pages} pages and {spare} free frames do not fit in {}",
                    memory.frames
                ),
            });
        }
        let mut rng = Rng::new(seed);
        let interval = memory.clock_ghz * 1e9 / os.kernel_entries_per_s;
        let mut machine = Self {
            memory: MemorySystem::new(memory)?,
            cores: (0..memory.cores).map(|_| Core::new(core)).collect(),
            program,
            os,
            entry_interval: interval,
            next_entry: (0..memory.cores)
                .map(|_| (rng.unit() * interval) as u64)
                .collect(),
            frames: (0..pages).collect(),
            hardware: Vec::new(),
            software: None,
            events: BinaryHeap::new(),
            sequence: 0,
            rng,
            token: 0,
            pending_dma: None,
            free_frames: (pages..pages + spare).collect(),
            requests: Vec::new(),
            finished: Vec::new(),
            dma_starts: HashMap::new(),
            dma_accesses: 0,
            dma_latency_cycles: 0,
        };
        for core in 0..memory.cores {
            machine.schedule(0, Event::Core(core));
        }
        machine.schedule_dma(0);
        Ok(machine)
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    fn schedule_dma(&mut self, now: u64) {
        if let Some((wait, op)) = self.program.next_dma() {
            self.pending_dma = Some(op);
            self.schedule(now + wait, Event::Nic);
        }
    }

    /// Migrations under way.
    pub fn in_flight(&self) -> usize {
        self.hardware.len() + usize::from(self.software.is_some()) + self.requests.len()
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
            match self.cores.get_mut(usize::from(done.agent)) {
                Some(core) => {
                    if core.ended(done.token, done.at) {
                        let at = core.now();
                        self.schedule(at, Event::Core(done.agent));
                    }
                }
                None => {
                    let start = self.dma_starts.remove(&done.token).unwrap_or(done.at);
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
            Event::IotlbDone(page) => self.device_invalidated(page, OsMigration::iotlb),
            Event::NicTlbDone(page) => self.device_invalidated(page, OsMigration::nic_tlb),
            Event::ShootdownDone => self.start_software_copy(at),
        }
    }

    fn device_invalidated(&mut self, page: u32, bit: fn(&crate::protocol::Rules) -> u128) {
        let rules = *self.memory.rules();
        if let Some(h) = self.hardware.iter_mut().find(|h| h.page == page) {
            h.os.invalidated(&rules, bit(&rules));
        }
    }

    /// The line an agent's TLB names; `tlb` is the agent's bit in `stale_tlbs`.
    fn translate(&self, page: u32, index: u32, tlb: u128) -> LineAddr {
        for h in &self.hardware {
            if h.page == page {
                let stale = h.os.stale_tlbs & tlb != 0;
                let role = match (h.os.pte, stale) {
                    (Role::Source, false) | (Role::Destination, true) => Role::Source,
                    _ => Role::Destination,
                };
                return h.os.map.line(role, index);
            }
        }
        let frame = u64::from(self.frames[page as usize]);
        LineAddr(frame * PAGE_LINES + u64::from(index))
    }

    fn dma(&mut self, at: u64) {
        let Some(op) = self.pending_dma else { return };
        if self.software.as_ref().is_some_and(|s| s.page == op.page) {
            // The device would fault; here its access waits, and the wait is counted.
            self.dma_latency_cycles += 100;
            self.schedule(at + 100, Event::Nic);
            return;
        }
        let cores = self.memory.params().cores;
        let line = self.translate(op.page, op.index, 1 << cores);
        self.token += 1;
        self.dma_starts.insert(self.token, at);
        self.memory.access(at, cores, line, op.write, self.token);
        self.schedule_dma(at);
    }

    fn run_core(&mut self, id: u8, at: u64) {
        let c = usize::from(id);
        self.cores[c].skip_to(at);
        loop {
            let core = &mut self.cores[c];
            if self
                .software
                .as_ref()
                .is_some_and(|s| s.copying && s.initiator == id)
                && core.kernel.is_empty()
            {
                if core.outstanding > 0 {
                    core.wait = Wait::Drain;
                    return;
                }
                self.end_software_copy(id);
            }
            let core = &mut self.cores[c];
            let now = core.now();
            if now > at + QUANTUM_CYCLES {
                self.schedule(now, Event::Core(id));
                return;
            }
            if now >= self.next_entry[c] && core.kernel.is_empty() && !self.kernel_entry(id) {
                return;
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
        if let Err(wait) = self.cores[c].make_room(&op) {
            self.cores[c].wait = wait;
            return false;
        }
        let now = self.cores[c].now();
        let line = if copying {
            LineAddr(u64::from(op.page) * PAGE_LINES + u64::from(op.index))
        } else {
            if self.software.as_ref().is_some_and(|s| s.page == op.page) {
                self.cores[c].wait = Wait::Page(op.page);
                return false;
            }
            self.translate(op.page, op.index, 1 << id)
        };
        self.token += 1;
        let token = self.token;
        let outcome = self.memory.access(now, id, line, op.write, token);
        let core = &mut self.cores[c];
        match outcome {
            Access::Done(at) => core.issued_hit(&op, at),
            Access::Pending => core.issued_miss(&op, token),
            Access::Full if core.outstanding == 0 => {
                // A write-back of the same line is under way; there is no miss to wait for.
                let later = now + 20;
                self.schedule(later, Event::Core(id));
                return false;
            }
            Access::Full => {
                core.wait = Wait::Any;
                return false;
            }
        }
        if copying {
            core.kernel.pop_front();
            core.kernel_instructions += u64::from(op.gap) + 1;
        } else {
            core.next = None;
        }
        true
    }

    /// The kernel runs on a core; `false` when it must wait for the core's own misses first.
    fn kernel_entry(&mut self, id: u8) -> bool {
        let c = usize::from(id);
        let rules = *self.memory.rules();
        let bit = 1u128 << id;
        let must_drain = self
            .hardware
            .iter()
            .any(|h| !h.records.is_empty() || h.os.may_invalidate(&rules, bit));
        if must_drain && self.cores[c].outstanding > 0 {
            self.cores[c].wait = Wait::Drain;
            return false;
        }
        let wait = (self.rng.unit() + 0.5) * self.entry_interval;
        self.next_entry[c] = self.cores[c].now() + wait as u64;
        self.start_requests(id);
        for place in 0..self.hardware.len() {
            self.look_at(id, place);
        }
        let (done, active) = std::mem::take(&mut self.hardware)
            .into_iter()
            .partition(|h: &Hardware| h.os.phase == OsPhase::Done);
        self.hardware = active;
        for h in done as Vec<Hardware> {
            self.frames[h.page as usize] = (h.os.map.dst.0 / PAGE_LINES) as u32;
            self.free_frames
                .insert(0, (h.os.map.src.0 / PAGE_LINES) as u32);
            self.finished.push(h.timeline);
        }
        self.software.as_ref().is_none_or(|s| s.initiator != id)
    }

    fn start_requests(&mut self, id: u8) {
        while let Some(&(page, mover)) = self.requests.first() {
            let busy = self.hardware.iter().any(|h| h.page == page)
                || (mover == Mover::Software && self.software.is_some());
            let Some(&frame) = self.free_frames.last() else {
                return;
            };
            if busy {
                return;
            }
            self.requests.remove(0);
            self.free_frames.pop();
            match mover {
                Mover::Hardware => self.start_hardware(id, page, frame),
                Mover::Software => {
                    self.start_software(id, page, frame);
                    return;
                }
            }
        }
    }

    fn start_hardware(&mut self, id: u8, page: u32, frame: u32) {
        let line = |frame: u32| LineAddr(u64::from(frame) * PAGE_LINES);
        let map = Mapping {
            src: line(self.frames[page as usize]),
            dst: line(frame),
            lines: PAGE_LINES as u32,
        };
        self.hardware.push(Hardware {
            os: OsMigration::new(map),
            page,
            records: Vec::new(),
            nic_requested: false,
            iotlb_requested: false,
            timeline: Timeline {
                start_cycle: self.cores[usize::from(id)].now(),
                ..Timeline::default()
            },
        });
    }

    /// What core `id`, in the kernel, does for one migration.
    fn look_at(&mut self, id: u8, place: usize) {
        let rules = *self.memory.rules();
        let core = &mut self.cores[usize::from(id)];
        let h = &mut self.hardware[place];
        for (at, record) in h.records.drain(..) {
            use crate::protocol::Status::{Cleared, Copied, Installed};
            let since = Some(at - h.timeline.start_cycle);
            match record.status {
                Installed => h.timeline.installed_cycles = since,
                Copied => h.timeline.copied_cycles = since,
                Cleared => h.timeline.done_cycles = since,
                _ => {}
            }
            let pte = h.os.pte;
            h.os.completed(&rules, record.status);
            if h.os.pte != pte {
                core.spend(self.os.pte_cycles);
                (h.iotlb_requested, h.nic_requested) = (false, false);
            }
        }
        if h.os.may_invalidate(&rules, 1 << id) {
            core.spend(self.os.invlpg_cycles);
            h.timeline.unavailable_cycles = self.os.invlpg_cycles;
            h.os.invalidated(&rules, 1 << id);
        }
        let now = core.now();
        let mut later = None;
        if h.os.may_invalidate(&rules, OsMigration::iotlb(&rules)) && !h.iotlb_requested {
            core.spend(self.os.queue_invalidation_cycles);
            h.iotlb_requested = true;
            later = Some((now + self.os.iotlb_cycles, Event::IotlbDone(h.page)));
        } else if h.os.may_invalidate(&rules, OsMigration::nic_tlb(&rules)) && !h.nic_requested {
            core.spend(self.os.queue_invalidation_cycles);
            h.nic_requested = true;
            later = Some((now + self.os.nic_tlb_cycles, Event::NicTlbDone(h.page)));
        }
        if h.os.stale_tlbs == 0 && h.os.pte == Role::Destination {
            h.timeline
                .clean_cycles
                .get_or_insert(now - h.timeline.start_cycle);
        }
        if let Some(command) = h.os.next_command(&rules) {
            core.spend(self.os.submit_cycles);
            let at = core.now();
            if self.memory.submit(at, command).is_ok() {
                h.os.submitted(&rules);
            }
        }
        if let Some((at, event)) = later {
            self.schedule(at, event);
        }
    }

    /// Figure 1 of the paper, steps 1 to 5.
    fn start_software(&mut self, id: u8, page: u32, destination: u32) {
        let c = usize::from(id);
        let start = self.cores[c].now();
        self.cores[c].spend(self.os.pte_cycles + self.os.invlpg_cycles);
        let mut acknowledged = self.cores[c].now();
        for other in (0..self.cores.len()).filter(|&other| other != c) {
            self.cores[c].spend(self.os.ipi_send_cycles);
            let arrives = self.cores[c].now() + self.os.ipi_flight_cycles;
            let remote = &mut self.cores[other];
            let work = self.os.ipi_handler_cycles + self.os.invlpg_cycles;
            // A core that waits for memory takes the interrupt at once.
            let from = arrives.max(if remote.wait == Wait::None {
                remote.now()
            } else {
                0
            });
            remote.spend(work);
            acknowledged = acknowledged.max(from + work);
        }
        let acks = self.os.ipi_ack_cycles * (self.cores.len() as u64 - 1);
        if self.pending_dma.is_some() {
            // The NIC, which this model stops at the page, must have dropped its translation.
            let devices = self.os.iotlb_cycles + self.os.nic_tlb_cycles;
            acknowledged = acknowledged.max(start + devices);
        }
        let ready = acknowledged.max(self.cores[c].now()) + acks;
        let spent = ready - self.cores[c].now();
        self.cores[c].spend(spent);
        self.software = Some(Software {
            page,
            destination,
            initiator: id,
            copying: false,
            timeline: Timeline {
                start_cycle: start,
                clean_cycles: Some(ready - start),
                ..Timeline::default()
            },
        });
        self.schedule(ready, Event::ShootdownDone);
    }

    /// Step 6: the initiator copies.
    fn start_software_copy(&mut self, now: u64) {
        let Some(s) = self.software.as_mut().filter(|s| !s.copying) else {
            return;
        };
        s.copying = true;
        let (source, destination, id) = (self.frames[s.page as usize], s.destination, s.initiator);
        let map = Mapping {
            src: LineAddr(u64::from(source) * PAGE_LINES),
            dst: LineAddr(u64::from(destination) * PAGE_LINES),
            lines: PAGE_LINES as u32,
        };
        self.memory.copied_by_software(map);
        let core = &mut self.cores[usize::from(id)];
        for index in 0..PAGE_LINES as u32 {
            for (page, write) in [(source, false), (destination, true)] {
                // Eight loads or stores of 8 bytes a line; those after the first hit.
                core.kernel.push_back(Op {
                    gap: 7,
                    page,
                    index,
                    write,
                    dependent: false,
                });
            }
        }
        core.skip_to(now);
        if core.wait == Wait::None {
            self.schedule(now, Event::Core(id));
        }
    }

    /// Step 7, once all copied lines have arrived.
    fn end_software_copy(&mut self, id: u8) {
        let Some(mut s) = self.software.take() else {
            return;
        };
        let core = &mut self.cores[usize::from(id)];
        core.spend(self.os.pte_cycles);
        let now = core.now();
        s.timeline.copied_cycles = Some(now - s.timeline.start_cycle);
        s.timeline.done_cycles = s.timeline.copied_cycles;
        s.timeline.unavailable_cycles = now - s.timeline.start_cycle;
        self.free_frames.insert(0, self.frames[s.page as usize]);
        self.frames[s.page as usize] = s.destination;
        self.finished.push(s.timeline);
        for waiting in 0..self.cores.len() {
            let core = &mut self.cores[waiting];
            if core.wait == Wait::Page(s.page) {
                core.wait = Wait::None;
                core.blocked_cycles += now.saturating_sub(core.now());
                core.skip_to(now);
                self.schedule(now, Event::Core(waiting as u8));
            }
        }
    }
}
