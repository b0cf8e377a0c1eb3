// SPDX-License-Identifier: MIT OR Apache-2.0
//! The copy engine of a slice: passes over the lines the slice is home of, one line at a time.
//!
//! Three kinds of pass use one pointer: purging dead lines of the destination before a
//! migration starts, copying, and flushing when a migration is aborted.

use super::home::{Busy, Directory, Todo};
use super::slice::{LineStore, Slice, send_probes};
use super::table::{Entry, Phase};
use super::types::{Fault, LineAddr, Mapping, Message, Node, Outbox, Probe, Role, Rules, Taken};

impl<S> Slice<S> {
    pub(super) fn engine_message<V: Copy>(
        &mut self,
        rules: &Rules,
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
            Message::CopyAck { map, index } => {
                self.lines.line(map.line(Role::Source, index)).busy = Busy::Free;
                self.advance(map, index + 1);
                self.step_later(map, out);
            }
            Message::Finish(map) => {
                if let Some(entry) = self.table.get_mut(map) {
                    entry.phase = Phase::Done;
                }
                self.tell_controller(Message::Finished(map), out);
            }
            Message::Flush(map) => self.start_pass(map, Phase::Flushing, out),
            Message::Clear(map) => {
                self.table.remove(map);
                self.tell_controller(Message::Cleared(map), out);
            }
            _ => unreachable!("not a message for a slice"),
        }
        Taken::Yes
    }

    fn tell_controller<V>(&self, message: Message<V>, out: &mut Outbox<V>) {
        out.send(self.node(), Node::Controller, message);
    }

    fn step_later<V>(&self, map: Mapping, out: &mut Outbox<V>) {
        out.send(self.node(), self.node(), Message::EngineStep(map));
    }

    fn start_pass<V>(&mut self, map: Mapping, phase: Phase, out: &mut Outbox<V>) {
        if let Some(entry) = self.table.get_mut(map) {
            entry.phase = phase;
            entry.pointer = 0;
        }
        self.step_later(map, out);
    }

    fn advance(&mut self, map: Mapping, pointer: u32) {
        if let Some(entry) = self.table.get_mut(map) {
            entry.pointer = pointer;
        }
    }

    fn acknowledge<V>(&self, rules: &Rules, map: Mapping, index: u32, out: &mut Outbox<V>) {
        let source = rules.home(map.line(Role::Source, index));
        out.send(
            self.node(),
            Node::Slice(source),
            Message::CopyAck { map, index },
        );
    }

    /// Works on the line under the pointer, or ends the pass.
    fn engine_step<V: Copy>(&mut self, rules: &Rules, map: Mapping, out: &mut Outbox<V>) -> Taken
    where
        S: LineStore<V>,
    {
        let Some(&Entry { phase, pointer, .. }) = self.table.get(map) else {
            return Taken::Yes;
        };
        let side = match phase {
            Phase::Purging => Role::Destination,
            Phase::Copying | Phase::Flushing => Role::Source,
            Phase::Redirecting | Phase::Done => return Taken::Yes,
        };
        let own = |i: &u32| rules.home(map.line(side, *i)) == self.id;
        let Some(index) = (pointer..map.lines).find(own) else {
            self.end_pass(rules, map, phase, out);
            return Taken::Yes;
        };
        let at = map.line(side, index);
        let line = self.lines.line(at);
        if line.is_busy() {
            return Taken::Busy(at);
        }
        let directory = line.directory;
        self.advance(map, index);
        let keep = match (phase, directory.holders()) {
            (_, None) => true,
            (Phase::Purging, _) => rules.has(Fault::SkipPurge),
            // Lines cached under the source stay valid when a migration is aborted.
            (Phase::Flushing, Some((tag, _))) => tag == at,
            (_, Some(_)) => rules.has(Fault::CopyWithoutInvalidate),
        };
        if let (Phase::Copying, Directory::Owned { tag, owner }) = (phase, directory)
            && tag != at
            && rules.has(Fault::SkipCleanOwner)
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
        Taken::Yes
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
        rules: &Rules,
        map: Mapping,
        at: LineAddr,
        out: &mut Outbox<V>,
    ) where
        S: LineStore<V>,
    {
        let Some(&Entry { phase, pointer, .. }) = self.table.get(map) else {
            return;
        };
        if phase != Phase::Copying {
            self.advance(map, pointer + 1);
            self.step_later(map, out);
            return;
        }
        match self.lines.line(at).directory {
            Directory::Owned { owner, .. } => self.skip_line(rules, map, pointer, owner, out),
            _ => self.copy_line(rules, map, pointer, out),
        }
    }

    /// Copies line `index`, which no private cache holds, to the destination's home.
    fn copy_line<V: Copy>(&mut self, rules: &Rules, map: Mapping, index: u32, out: &mut Outbox<V>)
    where
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
        rules: &Rules,
        map: Mapping,
        index: u32,
        owner: u8,
        out: &mut Outbox<V>,
    ) where
        S: LineStore<V>,
    {
        self.lines.line(map.line(Role::Source, index)).directory = Directory::Idle;
        if rules.has(Fault::LoseHandover) {
            self.advance(map, index + 1);
            self.step_later(map, out);
            return;
        }
        let message = Message::Handover { map, index, owner };
        self.move_line(rules, map, index, message, out);
    }

    /// Sends `message` to the destination's home and waits, or acts at once when that is here.
    fn move_line<V: Copy>(
        &mut self,
        rules: &Rules,
        map: Mapping,
        index: u32,
        message: Message<V>,
        out: &mut Outbox<V>,
    ) where
        S: LineStore<V>,
    {
        let destination = map.line(Role::Destination, index);
        let home = rules.home(destination);
        if home == self.id {
            let line = self.lines.line(destination);
            match message {
                Message::CopyWrite { data, .. } => line.data = data,
                Message::Handover { owner, .. } => {
                    let tag = destination;
                    line.directory = Directory::Owned { tag, owner };
                }
                _ => {}
            }
            self.advance(map, index + 1);
            self.step_later(map, out);
            return;
        }
        out.send(self.node(), Node::Slice(home), message);
        if rules.has(Fault::AdvanceBeforeAck) {
            self.advance(map, index + 1);
            return;
        }
        self.lines.line(map.line(Role::Source, index)).busy = Busy::Copying;
    }

    fn end_pass<V>(&mut self, rules: &Rules, map: Mapping, phase: Phase, out: &mut Outbox<V>) {
        match phase {
            Phase::Purging => {
                if let Some(entry) = self.table.get_mut(map) {
                    entry.phase = Phase::Redirecting;
                    entry.pointer = 0;
                }
                self.tell_controller(Message::Installed(map), out);
            }
            Phase::Flushing => {
                if rules.has(Fault::ClearBeforeAllFlushed) {
                    self.table.remove(map);
                }
                self.tell_controller(Message::Flushed(map), out);
            }
            _ => {
                self.advance(map, map.lines);
                if rules.has(Fault::LoseTurn) {
                    return;
                }
                // Slices take turns: the next one starts when this one is done (Contiguitas
                // §3.3, distributed slices); in parallel each reports for itself.
                let next = self.id + 1;
                if rules.parallel_slices || next == rules.slices {
                    self.tell_controller(Message::SliceCopied(map), out);
                } else {
                    out.send(self.node(), Node::Slice(next), Message::Turn(map));
                }
            }
        }
    }
}
