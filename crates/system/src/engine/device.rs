// SPDX-License-Identifier: MIT OR Apache-2.0
//! The migration engine as a device: descriptors of the guest through the protocol's own portal,
//! front end and slices. What they decide is carried out on the guest's memory.

use super::alias::{AliasOrder, PageAliases, PageMove};
use super::shared::{EngineRecord, RegisterWrite, SharedError, SharedMemory};
use ample_machine::multi::MemoryParams;
use ample_migration::protocol::{
    Command, Completion, Controller, Design, DoorbellOrder, Envelope, HOST, HomeLine, LineAddr,
    LineStore, Mapping, Message, Outbox, Party, Portal, Protocol, Register, Slice, Status, Taken,
};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use thiserror::Error;

/// Slices of the last-level cache, and with it of the engine.
const SLICES: u8 = 8;
const LINE_BYTES: u64 = 64;
const LINES_OF_A_PAGE: u32 = 64;
/// Where the emulated PC's memory goes on above the devices.
const HIGH: u64 = 1 << 32;

/// Why the engine stops.
#[derive(Debug, Error)]
pub enum EngineError {
    /// Nothing can be had of the guest.
    #[error(transparent)]
    Shared(#[from] SharedError),
    /// The guest's memory is not as the records would say.
    #[error(
        "{order:?} of {:#x} and {:#x}: {source}{}",
        pages.source_bytes, pages.destination_bytes, hint(source)
    )]
    Alias {
        /// What could not be done.
        order: AliasOrder,
        /// With what.
        pages: PageMove,
        /// Why not.
        source: io::Error,
    },
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::OutOfMemory => {
            " (each page that has moved can take two mappings of the emulator: sysctl \
             vm.max_map_count=1048576 allows more)"
        }
        _ => "",
    }
}

/// Lines of a slice: no core of the model holds any, so that each is as at the start.
#[derive(Debug, Default)]
struct IdleLines(HashMap<LineAddr, HomeLine<()>>);

impl LineStore<()> for IdleLines {
    fn line(&mut self, at: LineAddr) -> &mut HomeLine<()> {
        self.0.entry(at).or_insert_with(|| HomeLine::new(()))
    }
}

/// Where a guest's memory lies: below the devices and above them.
#[derive(Clone, Copy, Debug)]
struct MemoryMap {
    low_bytes: u64,
}

impl MemoryMap {
    /// How far an address lies from the start of memory, leaving out what is not memory; beyond its
    /// end for an address of a device. Alignment to pages stays.
    fn offset(self, address: u64) -> u64 {
        match address {
            low if low < self.low_bytes => low,
            device if device < HIGH => device | 1 << 63,
            high => high - HIGH + self.low_bytes,
        }
    }

    /// The address at an offset that is memory.
    fn address(self, offset: u64) -> u64 {
        match offset < self.low_bytes {
            true => offset,
            false => offset - self.low_bytes + HIGH,
        }
    }
}

/// What the engine has done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EngineCounts {
    /// Writes to registers.
    pub register_writes: u64,
    /// Doorbells by what they ask for.
    pub doorbells: BTreeMap<&'static str, u64>,
    /// Records by the name of their status.
    pub records: BTreeMap<String, u64>,
    /// Migrations that were installed, at once copied ones among them.
    pub installed: u64,
    /// Those that were copied and cleared: the page has moved.
    pub moved: u64,
    /// Those that were cleared before they were copied: nothing has moved.
    pub aborted: u64,
    /// Most entries of the table that were in use at once.
    pub most_entries: usize,
}

/// The engine of one guest: one function, which may move all of memory.
#[derive(Debug)]
pub struct EngineDevice {
    rules: Protocol,
    map: MemoryMap,
    portal: Portal,
    controller: Controller,
    slices: Vec<Slice<IdleLines>>,
    /// Of the descriptors in the queue.
    tags: VecDeque<u32>,
    /// Migrations in the table, and whether they are copied.
    entries: BTreeMap<Mapping, bool>,
    counts: EngineCounts,
}

impl EngineDevice {
    /// An engine of a guest with `memory_bytes` of memory, `low_bytes` of it below the devices, and
    /// `cores` CPUs.
    pub fn new(
        design: Design,
        table_entries: u8,
        (memory_bytes, low_bytes): (u64, u64),
        cores: u8,
    ) -> Self {
        let rules = Protocol {
            design,
            table_entries,
            memory_lines: memory_bytes / LINE_BYTES,
            cores,
            slices: SLICES,
            page_lines: LINES_OF_A_PAGE,
            page_orders: 1,
            ..MemoryParams::table1().rules()
        };
        let slice = |id| Slice::new(id, IdleLines::default());
        EngineDevice {
            rules,
            map: MemoryMap { low_bytes },
            portal: Portal::default(),
            controller: Controller::default(),
            slices: (0..SLICES).map(slice).collect(),
            tags: VecDeque::new(),
            entries: BTreeMap::new(),
            counts: EngineCounts::default(),
        }
    }

    /// What it has done so far.
    pub fn counts(&self) -> &EngineCounts {
        &self.counts
    }

    /// Entries of the table in use.
    pub fn entries(&self) -> usize {
        self.controller.in_flight()
    }

    /// Takes what the guest has written and carries it out, until the queue is empty; whether that
    /// brought records, behind which there may be more to take. Descriptors that arrive together
    /// wait in the queue together. Nothing is taken while there is no room for its record.
    ///
    /// # Errors
    /// If the guest breaks the layout, or its memory cannot be arranged.
    pub fn serve(
        &mut self,
        shared: &mut SharedMemory,
        aliases: &mut impl PageAliases,
    ) -> Result<bool, EngineError> {
        let before = shared.completed();
        loop {
            // Each descriptor in the queue ends with a record, and so may the next write.
            let room = shared.room()? > self.tags.len() as u64;
            let enough = shared.completed() - before >= u64::from(self.rules.queue_entries);
            match if room && !enough {
                shared.take()?
            } else {
                None
            } {
                Some(write) => self.write(write, shared, aliases)?,
                None if self.tags.is_empty() => return Ok(shared.completed() > before),
                None => self.carry_out(shared, aliases)?,
            }
        }
    }

    fn post(
        &mut self,
        shared: &mut SharedMemory,
        status: Option<Status>,
        record: EngineRecord,
    ) -> Result<(), EngineError> {
        let name = status.map_or("Reset".to_owned(), |status| format!("{status:?}"));
        *self.counts.records.entry(name).or_default() += 1;
        Ok(shared.post(EngineRecord {
            status: status.map_or(0, |status| status.code().into()),
            ..record
        })?)
    }

    fn write(
        &mut self,
        write: RegisterWrite,
        shared: &mut SharedMemory,
        aliases: &mut impl PageAliases,
    ) -> Result<(), EngineError> {
        self.counts.register_writes += 1;
        let RegisterWrite {
            register,
            tag,
            value,
        } = write;
        let mut refused = EngineRecord {
            tag,
            ..EngineRecord::default()
        };
        let (register, value) = match register {
            0 => (Register::Source, self.map.offset(value)),
            1 => (Register::Destination, self.map.offset(value)),
            2 => (Register::Pages, value),
            3 => (Register::Doorbell, value),
            _ => return self.post(shared, Some(Status::UnknownCommand), refused),
        };
        if register == Register::Doorbell {
            refused.doorbell = u32::try_from(value).unwrap_or(u32::MAX);
            let name = doorbell_name(value);
            *self.counts.doorbells.entry(name).or_default() += 1;
        }
        match self.portal.write(&self.rules, register, value) {
            Err(status) => self.post(shared, Some(status), refused),
            Ok(None) => Ok(()),
            Ok(Some(DoorbellOrder::Reset)) => {
                for dropped in self.controller.reset(HOST) {
                    self.complete(dropped, shared, aliases)?;
                }
                debug_assert!(!self.controller.is_resetting(HOST), "every migration rests");
                self.post(shared, None, refused)
            }
            Ok(Some(DoorbellOrder::Submit(command))) => {
                if self.tags.len() >= usize::from(self.rules.queue_entries) {
                    self.carry_out(shared, aliases)?;
                }
                let taken = self.controller.submit(&self.rules, command);
                debug_assert_eq!(taken, Ok(()), "there is room, and no reset goes on");
                self.tags.push_back(tag);
                Ok(())
            }
        }
    }

    /// Carries out the next descriptor of the queue to its end.
    fn carry_out(
        &mut self,
        shared: &mut SharedMemory,
        aliases: &mut impl PageAliases,
    ) -> Result<(), EngineError> {
        let mut out = Outbox::default();
        let refused = self.controller.take_next(&self.rules, &mut out);
        let ended = refused.or_else(|| self.deliver(out));
        self.counts.most_entries = self.counts.most_entries.max(self.entries());
        let ended = ended.expect("a descriptor that is taken ends with a record");
        self.complete(ended, shared, aliases)
    }

    /// Delivers messages until none is left; returns the record that the last of them has brought.
    fn deliver(&mut self, first: Outbox<()>) -> Option<Completion> {
        let mut waiting = VecDeque::from(first.sent);
        let mut ended = None;
        while let Some(envelope) = waiting.pop_front() {
            let mut out = Outbox::default();
            let (rules, message) = (&self.rules, envelope.message);
            match envelope.to {
                Party::Controller => {
                    let record = self.controller.handle(rules, message, &mut out);
                    debug_assert!(ended.is_none() || record.is_none(), "one record each");
                    ended = ended.or(record);
                }
                Party::Slice(id) => {
                    let slice = &mut self.slices[usize::from(id)];
                    if let Taken::Busy(_) = slice.handle(rules, message, &mut out) {
                        waiting.push_back(envelope);
                    }
                }
                Party::Agent(core) => out.sent.extend(answer(core, message)),
            }
            waiting.extend(out.sent);
        }
        // Nothing is under way: every line is free, and nobody holds one.
        for slice in &mut self.slices {
            slice.lines.0.clear();
        }
        ended
    }

    /// Does to the guest's memory what a record says, and writes it.
    fn complete(
        &mut self,
        ended: Completion,
        shared: &mut SharedMemory,
        aliases: &mut impl PageAliases,
    ) -> Result<(), EngineError> {
        let map = ended.command.map();
        let address = |line: LineAddr| self.map.address(line.0 * LINE_BYTES);
        let (source_bytes, destination_bytes) = (address(map.src), address(map.dst));
        let pages = map.lines / LINES_OF_A_PAGE;
        let order = self.effect(map, ended.status);
        debug_assert_eq!(self.entries.len(), self.entries(), "one alias an entry");
        if let Some(order) = order {
            let pages = PageMove {
                source_bytes,
                destination_bytes,
                pages: pages.into(),
            };
            let failed = |source| EngineError::Alias {
                order,
                pages,
                source,
            };
            aliases.order(order, pages).map_err(failed)?;
        }
        let record = EngineRecord {
            source_bytes,
            destination_bytes,
            pages,
            doorbell: match ended.command {
                Command::Migrate { start: false, .. } => 1,
                Command::Migrate { start: true, .. } => 2,
                Command::Clear { .. } => 3,
            },
            tag: self.tags.pop_front().expect("one tag a descriptor"),
            status: 0,
        };
        self.post(shared, Some(ended.status), record)
    }

    /// What a record means for the two pages.
    fn effect(&mut self, map: Mapping, status: Status) -> Option<AliasOrder> {
        match status {
            Status::Installed | Status::Copied => {
                let known = self.entries.insert(map, status == Status::Copied).is_some();
                self.counts.installed += u64::from(!known);
                (!known).then_some(AliasOrder::Both)
            }
            Status::Cleared => match self.entries.remove(&map) {
                Some(true) => {
                    self.counts.moved += 1;
                    Some(AliasOrder::Settle)
                }
                _ => {
                    self.counts.aborted += 1;
                    Some(AliasOrder::Undo)
                }
            },
            _ => None,
        }
    }
}

/// What a core answers: no core of the model has a cache. The guest's own CPUs see the memory.
fn answer(core: u8, message: Message<()>) -> Option<Envelope<()>> {
    let message = match message {
        Message::Mark(map) => Message::Marked(map),
        Message::Unmark(map) => Message::Unmarked(map),
        _ => return None,
    };
    Some(Envelope {
        from: Party::Agent(core),
        to: Party::Controller,
        message,
    })
}

fn doorbell_name(value: u64) -> &'static str {
    match value {
        1 => "install",
        2 => "migrate",
        3 => "clear",
        4 => "reset",
        _ => "unknown",
    }
}
