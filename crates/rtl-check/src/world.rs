// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine of the protocol's parts in which every step of a slice or of the controller is also
//! written down for the hardware.

use crate::trace::{Decision, Pages, Tracer, code, phase_code, settled_pointer};
use ample_migration::protocol::{
    Busy, Cached, HOST, Command, Completion, Controller, CoreSide, CoreStep, Envelope, HomeLine,
    LineAddr, LineRequest, LineStore, Mapping, Message, Observer, Outbox, Party, Phase,
    PrivateLines, Protocol, RequestKind, Role, Slice, Taken, Todo,
};
use std::collections::BTreeMap;
use std::io::Write;

/// Lines of a slice; the last one that was asked for is the one a request was served at.
#[derive(Default)]
pub struct Lines {
    all: BTreeMap<LineAddr, HomeLine<bool>>,
    last: Option<LineAddr>,
}

impl LineStore<bool> for Lines {
    fn line(&mut self, at: LineAddr) -> &mut HomeLine<bool> {
        self.last = Some(at);
        self.all.entry(at).or_insert_with(|| HomeLine::new(true))
    }
}

/// Private caches without a bound: lines leave when the world decides so.
#[derive(Default)]
pub struct Held(pub BTreeMap<LineAddr, Cached<bool>>);

impl PrivateLines<bool> for Held {
    fn line(&mut self, line: LineAddr) -> Option<&mut Cached<bool>> {
        self.0.get_mut(&line)
    }

    fn put(&mut self, line: LineAddr, cached: Cached<bool>) -> Option<(LineAddr, Cached<bool>)> {
        self.0.insert(line, cached);
        None
    }

    fn leave(&mut self, line: LineAddr, cached: Cached<bool>) {
        self.0.insert(line, cached);
    }

    fn take(&mut self, line: LineAddr) -> Option<Cached<bool>> {
        self.0.remove(&line)
    }
}

struct Silent;

impl Observer<bool, ()> for Silent {
    fn given(&mut self, _: LineAddr, _: bool, _: bool) {}
    fn store(&mut self, _: LineAddr) -> bool {
        true
    }
    fn store_once(&mut self) -> bool {
        true
    }
    fn ended(&mut self, (): ()) {}
}

/// The hardware's engine of a slice makes one pass at a time, in turn by place.
#[derive(Clone, Default)]
struct Passes {
    waiting: Vec<bool>,
    last: usize,
    active: bool,
}

impl Passes {
    fn start(&mut self, slot: usize) {
        self.waiting[slot] = true;
        self.choose();
    }

    fn end(&mut self) {
        self.active = false;
        self.choose();
    }

    fn choose(&mut self) {
        let mut slots = self.last + 1..self.waiting.len();
        let later = slots.find(|&s| self.waiting[s]);
        let any = || self.waiting.iter().position(|&w| w);
        if !self.active
            && let Some(slot) = later.or_else(any)
        {
            (self.active, self.last) = (true, slot);
            self.waiting[slot] = false;
        }
    }

    fn knows(&self, slot: usize) -> bool {
        self.waiting[slot] || self.makes(slot)
    }

    fn makes(&self, slot: usize) -> bool {
        self.active && self.last == slot
    }
}

/// The machine.
pub struct World<W: Write> {
    /// Its rules.
    pub rules: Protocol,
    pages: Pages,
    slices: Vec<Slice<Lines>>,
    /// Work queue and completion records.
    pub controller: Controller,
    /// Private caches of the cores.
    pub cores: Vec<CoreSide<Held, ()>>,
    /// The request of a device, at most one.
    pub device: Option<LineAddr>,
    /// Messages under way.
    pub net: Vec<Envelope<bool>>,
    /// Migrations by the place that the hardware's controller has given them.
    slots: Vec<Option<Mapping>>,
    passes: Vec<Passes>,
    /// Completion records that nobody has read yet.
    pub records: Vec<Completion>,
    /// At most one `Served` is late, as in the checker.
    pub one_late_served: bool,
    /// What is written down.
    pub tracer: Tracer<W>,
}

impl<W: Write> World<W> {
    /// A machine after reset.
    pub fn new(rules: Protocol, pages: Pages, out: W) -> Self {
        let mut world = Self {
            rules,
            pages,
            slices: Vec::new(),
            controller: Controller::default(),
            cores: Vec::new(),
            device: None,
            net: Vec::new(),
            slots: Vec::new(),
            passes: Vec::new(),
            records: Vec::new(),
            one_late_served: false,
            tracer: Tracer::new(out),
        };
        world.reset(rules);
        world
    }

    /// Everything is as after power-on: a reset also in the middle of migrations.
    pub fn reset(&mut self, rules: Protocol) {
        self.rules = rules;
        self.slices = (0..rules.slices)
            .map(|id| Slice::new(id, Lines::default()))
            .collect();
        self.controller = Controller::default();
        self.cores = (0..rules.cores)
            .map(|_| CoreSide::new(Held::default()))
            .collect();
        self.device = None;
        self.net.clear();
        self.records.clear();
        let entries = usize::from(rules.table_entries);
        self.slots = vec![None; entries];
        let idle = Passes {
            waiting: vec![false; entries],
            ..Passes::default()
        };
        self.passes = vec![idle; usize::from(rules.slices)];
        let cacheable = u8::from(rules.design == ample_migration::protocol::Design::Cacheable);
        let (parallel, announce) = (u8::from(rules.parallel_slices), u8::from(rules.announce));
        let window = rules.copy_window;
        let memory_pages = rules.memory_lines >> self.pages.small_log2;
        self.tracer
            .event(format_args!("z {cacheable} {parallel} {announce} {window} {memory_pages}"));
    }

    fn slot(&self, map: Mapping) -> usize {
        let place = self.slots.iter().position(|slot| *slot == Some(map));
        place.expect("a migration of the table has a place")
    }

    /// Whether the hardware could take this message now: its engine works on one page at a time.
    pub fn can_deliver(&self, envelope: &Envelope<bool>) -> bool {
        match (envelope.to, &envelope.message) {
            (Party::Slice(s), Message::EngineStep(map)) => {
                self.passes[usize::from(s)].makes(self.slot(*map))
            }
            _ => true,
        }
    }

    /// Takes message `place` of the net to its receiver. `false`: its line is busy, it stays.
    pub fn deliver(&mut self, place: usize) -> bool {
        let envelope = self.net[place];
        if !self.can_deliver(&envelope) {
            return false;
        }
        if let Party::Slice(s) = envelope.to {
            let Some(out) = self.at_slice(usize::from(s), envelope.message) else {
                return false;
            };
            self.net.swap_remove(place);
            self.send_all(out);
            return true;
        }
        self.net.swap_remove(place);
        self.receive(envelope);
        true
    }

    fn receive(&mut self, envelope: Envelope<bool>) {
        match envelope.to {
            Party::Slice(s) => {
                let out = self.at_slice(usize::from(s), envelope.message);
                self.send_all(out.expect("an answer finds no busy line"));
            }
            Party::Controller => self.at_controller(envelope.message),
            Party::Agent(core) if core < self.rules.cores => {
                self.at_core(core, |side, step| side.receive(step, envelope.message));
            }
            Party::Agent(_) => self.device = None,
        }
    }

    fn send_all(&mut self, out: Outbox<bool>) {
        for envelope in out.sent {
            let served = |e: &Envelope<bool>| matches!(e.message, Message::Served { .. });
            if self.one_late_served && served(&envelope) && self.net.iter().any(served) {
                self.receive(envelope);
            } else {
                self.net.push(envelope);
            }
        }
    }

    fn at_core(
        &mut self,
        core: u8,
        act: impl FnOnce(&mut CoreSide<Held, ()>, &mut CoreStep<'_, bool, Silent>),
    ) {
        let mut out = Outbox::default();
        let mut step = CoreStep {
            rules: &self.rules,
            core,
            observer: &mut Silent,
            out: &mut out,
        };
        act(&mut self.cores[usize::from(core)], &mut step);
        self.send_all(out);
    }

    /// A load or store of a core. Nothing happens when no miss-status entry is free.
    pub fn access(&mut self, core: u8, line: LineAddr, write: bool) {
        let capacity = usize::from(self.rules.mark_entries) + 4;
        self.at_core(core, |side, step| {
            let held = side.lines.line(line);
            match held.and_then(|cached| cached.permits(write).map(|_| cached)) {
                Some(cached) if write => *cached = Cached::Modified(true),
                Some(_) => {}
                None => {
                    side.miss(step, line, (write, ()), capacity);
                }
            }
        });
    }

    /// A private cache loses a line.
    pub fn evict(&mut self, core: u8, line: LineAddr) {
        self.at_core(core, |side, step| {
            let held = side.lines.line(line);
            if held.is_some_and(|cached| cached.readable().is_some()) {
                side.evict(step, line);
            }
        });
    }

    /// A device reads or writes.
    pub fn device_access(&mut self, line: LineAddr, write: bool) {
        self.device = Some(line);
        let device = self.rules.cores;
        self.net.push(Envelope {
            from: Party::Agent(device),
            to: Party::Slice(self.rules.home(line)),
            message: Message::Request(LineRequest::of_device(device, line, write.then_some(true))),
        });
    }

    /// ENQCMD. `false`: the queue is full.
    pub fn submit(&mut self, command: Command) -> bool {
        let taken = self.controller.submit(&self.rules, command).is_ok();
        self.tracer.submit(self.pages, command, taken);
        taken
    }

    /// The controller takes a descriptor.
    pub fn take_command(&mut self) {
        let mut out = Outbox::default();
        let completion = self.controller.take_next(&self.rules, &mut out);
        self.tracer.event(format_args!("q"));
        let installed = out.sent.iter().find_map(|e| match e.message {
            Message::Install(map) => Some(map),
            _ => None,
        });
        if let Some(map) = installed {
            let free = self.slots.iter().position(Option::is_none);
            self.slots[free.expect("the controller keeps to its table")] = Some(map);
        }
        self.controller_sent(&out, completion);
        self.send_all(out);
    }

    /// The function is reset: what waits in its queue is dropped.
    pub fn reset_function(&mut self) {
        let dropped = self.controller.reset(HOST);
        self.tracer.event(format_args!("s"));
        for completion in dropped {
            self.tracer.record(self.pages, completion);
            self.records.push(completion);
        }
    }

    fn at_controller(&mut self, message: Message<bool>) {
        let of_core = matches!(message, Message::Marked(_) | Message::Unmarked(_));
        let map = match message {
            Message::Marked(map) | Message::Unmarked(map) => map,
            other => code(&other).expect("an answer carries its migration").1,
        };
        let slot = self.slot(map);
        let mut out = Outbox::default();
        let completion = self.controller.handle(&self.rules, message, &mut out);
        self.tracer
            .event(format_args!("w {} {slot}", u8::from(of_core)));
        self.controller_sent(&out, completion);
        if let Some(Completion {
            command: Command::Clear { .. },
            ..
        }) = completion
        {
            self.slots[slot] = None;
        }
        self.send_all(out);
    }

    /// What the controller has sent: one message to the slices, one to the cores, one record.
    fn controller_sent(&mut self, out: &Outbox<bool>, completion: Option<Completion>) {
        let to = |slice: bool| {
            let mut sent = out.sent.iter();
            let wanted = move |e: &&Envelope<bool>| matches!(e.to, Party::Slice(_)) == slice;
            sent.find(wanted).and_then(|e| code(&e.message))
        };
        if let Some((kind, map)) = to(true) {
            let (src, dst, wide) = self.pages.of(map);
            let all = u8::from(kind != 1 || self.rules.parallel_slices);
            let slot = self.slot(map);
            self.tracer
                .line(format_args!("B {kind} {slot} {all} {src} {dst} {wide}"));
        }
        if let Some((kind, map)) = to(false) {
            let slot = self.slot(map);
            self.tracer.line(format_args!("K {kind} {slot}"));
        }
        if let Some(completion) = completion {
            self.tracer.record(self.pages, completion);
            self.records.push(completion);
        }
    }

    /// A slice takes a message: `None` when its line is busy.
    fn at_slice(&mut self, s: usize, message: Message<bool>) -> Option<Outbox<bool>> {
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
            entries.find(|e| e.map.locate(line).is_some()).map(|e| e.map)
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
        } else if sent.iter().any(|e| matches!(e.message, Message::Nack { .. })) {
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
            let probes = out.sent.iter().any(|e| matches!(e.message, Message::Probe { .. }));
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
        for entry in entries.to_vec() {
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
            self.tracer
                .line(format_args!("T {s} {slot} {clearing} {phase} {pointer} {forwards}"));
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
