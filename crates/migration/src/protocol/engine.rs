// SPDX-License-Identifier: MIT OR Apache-2.0
//! The copy engine of a slice: passes over the lines the slice is home of, one line at a time as
//! in the paper, or with a window of lines on their way at once when copying.
//!
//! Three kinds of pass use one pointer: purging dead lines of the destination before a
//! migration starts, copying, and flushing when a migration is aborted.

use super::faults::PlantedFault;
use super::home::{Busy, Directory, Todo};
use super::slice::{LineStore, Slice, send_probes};
use super::table::{MetadataEntry, Phase};
use super::types::{LineAddr, Mapping, Message, Outbox, Party, Probe, Protocol, Role, Taken};

impl<S> Slice<S> {
    pub(super) fn engine_message<V: Copy>(
        &mut self,
        rules: &Protocol,
        message: Message<V>,
        out: &mut Outbox<V>,
    ) -> Taken
    where
        S: LineStore<V>,
    {
        match message {
            Message::Install(map) => {
                self.table.insert(map);
                self.step_later(map, out);
            }
            Message::EngineStep(map) => return self.engine_step(rules, map, out),
            Message::Turn(map) => self.start_pass(map, Phase::Copying, out),
            Message::CopyWrite { map, index, data } => {
                let line = self.lines.line(map.line(Role::Destination, index));
                line.data = data;
                self.acknowledge(rules, map, index, out);
            }
            Message::Handover { map, index, owner } => {
                let tag = map.line(Role::Destination, index);
                self.lines.line(tag).directory = Directory::Owned { tag, owner };
                self.acknowledge(rules, map, index, out);
            }
            Message::CopyAck { map, index } => self.line_done(rules, map, index, out),
            Message::Finish(map) => {
                if let Some(entry) = self.table.get_mut(map) {
                    entry.phase = Phase::Done;
                }
                self.tell_controller(Message::Finished(map), out);
            }
            Message::Flush(map) => self.start_pass(map, Phase::Flushing, out),
            Message::Clear(map) => {
                if let Some(entry) = self.table.get_mut(map) {
                    entry.clearing = true;
                }
                self.clear_when_drained(rules, map, out);
            }
            Message::Served { line } => self.forward_served(rules, line, out),
            _ => unreachable!("not a message for a slice"),
        }
        Taken::Yes
    }

    /// A request that this slice had forwarded has found its home.
    pub(super) fn forward_served<V>(
        &mut self,
        rules: &Protocol,
        line: LineAddr,
        out: &mut Outbox<V>,
    ) {
        let entry = self.table.find_mut(line);
        debug_assert!(
            entry.as_ref().is_some_and(|e| e.forwards > 0) || rules.fault.is_some(),
            "{line:?}: an entry waits for its forwards"
        );
        if let Some(entry) = entry {
            entry.forwards = entry.forwards.saturating_sub(1);
            let map = entry.map;
            self.clear_when_drained(rules, map, out);
        }
    }

    fn clear_when_drained<V>(&mut self, rules: &Protocol, map: Mapping, out: &mut Outbox<V>) {
        let early = rules.has(PlantedFault::ClearBeforeForwardsServed);
        let waits = |entry: &MetadataEntry| !entry.clearing || entry.forwards > 0 && !early;
        if !self.table.get(map).is_some_and(waits) {
            self.table.remove(map);
            self.tell_controller(Message::Cleared(map), out);
        }
    }

    fn tell_controller<V>(&self, message: Message<V>, out: &mut Outbox<V>) {
        out.send(self.node(), Party::Controller, message);
    }

    /// Sends itself the next step, unless one is under way.
    fn step_later<V>(&mut self, map: Mapping, out: &mut Outbox<V>) {
        let node = self.node();
        if let Some(entry) = self.table.get_mut(map)
            && !entry.stepping
        {
            entry.stepping = true;
            out.send(node, node, Message::EngineStep(map));
        }
    }

    fn start_pass<V>(&mut self, map: Mapping, phase: Phase, out: &mut Outbox<V>) {
        if let Some(entry) = self.table.get_mut(map) {
            debug_assert_eq!(
                (entry.pointer, entry.next),
                (0, 0),
                "a pass begins at the start"
            );
            entry.phase = phase;
        }
        self.step_later(map, out);
    }

    /// All lines below `pointer` are done, and none is on its way.
    fn advance(&mut self, map: Mapping, pointer: u32) {
        debug_assert!(pointer <= map.lines, "line {pointer} of {}", map.lines);
        if let Some(entry) = self.table.get_mut(map) {
            (entry.pointer, entry.next) = (pointer, pointer);
        }
    }

    fn acknowledge<V>(&self, rules: &Protocol, map: Mapping, index: u32, out: &mut Outbox<V>) {
        let source = rules.home(map.line(Role::Source, index));
        out.send(
            self.node(),
            Party::Slice(source),
            Message::CopyAck { map, index },
        );
    }

    /// The side whose home does the work of a pass.
    fn side(phase: Phase) -> Option<Role> {
        match phase {
            Phase::Purging => Some(Role::Destination),
            Phase::Copying | Phase::Flushing => Some(Role::Source),
            Phase::Redirecting | Phase::Done => None,
        }
    }

    /// Lines of this slice that the engine has begun with and not finished.
    fn on_their_way(&self, rules: &Protocol, side: Role, entry: &MetadataEntry) -> usize {
        let own = |i: &u32| rules.home(entry.map.line(side, *i)) == self.id;
        (entry.pointer..entry.next).filter(own).count()
    }

    /// Begins with the next line, or ends the pass.
    fn engine_step<V: Copy>(&mut self, rules: &Protocol, map: Mapping, out: &mut Outbox<V>) -> Taken
    where
        S: LineStore<V>,
    {
        let Some(&entry) = self.table.get(map) else {
            return Taken::Yes;
        };
        let phase = entry.phase;
        let Some(side) = Self::side(phase) else {
            return Taken::Yes;
        };
        let busy = self.on_their_way(rules, side, &entry);
        let own = |i: &u32| rules.home(map.line(side, *i)) == self.id;
        let found = (entry.next..map.lines).find(own);
        let at = found.map(|index| map.line(side, index));
        let full = busy >= usize::from(rules.copy_window.max(1));
        if let Some(at) = at
            && !full
            && self.lines.line(at).is_busy()
        {
            return Taken::Busy(at);
        }
        if let Some(entry) = self.table.get_mut(map) {
            entry.stepping = false;
        }
        match (found, at) {
            (Some(index), Some(at)) if !full => {
                if let Some(entry) = self.table.get_mut(map) {
                    entry.next = index + 1;
                    if busy == 0 {
                        entry.pointer = index;
                    }
                }
                self.begin_line(rules, map, phase, (index, at), out);
                if phase == Phase::Copying && busy + 1 < usize::from(rules.copy_window) {
                    self.step_later(map, out);
                }
            }
            (None, _) if busy == 0 => self.end_pass(rules, map, phase, out),
            // The line that ends next takes the step.
            _ => {}
        }
        Taken::Yes
    }

    /// Begins with line `index`, which is `at` here.
    fn begin_line<V: Copy>(
        &mut self,
        rules: &Protocol,
        map: Mapping,
        phase: Phase,
        (index, at): (u32, LineAddr),
        out: &mut Outbox<V>,
    ) where
        S: LineStore<V>,
    {
        let directory = self.lines.line(at).directory;
        let keep = match (phase, directory.holders()) {
            (_, None) => true,
            (Phase::Purging, _) => rules.has(PlantedFault::SkipPurge),
            // Lines cached under the source stay valid when a migration is aborted.
            (Phase::Flushing, Some((tag, _))) => tag == at,
            (_, Some(_)) => rules.has(PlantedFault::CopyWithoutInvalidate),
        };
        if let (Phase::Copying, Directory::Owned { tag, owner }) = (phase, directory)
            && tag != at
            && rules.has(PlantedFault::SkipCleanOwner)
        {
            self.skip_line(rules, map, index, owner, out);
        } else if !keep {
            self.engine_probe(map, at, directory, phase, out);
        } else if phase == Phase::Copying {
            self.copy_line(rules, map, index, out);
        } else {
            self.advance(map, index + 1);
            self.step_later(map, out);
        }
    }

    /// Line `index` is at the destination. The pointer passes it once all lines before it are
    /// there too; until then it stays closed to requests.
    fn line_done<V: Copy>(
        &mut self,
        rules: &Protocol,
        map: Mapping,
        index: u32,
        out: &mut Outbox<V>,
    ) where
        S: LineStore<V>,
    {
        let Some(&MetadataEntry { pointer, next, .. }) = self.table.get(map) else {
            return;
        };
        debug_assert!(index < map.lines && next <= map.lines);
        self.lines.line(map.line(Role::Source, index)).busy = Busy::Copied;
        let first = pointer.min(index);
        let mut passed = first;
        for i in first..next {
            let at = map.line(Role::Source, i);
            if rules.home(at) != self.id {
                continue;
            }
            let line = self.lines.line(at);
            if !matches!(line.busy, Busy::Copied) {
                break;
            }
            line.busy = Busy::Free;
            out.freed.push(at);
            passed = i + 1;
        }
        if let Some(entry) = self.table.get_mut(map) {
            entry.pointer = entry.pointer.max(passed);
            debug_assert!(entry.pointer <= entry.next, "past what was begun");
        }
        self.step_later(map, out);
    }

    /// BusRdX, or the engine's question to an owner under the destination mapping.
    fn engine_probe<V: Copy>(
        &mut self,
        map: Mapping,
        at: LineAddr,
        directory: Directory,
        phase: Phase,
        out: &mut Outbox<V>,
    ) where
        S: LineStore<V>,
    {
        let Some((tag, cores)) = directory.holders() else {
            return;
        };
        let probe = match directory {
            Directory::Owned { .. } if phase == Phase::Copying && tag != at => {
                Probe::InvalidateUnlessModified
            }
            _ => Probe::Invalidate,
        };
        self.lines.line(at).busy = Busy::Probing {
            probe,
            waiting: cores,
            todo: Todo::Engine(map),
        };
        send_probes(self.id, at, probe, tag, cores, out);
    }

    /// All private caches have answered for line `at`.
    pub(super) fn engine_probed<V: Copy>(
        &mut self,
        rules: &Protocol,
        map: Mapping,
        at: LineAddr,
        out: &mut Outbox<V>,
    ) where
        S: LineStore<V>,
    {
        let Some(&MetadataEntry { phase, .. }) = self.table.get(map) else {
            return;
        };
        let Some((_, index)) = map.locate(at) else {
            return;
        };
        if phase != Phase::Copying {
            self.advance(map, index + 1);
            self.step_later(map, out);
            return;
        }
        match self.lines.line(at).directory {
            Directory::Owned { owner, .. } => self.skip_line(rules, map, index, owner, out),
            _ => self.copy_line(rules, map, index, out),
        }
    }

    /// Copies line `index`, which no private cache holds, to the destination's home.
    fn copy_line<V: Copy>(
        &mut self,
        rules: &Protocol,
        map: Mapping,
        index: u32,
        out: &mut Outbox<V>,
    ) where
        S: LineStore<V>,
    {
        let data = self.lines.line(map.line(Role::Source, index)).data;
        let message = Message::CopyWrite { map, index, data };
        self.move_line(rules, map, index, message, out);
    }

    /// The newest data is in a private cache under the destination mapping: nothing to copy, but
    /// the destination's home must know the owner.
    fn skip_line<V: Copy>(
        &mut self,
        rules: &Protocol,
        map: Mapping,
        index: u32,
        owner: u8,
        out: &mut Outbox<V>,
    ) where
        S: LineStore<V>,
    {
        self.lines.line(map.line(Role::Source, index)).directory = Directory::Idle;
        if rules.has(PlantedFault::LoseHandover) {
            self.line_done(rules, map, index, out);
            return;
        }
        let message = Message::Handover { map, index, owner };
        self.move_line(rules, map, index, message, out);
    }

    /// Sends `message` to the destination's home and waits. A slice that works on one line at a
    /// time acts at once when that home is itself.
    fn move_line<V: Copy>(
        &mut self,
        rules: &Protocol,
        map: Mapping,
        index: u32,
        message: Message<V>,
        out: &mut Outbox<V>,
    ) where
        S: LineStore<V>,
    {
        let destination = map.line(Role::Destination, index);
        let home = rules.home(destination);
        if home == self.id && rules.copy_window <= 1 {
            let line = self.lines.line(destination);
            match message {
                Message::CopyWrite { data, .. } => line.data = data,
                Message::Handover { owner, .. } => {
                    let tag = destination;
                    line.directory = Directory::Owned { tag, owner };
                }
                _ => {}
            }
            out.copied_here = Some((map, index));
            self.line_done(rules, map, index, out);
            return;
        }
        out.send(self.node(), Party::Slice(home), message);
        if rules.has(PlantedFault::AdvanceBeforeAck) {
            self.advance(map, index + 1);
            return;
        }
        self.lines.line(map.line(Role::Source, index)).busy = Busy::Copying;
    }

    fn end_pass<V>(&mut self, rules: &Protocol, map: Mapping, phase: Phase, out: &mut Outbox<V>) {
        match phase {
            Phase::Purging => {
                if let Some(entry) = self.table.get_mut(map) {
                    entry.phase = Phase::Redirecting;
                    (entry.pointer, entry.next) = (0, 0);
                }
                self.tell_controller(Message::Installed(map), out);
            }
            Phase::Flushing => {
                if rules.has(PlantedFault::ClearBeforeAllFlushed) {
                    self.table.remove(map);
                }
                self.tell_controller(Message::Flushed(map), out);
            }
            _ => {
                self.advance(map, map.lines);
                if rules.has(PlantedFault::LoseTurn) {
                    return;
                }
                // Slices take turns: the next one starts when this one is done (Contiguitas
                // §3.3, distributed slices); in parallel each reports for itself.
                let next = self.id + 1;
                if rules.parallel_slices || next == rules.slices {
                    self.tell_controller(Message::SliceCopied(map), out);
                } else {
                    out.send(self.node(), Party::Slice(next), Message::Turn(map));
                }
            }
        }
    }
}
