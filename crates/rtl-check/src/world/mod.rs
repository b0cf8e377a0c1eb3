// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine of the protocol's parts in which every step of a slice or of the controller is also
//! written down for the hardware.

use crate::trace::{PageNumbering, Tracer, code};
use ample_migration::protocol::{
    Cached, Command, Completion, Controller, CoreSide, CoreStep, Envelope, LineAddr, LineRequest,
    Mapping, Message, Outbox, Party, PrivateLines, Protocol, Slice, VirtualFunction,
};
use std::io::Write;

mod parts;
mod slices;

pub use parts::{Held, Lines, Passes, Silent};

/// Slices, controller and cores, and the messages between them that are under way.
pub struct World<W: Write> {
    /// What the hardware is built and told to be.
    pub rules: Protocol,
    pages: PageNumbering,
    slices: Vec<Slice<Lines>>,
    /// Work queue and completion records.
    pub controller: Controller,
    /// What the host lets guests do, again after each reset.
    grants: Vec<VirtualFunction>,
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
    pub fn new(rules: Protocol, pages: PageNumbering, out: W) -> Self {
        let mut world = Self {
            rules,
            pages,
            slices: Vec::new(),
            controller: Controller::default(),
            grants: Vec::new(),
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
        let idle = Passes::of(entries);
        self.passes = vec![idle; usize::from(rules.slices)];
        let cacheable = u8::from(rules.design == ample_migration::protocol::Design::Cacheable);
        let (parallel, announce) = (u8::from(rules.parallel_slices), u8::from(rules.announce));
        let window = rules.copy_window;
        let memory_pages = rules.memory_lines >> self.pages.small_log2;
        self.tracer.event(format_args!(
            "z {cacheable} {parallel} {announce} {window} {memory_pages}"
        ));
        for grant in std::mem::take(&mut self.grants) {
            self.grant(grant);
        }
    }

    /// The host lets a guest command its own frames.
    pub fn grant(&mut self, grant: VirtualFunction) {
        self.controller.grant(grant);
        self.grants.push(grant);
        let page = |lines: u64| lines >> self.pages.small_log2;
        self.tracer.event(format_args!(
            "g {} {} {} {}",
            grant.function,
            page(grant.first.0),
            page(grant.lines),
            grant.entries
        ));
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

    /// ENQCMD at the portal of a function. `false`: the queue is full, or the function is reset.
    pub fn submit(&mut self, function: u8, command: Command) -> bool {
        let taken = self.controller.submit_as(&self.rules, function, command);
        self.tracer
            .submit(self.pages, function, command, taken.is_ok());
        taken.is_ok()
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

    /// A function is reset: what waits of it in the queue is dropped.
    pub fn reset_function(&mut self, function: u8) {
        let dropped = self.controller.reset(function);
        self.tracer.event(format_args!("s {function}"));
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
}
