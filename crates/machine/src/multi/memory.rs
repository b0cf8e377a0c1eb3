// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory system with time: the protocol's parties, and an event queue that carries their
//! messages over a ring.
//!
//! The directory is exact and covers all memory (as a large snoop filter would); capacity of the
//! last level decides latency only. Each slice takes one message every other cycle.

use super::below::{Fills, MemoryBelow, Parked, Ready};
use super::follow::FollowedRequests;
use super::lines::{LineMap, MappedLines};
use super::params::{EngineParams, LINE_BYTES, MemoryParams, PAGE_LINES};
use super::private::{Completed, PrivateCache};
use super::ring::Ring;
use super::shadow::Shadow;
use ample_memory::{BadParams, LastLevel};
use ample_migration::protocol::{
    Command, Completion, Controller, Envelope, Issued, LineAddr, LineRequest, Mapping, Message,
    Outbox, Party, Protocol, QueueFull, RequestKind, Role, Slice,
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
    /// Marks of pages that waited for a miss-status entry of their core.
    pub mark_waits: u64,
    /// Messages delivered.
    pub messages: u64,
}

#[derive(Clone)]
pub(super) struct SliceState {
    pub(super) protocol: Slice<MappedLines>,
    /// Tags for timing, and which lines are newer than memory.
    pub(super) tags: LastLevel<()>,
    pub(super) free_at: u64,
}

/// The memory system. Agents `0..cores` are cores; higher numbers are devices. A clone goes on
/// from the same state.
#[derive(Clone)]
pub struct CoherentMemory {
    pub(super) params: MemoryParams,
    pub(super) rules: Protocol,
    pub(super) slices: Vec<SliceState>,
    pub(super) controller: Controller,
    pub(super) cores: Vec<PrivateCache>,
    /// Marks that have come to a core whose miss-status entries were all taken.
    pub(super) waiting_marks: Vec<VecDeque<Message<u64>>>,
    pub(super) devices: LineMap<VecDeque<(u8, u64)>>,
    pub(super) dram: MemoryBelow,
    /// Lines on their way from memory: fetched early, or waited for.
    pub(super) arriving: Fills,
    pub(super) ring: Ring,
    pub(super) waiting: LineMap<VecDeque<Parked>>,
    /// Requests that are followed on their way.
    pub(super) followed: FollowedRequests,
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
            waiting_marks: vec![VecDeque::new(); usize::from(params.cores)],
            devices: LineMap::default(),
            dram: MemoryBelow::new(&params.dram, 1.0 / params.clock_ghz)?,
            arriving: Fills::default(),
            ring: Ring::new(params),
            waiting: LineMap::default(),
            followed: FollowedRequests::default(),
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
        let mut capacity = self.params.mshrs as usize;
        if self.params.engine.marks_apart {
            capacity += core.side.marks().len();
        }
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

    /// Sends what a core has produced by cycle `now`.
    pub(super) fn post_from_core(&mut self, now: u64) {
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
        self.flush(now, None, Ready::At(now));
        Ok(())
    }

    /// Tells the shadow memory that software is about to copy a page.
    pub(super) fn copied_by_software(&mut self, map: Mapping) {
        self.shadow.reuse(map);
    }

    /// Core and line of each miss under way to a line of the source.
    pub(super) fn misses_of(&self, map: Mapping) -> Vec<(u8, LineAddr)> {
        let mut all = Vec::new();
        for (id, core) in (0..).zip(&self.cores) {
            let lines = core.side.misses().iter().map(|miss| miss.line);
            let own = lines.filter(|line| matches!(map.locate(*line), Some((Role::Source, _))));
            all.extend(own.map(|line| (id, line)));
        }
        all
    }

    /// Whether no access of a core or a device to the source is under way.
    pub(super) fn is_unused(&self, map: Mapping) -> bool {
        let is_source = |line: &LineAddr| matches!(map.locate(*line), Some((Role::Source, _)));
        self.misses_of(map).is_empty() && !self.devices.keys().any(is_source)
    }

    /// Migrations in the table.
    pub fn migrations_in_flight(&self) -> usize {
        self.controller.in_flight()
    }

    /// Cycle of the next message, or of memory's next command, if any is due.
    pub fn next_event(&self) -> Option<u64> {
        let events = [self.ring.next_arrival(), self.dram.next_event()];
        events.into_iter().flatten().min()
    }
}

/// Bytes of a page, for callers that count them.
pub const PAGE_BYTES: u64 = PAGE_LINES * LINE_BYTES;
