// SPDX-License-Identifier: MIT OR Apache-2.0
//! The front end of the migration engine: a work queue of descriptors, checks, and completion
//! records, in the manner of ENQCMD and Intel's DSA (Contiguitas §3.3, interface).

use super::faults::PlantedFault;
use super::status::Status;
use super::types::{Design, LineAddr, Mapping, Message, Outbox, Party, Protocol};
use std::collections::VecDeque;

/// A work descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Command {
    /// `Migrate(PPN_Src, PPN_Dst, Flag)`.
    Migrate {
        /// Source, destination, size.
        map: Mapping,
        /// The flag: also copy. Without it the mapping is only installed. On a mapping that is
        /// already installed, copying starts.
        start: bool,
    },
    /// `Clear(PPN_Src)`: ends a migration. Before copying has started it aborts it: both pages
    /// stay as they were and lines cached under the destination go back to the source.
    Clear {
        /// The migration whose source page is given.
        map: Mapping,
    },
}

impl Command {
    /// The migration it is about.
    pub fn map(&self) -> Mapping {
        match *self {
            Self::Migrate { map, .. } | Self::Clear { map } => map,
        }
    }
}

/// The function of the host. It may move all of memory.
pub const HOST: u8 = 0;

/// What a virtual function may do. A guest's frame numbers are translated before they get here, as
/// for its DMA; these are the frames that they may lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VirtualFunction {
    /// Its number, not [`HOST`].
    pub function: u8,
    /// First line of its frames.
    pub first: LineAddr,
    /// Lines in them.
    pub lines: u64,
    /// Table entries that it may hold, so that it cannot take all of them from the others.
    pub entries: u8,
}

impl VirtualFunction {
    fn owns(&self, first: LineAddr, lines: u32) -> bool {
        let end = first.0.checked_add(u64::from(lines));
        first >= self.first && end.is_some_and(|end| end - self.first.0 <= self.lines)
    }
}

/// Written to the completion address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Completion {
    /// Who submitted it.
    pub function: u8,
    /// The command that ended.
    pub command: Command,
    /// Whether it succeeded, or why not.
    pub status: Status,
}

/// ENQCMD found the queue full (it sets ZF): submit again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the work queue is full, submit the descriptor again later")]
pub struct QueueFull;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum State {
    Installing { start: bool },
    Installed,
    Copying,
    Finishing,
    Copied,
    Flushing,
    Clearing,
}

/// A migration, and who has not answered its last messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Slot {
    map: Mapping,
    /// Who submitted it.
    function: u8,
    state: State,
    /// Slices that owe an answer.
    waiting: u8,
    /// Cores that were told to mark the page, or to let it go.
    cores: u8,
}

/// Takes commands of the operating system and leads the slices through them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Controller {
    queue: VecDeque<(u8, Command)>,
    slots: Vec<Slot>,
    functions: Vec<VirtualFunction>,
    /// Functions that were reset and have migrations that do not rest yet.
    resetting: Vec<u8>,
}

impl Controller {
    /// The host lets a guest command its own frames.
    pub fn grant(&mut self, function: VirtualFunction) {
        debug_assert_ne!(function.function, HOST, "the host may move all of memory");
        self.functions.push(function);
    }

    /// ENQCMD of the host: puts a descriptor into the queue.
    ///
    /// # Errors
    /// When the queue has no room, or the host's function is being reset.
    pub fn submit(&mut self, rules: &Protocol, command: Command) -> Result<(), QueueFull> {
        self.submit_as(rules, HOST, command)
    }

    /// ENQCMD at the portal of a function.
    ///
    /// # Errors
    /// When the queue has no room, or the function is being reset.
    pub fn submit_as(
        &mut self,
        rules: &Protocol,
        function: u8,
        command: Command,
    ) -> Result<(), QueueFull> {
        let full = self.queue.len() >= usize::from(rules.queue_entries);
        if full || self.is_resetting(function) {
            return Err(QueueFull);
        }
        self.queue.push_back((function, command));
        debug_assert!(self.queue.len() <= usize::from(rules.queue_entries));
        Ok(())
    }

    /// Whether descriptors wait.
    pub fn has_work(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether a command of this migration waits or is being carried out.
    pub fn works_on(&self, map: Mapping) -> bool {
        let rests = |slot: &Slot| matches!(slot.state, State::Installed | State::Copied);
        let mut moving = self.slots.iter().filter(|slot| !rests(slot));
        let mut waiting = self.queue.iter();
        moving.any(|slot| slot.map == map) || waiting.any(|(_, command)| command.map() == map)
    }

    /// Migrations in the table.
    pub fn in_flight(&self) -> usize {
        self.slots.len()
    }

    /// Resets a function: its descriptors that wait are dropped, with a record each. What is in the
    /// table cannot be dropped, since lines of a page that is copied lie in two frames: each
    /// migration goes on to where software decides, *installed*, *copied* or *cleared*, and writes
    /// its record. A reset of a function that is being reset changes nothing.
    pub fn reset(&mut self, function: u8) -> Vec<Completion> {
        let of = |(by, _): &(u8, Command)| *by == function;
        let dropped = self.queue.iter().copied().filter(of);
        let record = |(function, command)| Completion {
            function,
            command,
            status: Status::Dropped,
        };
        let dropped = dropped.map(record).collect();
        self.queue.retain(|entry| !of(entry));
        if !self.is_resetting(function) {
            self.resetting.push(function);
            self.end_resets();
        }
        dropped
    }

    /// Whether a function has been reset and one of its migrations does not rest yet.
    pub fn is_resetting(&self, function: u8) -> bool {
        self.resetting.contains(&function)
    }

    fn end_resets(&mut self) {
        let slots = &self.slots;
        let busy = |function: &u8| {
            let own = slots.iter().filter(|slot| slot.function == *function);
            let mut states = own.map(|slot| slot.state);
            states.any(|state| !matches!(state, State::Installed | State::Copied))
        };
        self.resetting.retain(busy);
        self.resetting.sort_unstable();
    }

    fn slot(&mut self, map: Mapping) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|slot| slot.map == map)
    }

    /// Leads a migration into a state that ends when `waiting` slices have answered.
    fn enter(&mut self, map: Mapping, state: State, waiting: u8) {
        let slot = self.slot(map).expect("only migrations of the table go on");
        debug_assert_eq!(slot.waiting, 0, "{state:?} while slices owe an answer");
        (slot.state, slot.waiting) = (state, waiting);
    }

    /// Takes the next descriptor. Refusals complete at once.
    pub fn take_next<V: Copy>(
        &mut self,
        rules: &Protocol,
        out: &mut Outbox<V>,
    ) -> Option<Completion> {
        let (function, command) = self.queue.pop_front()?;
        let begun = self.begin(rules, (function, command), out);
        begun.err().map(|status| Completion {
            function,
            command,
            status,
        })
    }

    fn begin<V: Copy>(
        &mut self,
        rules: &Protocol,
        (function, command): (u8, Command),
        out: &mut Outbox<V>,
    ) -> Result<(), Status> {
        let all = rules.slices;
        self.check_range(rules, function, command.map())?;
        let known = self.slot(command.map());
        let known = known.filter(|slot| function == HOST || function == slot.function);
        let known = known.map(|slot| slot.state);
        match (command, known) {
            (Command::Migrate { map, start }, None) => {
                self.check_new(rules, function, map)?;
                self.slots.push(Slot {
                    map,
                    function,
                    state: State::Installing { start },
                    waiting: all,
                    cores: 0,
                });
                self.slots.sort_unstable();
                debug_assert!(self.slots.len() <= usize::from(rules.table_entries));
                self.broadcast(rules, Message::Install(map), out);
            }
            (Command::Migrate { map, start: true }, Some(State::Installed)) => {
                self.start_copy(rules, map, out);
            }
            (Command::Migrate { .. }, Some(_)) => return Err(Status::CopyInProgress),
            (Command::Clear { map }, Some(state @ (State::Copied | State::Installed))) => {
                let flush =
                    state == State::Installed && !rules.has(PlantedFault::AbortWithoutFlush);
                let (state, message) = match flush {
                    true => (State::Flushing, Message::Flush(map)),
                    false => (State::Clearing, Message::Clear(map)),
                };
                self.enter(map, state, all);
                if rules.design == Design::NonCacheable && !rules.has(PlantedFault::ForgetUnmark) {
                    self.tell_cores(rules, map, Message::Unmark(map), out);
                }
                self.broadcast(rules, message, out);
            }
            (Command::Clear { .. }, Some(_)) => return Err(Status::CopyInProgress),
            (Command::Clear { .. }, None) => return Err(Status::NotFound),
        }
        Ok(())
    }

    /// What is wrong with a range whatever the table holds.
    fn check_range(&self, rules: &Protocol, function: u8, map: Mapping) -> Result<(), Status> {
        let owned = |first| {
            let mut functions = self.functions.iter();
            functions.any(|f| f.function == function && f.owns(first, map.lines))
        };
        let trusted = function == HOST || rules.has(PlantedFault::GuestUnchecked);
        rules.check_range(map, || trusted || owned(map.src) && owned(map.dst))
    }

    fn check_new(&self, rules: &Protocol, function: u8, map: Mapping) -> Result<(), Status> {
        if self.slots.iter().any(|slot| slot.map.overlaps(&map)) {
            return Err(Status::Overlap);
        }
        let own = self.slots.iter().filter(|slot| slot.function == function);
        let share = self.functions.iter().find(|f| f.function == function);
        if self.slots.len() >= usize::from(rules.table_entries)
            || share.is_some_and(|share| own.count() >= usize::from(share.entries))
        {
            return Err(Status::TableFull);
        }
        Ok(())
    }

    fn broadcast<V: Copy>(&self, rules: &Protocol, message: Message<V>, out: &mut Outbox<V>) {
        for slice in 0..rules.slices {
            out.send(Party::Controller, Party::Slice(slice), message);
        }
    }

    /// Sends every core a message that it answers.
    fn tell_cores<V: Copy>(
        &mut self,
        rules: &Protocol,
        map: Mapping,
        message: Message<V>,
        out: &mut Outbox<V>,
    ) {
        let slot = self.slot(map).expect("only migrations of the table go on");
        let early = rules.has(PlantedFault::UnmarkBeforeMarked);
        debug_assert!(slot.cores == 0 || early, "cores owe an answer");
        slot.cores += rules.cores;
        for core in 0..rules.cores {
            out.send(Party::Controller, Party::Agent(core), message);
        }
    }

    fn start_copy<V: Copy>(&mut self, rules: &Protocol, map: Mapping, out: &mut Outbox<V>) {
        let first = match rules.parallel_slices {
            true => rules.slices,
            false => 1,
        };
        self.enter(map, State::Copying, first);
        if rules.design == Design::NonCacheable && rules.announce {
            self.tell_cores(rules, map, Message::Mark(map), out);
        }
        for slice in 0..first {
            out.send(Party::Controller, Party::Slice(slice), Message::Turn(map));
        }
    }

    /// Takes an answer of a slice or of a core.
    pub fn handle<V: Copy>(
        &mut self,
        rules: &Protocol,
        message: Message<V>,
        out: &mut Outbox<V>,
    ) -> Option<Completion> {
        let (map, of_core) = match message {
            Message::Installed(map)
            | Message::SliceCopied(map)
            | Message::Finished(map)
            | Message::Flushed(map)
            | Message::Cleared(map) => (map, false),
            Message::Marked(map) | Message::Unmarked(map) => (map, true),
            _ => unreachable!("not a message for the controller"),
        };
        let slot = self.slot(map)?;
        let owed = if of_core {
            &mut slot.cores
        } else {
            &mut slot.waiting
        };
        debug_assert!(*owed > 0, "{:?}: nobody owes an answer", slot.state);
        *owed = owed.checked_sub(1)?;
        if slot.waiting > 0 {
            return None;
        }
        self.go_on(rules, map, out)
    }

    /// All slices have answered.
    fn go_on<V: Copy>(
        &mut self,
        rules: &Protocol,
        map: Mapping,
        out: &mut Outbox<V>,
    ) -> Option<Completion> {
        let slot = self.slot(map)?;
        let function = slot.function;
        let early = rules.has(PlantedFault::UnmarkBeforeMarked);
        let (command, status) = match slot.state {
            State::Installing { start: true } => {
                self.start_copy(rules, map, out);
                return None;
            }
            State::Copying => {
                self.enter(map, State::Finishing, rules.slices);
                self.broadcast(rules, Message::Finish(map), out);
                return None;
            }
            State::Flushing => {
                self.enter(map, State::Clearing, rules.slices);
                self.broadcast(rules, Message::Clear(map), out);
                return None;
            }
            // What the operating system does next may need the marks set, or the page free of them.
            State::Finishing | State::Clearing if slot.cores > 0 && !early => return None,
            State::Installing { start } => {
                self.enter(map, State::Installed, 0);
                (Command::Migrate { map, start }, Status::Installed)
            }
            State::Finishing => {
                self.enter(map, State::Copied, 0);
                (Command::Migrate { map, start: true }, Status::Copied)
            }
            State::Clearing => {
                self.slots.retain(|slot| slot.map != map);
                (Command::Clear { map }, Status::Cleared)
            }
            State::Installed | State::Copied if early => return None,
            State::Installed | State::Copied => unreachable!("nobody owes an answer"),
        };
        self.end_resets();
        Some(Completion {
            function,
            command,
            status,
        })
    }
}
