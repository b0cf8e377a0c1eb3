// SPDX-License-Identifier: MIT OR Apache-2.0
//! The steps of slices, and what is written of each.

use super::World;
use crate::trace::{Decision, code, phase_code, settled_pointer};
use ample_migration::protocol::{
    Busy, LineAddr, LineRequest, LineStore, Mapping, Message, Outbox, Party, Phase, RequestKind,
    Role, Taken, Todo,
};
use std::io::Write;

impl<W: Write> World<W> {
    /// A slice takes a message: `None` when its line is busy.
    pub(super) fn at_slice(&mut self, s: usize, message: Message<bool>) -> Option<Outbox<bool>> {
        match message {
            Message::Request(request) => self.request(s, request),
            Message::EngineStep(map) => self.engine_step(s, map),
            Message::ProbeReply {
                at, agent, kept, ..
            } => {
                let line = self.slices[s].lines.line(at);
                let engine = match line.busy {
                    Busy::Probing {
                        todo: Todo::Engine(map),
                        waiting,
                        ..
                    } if waiting == 1 << agent => map.locate(at),
                    _ => None,
                };
                let out = self.handle(s, message)?;
                if let Some((_, index)) = engine {
                    let kept = u8::from(kept);
                    self.tracer
                        .event(format_args!("a {s} {index} {kept} {agent}"));
                    self.slice_sent(s, &out);
                }
                Some(out)
            }
            Message::Unblock { .. } => self.handle(s, message),
            _ => self.message(s, message),
        }
    }

    fn handle(&mut self, s: usize, message: Message<bool>) -> Option<Outbox<bool>> {
        let mut out = Outbox::default();
        match self.slices[s].handle(&self.rules, message, &mut out) {
            Taken::Yes => Some(out),
            Taken::Busy(_) => None,
        }
    }

    fn request(&mut self, s: usize, request: LineRequest<bool>) -> Option<Outbox<bool>> {
        let line = request.line;
        let entry_of = |world: &Self, slice: usize| {
            let mut entries = world.slices[slice].table.entries().iter();
            entries
                .find(|e| e.map.locate(line).is_some())
                .map(|e| e.map)
        };
        let slot_at = |world: &Self, origin: u8| {
            let map = entry_of(world, usize::from(origin)).expect("an origin waits with its entry");
            (origin, world.slot(map))
        };
        let before = request.origin.map(|origin| slot_at(self, origin));
        let own = entry_of(self, s).map(|map| self.slot(map));
        let out = self.handle(s, Message::Request(request));
        let mut decision = Decision {
            origin: before,
            resolved: true,
            ..Decision::default()
        };
        let sent = out.as_ref().map_or(&[][..], |out| &out.sent[..]);
        let onward = sent.iter().find_map(|e| match (e.to, e.message) {
            (Party::Slice(to), Message::Request(request)) => Some((to, request)),
            _ => None,
        });
        if let Some((to, onward)) = onward {
            (decision.action, decision.target) = (1, to);
            decision.resolved = onward.resolved;
            if let (None, Some(origin)) = (before, onward.origin) {
                decision.origin = Some((origin, own.expect("only an entry counts")));
            }
        } else if sent
            .iter()
            .any(|e| matches!(e.message, Message::Nack { .. }))
        {
            decision.action = 2;
        } else {
            let at = self.slices[s].lines.last;
            decision.at = at.expect("a request was served at a line").0;
        }
        self.write_decision(s, &request, before, out.is_some(), decision);
        if let Some(out) = &out {
            self.slice_sent(s, out);
        }
        out
    }

    fn write_decision(
        &mut self,
        s: usize,
        request: &LineRequest<bool>,
        before: Option<(u8, usize)>,
        taken: bool,
        is: Decision,
    ) {
        let wants = matches!(
            request.kind,
            RequestKind::GetShared | RequestKind::GetModified
        );
        let parts = |origin: Option<(u8, usize)>| {
            let (slice, slot) = origin.unwrap_or_default();
            format!("{} {slice} {slot}", u8::from(origin.is_some()))
        };
        self.tracer.event(format_args!(
            "r {s} {} {} {} {} {} {} {} {} {} {}",
            request.line.0,
            u8::from(wants),
            u8::from(request.resolved),
            parts(before),
            u8::from(taken),
            is.action,
            is.at,
            is.target,
            u8::from(is.resolved),
            parts(is.origin),
        ));
    }

    fn engine_step(&mut self, s: usize, map: Mapping) -> Option<Outbox<bool>> {
        let before = *self.slices[s].table.get(map)?;
        let out = self.handle(s, Message::EngineStep(map));
        let phase = phase_code(before.phase);
        let side = side(before.phase);
        let Some(out) = out else {
            let at = self.slices[s].lines.last.expect("the line is busy").0;
            self.tracer.event(format_args!("o {s} {phase} {at} 0 0 0"));
            return None;
        };
        let after = self.slices[s].table.get(map);
        let next = after.map_or(0, |entry| entry.next);
        let ends = out.sent.iter().any(|e| {
            matches!(
                e.message,
                Message::Installed(_)
                    | Message::Flushed(_)
                    | Message::SliceCopied(_)
                    | Message::Turn(_)
            )
        });
        if ends {
            self.tracer.event(format_args!("x {s}"));
            self.passes[s].end();
            self.slice_sent(s, &out);
        } else if next > before.next {
            let index = next - 1;
            let at = map.line(side, index).0;
            let probes = out
                .sent
                .iter()
                .any(|e| matches!(e.message, Message::Probe { .. }));
            let answered = u8::from(!probes);
            self.tracer
                .event(format_args!("o {s} {phase} {at} 1 {answered} {index}"));
            self.slice_sent(s, &out);
        }
        Some(out)
    }

    /// Messages about an entry.
    fn message(&mut self, s: usize, message: Message<bool>) -> Option<Outbox<bool>> {
        let (kind, map) = match message {
            Message::Served { line } => {
                let mut entries = self.slices[s].table.entries().iter();
                let entry = entries.find(|e| e.map.locate(line).is_some());
                (8, entry.expect("an origin waits with its entry").map)
            }
            ref other => code(other).expect("a message for a slice"),
        };
        let (index, owner) = match message {
            Message::CopyWrite { index, .. } | Message::CopyAck { index, .. } => (index, 0),
            Message::Handover { index, owner, .. } => (index, owner),
            _ => (0, 0),
        };
        let slot = self.slot(map);
        let (src, dst, wide) = self.pages.of(map);
        let from = self.rules.home(map.line(Role::Source, index));
        self.tracer.event(format_args!(
            "m {s} {kind} {slot} {src} {dst} {wide} {index} {owner} {from}"
        ));
        if matches!(kind, 5 | 6) {
            let line = map.line(Role::Destination, index).0;
            let handover = u8::from(kind == 6);
            self.tracer
                .line(format_args!("U {s} 0 {handover} {line} {owner}"));
        }
        let out = self.handle(s, message)?;
        if matches!(kind, 0 | 1 | 3) {
            self.passes[s].start(slot);
        }
        self.slice_sent(s, &out);
        Some(out)
    }

    /// What a slice has sent, opened and moved, and what its table says then.
    fn slice_sent(&mut self, s: usize, out: &Outbox<bool>) {
        for envelope in &out.sent {
            if let Some((kind, map)) = code(&envelope.message) {
                let target = match envelope.to {
                    Party::Slice(to) => i32::from(to),
                    _ => -1,
                };
                self.write_sent(s, kind, map, &envelope.message, target);
            }
        }
        if let Some((map, index)) = out.copied_here {
            let line = map.line(Role::Destination, index);
            let directory = self.slices[s].lines.line(line).directory;
            let (handover, owner) = match directory {
                ample_migration::protocol::Directory::Owned { owner, .. } => (1, owner),
                _ => (0, 0),
            };
            self.tracer
                .line(format_args!("U {s} 1 {handover} {} {owner}", line.0));
        }
        for line in &out.freed {
            self.tracer.line(format_args!("L {s} {}", line.0));
        }
        self.write_table(s);
    }

    fn write_sent(&mut self, s: usize, kind: u8, map: Mapping, message: &Message<bool>, to: i32) {
        let (index, owner) = match *message {
            Message::CopyWrite { index, .. } | Message::CopyAck { index, .. } => (index, 0),
            Message::Handover { index, owner, .. } => (index, owner),
            _ => (0, 0),
        };
        let slot = self.slot(map);
        self.tracer
            .line(format_args!("O {s} {kind} {to} {slot} {index} {owner}"));
    }

    fn write_table(&mut self, s: usize) {
        let entries = self.slices[s].table.entries();
        self.tracer.line(format_args!("N {s} {}", entries.len()));
        for entry in entries.iter().copied() {
            let slot = self.slot(entry.map);
            let pointer = match self.passes[s].makes(slot) {
                true => settled_pointer(&entry, side(entry.phase), |line| {
                    usize::from(self.rules.home(LineAddr(line))) == s
                }),
                false => entry.pointer,
            };
            // After the last line is flushed the pointer says nothing more.
            let pointer = match (entry.phase, self.passes[s].knows(slot)) {
                (Phase::Flushing, false) => -1,
                _ => i64::from(pointer),
            };
            let phase = phase_code(entry.phase);
            let clearing = u8::from(entry.clearing);
            let forwards = entry.forwards;
            self.tracer.line(format_args!(
                "T {s} {slot} {clearing} {phase} {pointer} {forwards}"
            ));
        }
    }
}

/// The side whose home works in a phase.
fn side(phase: Phase) -> Role {
    match phase {
        Phase::Purging => Role::Destination,
        _ => Role::Source,
    }
}
