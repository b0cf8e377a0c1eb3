// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory system with time: the protocol's parties, and an event queue that carries their
//! messages over a ring.
//!
//! The directory is exact and covers all memory (as a large snoop filter would); capacity of the
//! last level decides latency only. Each slice takes one message every other cycle.

use super::lines::{LineMap, MappedLines};
use super::params::{EngineParams, LINE_BYTES, MemoryParams, PAGE_LINES};
use super::private::{Arrays, Completed, PrivateCache, Seen};
use super::ring::Ring;
use super::shadow::Shadow;
use ample_memory::{BadParams, Dram, LastLevel};
use ample_migration::protocol::{
    Command, Completion, Controller, CoreSide, CoreStep, Envelope, Issued, LineAddr, LineRequest,
    LineStore, Mapping, Message, Outbox, Party, Protocol, QueueFull, RequestKind, Role, Slice,
    Taken,
};
use std::collections::VecDeque;

/// What became of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessStatus {
    /// Done in the private caches at this cycle.
    Done(u64),
    /// A miss: [`CoherentMemory::completed`] will list the token.
    Pending,
    /// No MSHR is free, or the line is being written back: try again after a completion.
    Full,
}

/// What happened in the memory system since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct MemoryCounters {
    /// Accesses by agents.
    pub accesses: u64,
    /// Those that missed the private caches.
    pub misses: u64,
    /// Requests that were passed from one slice to another.
    pub forwards: u64,
    /// First accesses refused by the non-cacheable design.
    pub nacks: u64,
    /// Accesses performed in the last level instead of a private cache.
    pub uncached: u64,
    /// Reads of a slice's data that had to go to memory.
    pub llc_misses: u64,
    /// Messages delivered.
    pub messages: u64,
}

#[derive(Clone)]
pub(super) struct SliceState {
    pub(super) protocol: Slice<MappedLines>,
    /// Tags for timing, and which lines are newer than memory.
    pub(super) tags: LastLevel<()>,
    free_at: u64,
}

/// The memory system. Agents `0..cores` are cores; higher numbers are devices. A clone goes on
/// from the same state.
#[derive(Clone)]
pub struct CoherentMemory {
    pub(super) params: MemoryParams,
    pub(super) rules: Protocol,
    pub(super) slices: Vec<SliceState>,
    controller: Controller,
    pub(super) cores: Vec<PrivateCache>,
    devices: LineMap<VecDeque<(u8, u64)>>,
    pub(super) dram: Dram,
    /// Lines the engine reads ahead, and when they arrive.
    pub(super) arriving: LineMap<u64>,
    ring: Ring,
    waiting: LineMap<VecDeque<Envelope<u64>>>,
    pub(super) shadow: Shadow,
    pub(super) out: Outbox<u64>,
    /// Accesses that ended since the caller last emptied the list.
    pub completed: Vec<Completed>,
    /// Completion records written, with their cycle.
    pub records: Vec<(u64, Completion)>,
    /// Counters since the start.
    pub counters: MemoryCounters,
}

impl CoherentMemory {
    /// An empty system.
    ///
    /// # Errors
    /// When the parameters cannot be built.
    pub fn new(params: &MemoryParams) -> Result<Self, BadParams> {
        params.check()?;
        let slice = |id| {
            Ok(SliceState {
                protocol: Slice::new(id, MappedLines::default()),
                tags: LastLevel::new(&params.llc_slice, "llc_slice")?,
                free_at: 0,
            })
        };
        Ok(Self {
            params: *params,
            rules: params.rules(),
            slices: (0..params.slices)
                .map(slice)
                .collect::<Result<_, BadParams>>()?,
            controller: Controller::default(),
            cores: (0..params.cores)
                .map(|_| PrivateCache::new(params))
                .collect::<Result<_, _>>()?,
            devices: LineMap::default(),
            dram: Dram::new(&params.dram, 1.0 / params.clock_ghz)?,
            arriving: LineMap::default(),
            ring: Ring::new(params),
            waiting: LineMap::default(),
            shadow: Shadow::default(),
            out: Outbox::default(),
            completed: Vec::new(),
            records: Vec::new(),
            counters: MemoryCounters::default(),
        })
    }

    /// The rules of the protocol.
    pub fn rules(&self) -> &Protocol {
        &self.rules
    }

    /// Changes the migration hardware, which must be idle; everything else stays as it is.
    ///
    /// # Errors
    /// When the engine cannot be built, or a migration is under way.
    pub fn set_engine(&mut self, engine: EngineParams) -> Result<(), BadParams> {
        let params = MemoryParams {
            engine,
            ..self.params
        };
        params.check()?;
        if self.controller.in_flight() > 0 || self.controller.has_work() {
            return Err(BadParams {
                field: "engine",
                reason: "migrations are under way; it can only be changed when idle".into(),
            });
        }
        (self.params, self.rules) = (params, params.rules());
        Ok(())
    }

    /// The parameters in force.
    pub fn params(&self) -> &MemoryParams {
        &self.params
    }

    /// Main memory, for its counters.
    pub fn dram(&self) -> &Dram {
        &self.dram
    }

    /// Loads that returned something else than the last store: must stay 0.
    pub fn wrong_values(&self) -> u64 {
        self.shadow.wrong
    }

    /// A load or store of `agent` at cycle `now`, to a line as its TLB names it.
    pub fn access(
        &mut self,
        now: u64,
        agent: u8,
        line: LineAddr,
        write: bool,
        token: u64,
    ) -> AccessStatus {
        debug_assert!(
            agent <= self.params.cores + 1,
            "neither core nor NIC nor IOMMU"
        );
        self.counters.accesses += 1;
        if agent >= self.params.cores {
            self.devices
                .entry(line)
                .or_default()
                .push_back((agent, token));
            let value = write.then(|| self.shadow.next_value());
            let envelope = Envelope {
                from: Party::Agent(agent),
                to: Party::Slice(self.rules.home(line)),
                message: Message::Request(LineRequest::of_device(agent, line, value)),
            };
            self.ring.post(now, envelope);
            return AccessStatus::Pending;
        }
        let core = &mut self.cores[usize::from(agent)];
        if let Some(latency) = core.hit(line, write, &mut self.shadow) {
            return AccessStatus::Done(now + latency);
        }
        let capacity = self.params.mshrs as usize;
        let issued = self.at_core(now, agent, |core, step| {
            core.miss(step, line, (write, token), capacity)
        });
        match issued {
            Issued::Refused => {
                self.counters.accesses -= 1;
                AccessStatus::Full
            }
            Issued::Joined => AccessStatus::Pending,
            Issued::Asked => {
                self.counters.misses += 1;
                self.post_from_core(now + self.params.l2_cycles());
                AccessStatus::Pending
            }
        }
    }

    /// Lets a core take a step of the protocol; what it sends stays in the outbox.
    fn at_core<R>(
        &mut self,
        now: u64,
        id: u8,
        act: impl FnOnce(&mut CoreSide<Arrays, u64>, &mut CoreStep<'_, u64, Seen<'_>>) -> R,
    ) -> R {
        let mut seen = Seen {
            agent: id,
            now,
            shadow: &mut self.shadow,
            completed: &mut self.completed,
        };
        let mut step = CoreStep {
            rules: &self.rules,
            core: id,
            observer: &mut seen,
            out: &mut self.out,
        };
        act(&mut self.cores[usize::from(id)].side, &mut step)
    }

    /// Sends what a core has produced by cycle `now`.
    fn post_from_core(&mut self, now: u64) {
        let mut sent = std::mem::take(&mut self.out.sent);
        for envelope in sent.drain(..) {
            let lookup = match envelope.message {
                Message::ProbeReply { .. } => self.params.l2_cycles() / 2,
                Message::Request(request) => {
                    let once = matches!(
                        request.kind,
                        RequestKind::ReadOnce | RequestKind::WriteOnce(_)
                    );
                    self.counters.uncached += u64::from(once);
                    0
                }
                _ => 0,
            };
            self.ring.post(now + lookup, envelope);
        }
        self.out.sent = sent;
    }

    /// ENQCMD at cycle `now`.
    ///
    /// # Errors
    /// When the work queue is full.
    pub fn submit(&mut self, now: u64, command: Command) -> Result<(), QueueFull> {
        debug_assert!(self.out.sent.is_empty(), "an outbox was not emptied");
        self.controller.submit(&self.rules, command)?;
        let completion = self.controller.take_next(&self.rules, &mut self.out);
        if let (Command::Migrate { map, .. }, None) = (command, &completion) {
            self.shadow.alias(map);
        }
        self.records.extend(completion.map(|record| (now, record)));
        self.flush(now, None, 0);
        Ok(())
    }

    /// Tells the shadow memory that software is about to copy a page.
    pub(super) fn copied_by_software(&mut self, map: Mapping) {
        self.shadow.reuse(map);
    }

    /// Migrations in the table.
    pub fn migrations_in_flight(&self) -> usize {
        self.controller.in_flight()
    }

    /// Cycle of the next message, if any is under way.
    pub fn next_event(&self) -> Option<u64> {
        self.ring.next_arrival()
    }

    /// Delivers all messages up to and including cycle `until`.
    pub fn run_until(&mut self, until: u64) {
        while let Some((at, envelope)) = self.ring.take(until) {
            self.deliver(at, envelope);
        }
    }

    fn deliver(&mut self, now: u64, envelope: Envelope<u64>) {
        self.counters.messages += 1;
        match envelope.to {
            Party::Slice(s) => self.deliver_to_slice(now, s, envelope),
            Party::Controller => {
                let record = self
                    .controller
                    .handle(&self.rules, envelope.message, &mut self.out);
                self.records.extend(record.map(|record| (now, record)));
                self.flush(now, None, 0);
            }
            Party::Agent(a) if a < self.params.cores => {
                let message = envelope.message;
                self.at_core(now, a, |core, step| core.receive(step, message));
                self.post_from_core(now);
            }
            Party::Agent(_) => {
                if let Message::Once { line, .. } = envelope.message {
                    let asked = self.devices.get_mut(&line);
                    let asked = asked.expect("a device that is answered has asked");
                    let (agent, token) = asked.pop_front().expect("empty queues are removed");
                    if asked.is_empty() {
                        self.devices.remove(&line);
                    }
                    let at = now;
                    self.completed.push(Completed { agent, token, at });
                }
            }
        }
    }

    fn deliver_to_slice(&mut self, now: u64, s: u8, envelope: Envelope<u64>) {
        let slice = &mut self.slices[usize::from(s)];
        debug_assert_eq!(slice.protocol.id, s, "the message is another slice's");
        let start = now.max(slice.free_at);
        slice.free_at = start + 2;
        self.at_slice(start, s, envelope);
        if let Message::ProbeReply { at, .. } | Message::Unblock { at } = envelope.message {
            self.wake(start + 2, s, at);
        }
        while let Some(at) = self.out.freed.pop() {
            self.wake(start + 2, s, at);
        }
    }

    /// Gives a message to a slice; it is put aside when its line is busy.
    fn at_slice(&mut self, now: u64, s: u8, envelope: Envelope<u64>) {
        let slice = &mut self.slices[usize::from(s)].protocol;
        match slice.handle(&self.rules, envelope.message, &mut self.out) {
            Taken::Busy(at) => self.waiting.entry(at).or_default().push_back(envelope),
            Taken::Yes => {
                self.note_data_in(now, s, &envelope.message);
                let engine = self.copied_here(now, s);
                self.flush(now, Some(s), engine);
                self.fetch_early(now, s, &envelope.message);
            }
        }
    }

    /// Delivers what waited for line `at`, until it is busy again.
    fn wake(&mut self, now: u64, s: u8, at: LineAddr) {
        while !self.slices[usize::from(s)]
            .protocol
            .lines
            .line(at)
            .is_busy()
            && let Some(queue) = self.waiting.get_mut(&at)
        {
            let envelope = queue.pop_front();
            if queue.is_empty() {
                self.waiting.remove(&at);
            }
            if let Some(envelope) = envelope {
                self.at_slice(now, s, envelope);
            }
        }
    }

    /// Sends what a party produced at cycle `now`; `slice` says which one, if it was a slice, and
    /// `engine` for how many cycles its engine is occupied.
    fn flush(&mut self, now: u64, slice: Option<u8>, engine: u64) {
        let written = self.out.performed.take().is_some_and(|performed| {
            self.shadow.performed(&performed);
            performed.written.is_some()
        });
        let tag_cycles = self.params.slice_cycles() / 4;
        let mut sent = std::mem::take(&mut self.out.sent);
        for envelope in sent.drain(..) {
            let table = self.params.engine.table_cycles;
            let ready = match (envelope.message, slice) {
                (Message::Data { at, .. }, Some(s)) => self.data_ready(now, s, at, false) + table,
                (Message::Once { line, .. }, Some(s)) => {
                    self.data_ready(now, s, line, written) + table
                }
                (Message::CopyWrite { map, index, .. }, Some(s)) => {
                    self.data_ready(now, s, map.line(Role::Source, index), false)
                }
                (Message::EngineStep(_), _) => now + engine + self.params.engine.step_cycles,
                // The purge looks at one line a cycle.
                (Message::Installed(map), _) => now + tag_cycles + u64::from(map.lines),
                (Message::Request(_), Some(_)) => {
                    self.counters.forwards += 1;
                    now + tag_cycles + table
                }
                (Message::Nack { .. }, _) => {
                    self.counters.nacks += 1;
                    now + tag_cycles + table
                }
                (_, Some(_)) => now + tag_cycles,
                (_, None) => now,
            };
            debug_assert!(
                ready >= now,
                "{:?} leaves before it is made",
                envelope.message
            );
            self.ring.post(ready, envelope);
        }
        self.out.sent = sent;
        debug_assert!(self.out.performed.is_none() && self.out.copied_here.is_none());
    }
}

/// Bytes of a page, for callers that count them.
pub const PAGE_BYTES: u64 = PAGE_LINES * LINE_BYTES;
