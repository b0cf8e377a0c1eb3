// SPDX-License-Identifier: MIT OR Apache-2.0
//! Litmus tests of the order of accesses: does a migration allow an outcome that x86 (TSO), or a
//! device whose writes are posted in order, does not have without it?
//!
//! The cores have several accesses under way. Loads look for their value out of order and end in
//! order; one whose line is taken away in between looks again, as in real cores. A store waits for
//! all that comes before it; loads may pass it and see its value first. An access that bypasses
//! the private caches leaves no line whose loss the core would notice: the value of a load counts
//! only if all loads before it had ended when it was asked for.

use super::programs::{DEAD, LitmusAccess, LitmusCase, LitmusTest, POISON, Seen, X};
use super::state::{CacheRoom, EachLine, FewLines};
use super::step::is_answer;
use crate::protocol::{
    Cached, Controller, CoreSide, CoreStep, Design, Envelope, HomeLine, Issued, LineAddr,
    LineRequest, LineStore, Mapping, Message, OsMigration, Outbox, Party, Protocol, Role, Slice,
    SliceHash, Taken,
};
use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// How far an access is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Progress {
    Waiting,
    /// Asked for; whether all loads before it had ended.
    Asked(bool),
    /// A load has its value, loads before it may not.
    Value(u8),
    Done(u8),
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct TsoCore {
    tlb: Option<Role>,
    side: CoreSide<EachLine<u8>, u8>,
    ops: Vec<Progress>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    cores: Vec<TsoCore>,
    device: Vec<Progress>,
    device_tlb: Option<Role>,
    slices: Vec<Slice<FewLines<u8>>>,
    controller: Controller,
    os: OsMigration,
    net: Vec<Envelope<u8>>,
    struck: bool,
}

/// The machine that runs a test.
struct Machine {
    test: LitmusTest,
    rules: Protocol,
    case: LitmusCase,
}

enum Event {
    Deliver(usize),
    Translate(usize),
    Invalidate(usize),
    DeviceInvalidates,
    Issue(usize, usize),
    DeviceIssues(usize),
    Submit,
    Strike(Role),
}

impl Machine {
    fn first(&self) -> World {
        let rules = &self.rules;
        let lines = 2 * u64::from(rules.page_lines);
        let map = Mapping {
            src: LineAddr(0),
            dst: LineAddr(u64::from(rules.page_lines)),
            lines: rules.page_lines,
        };
        let mut slices: Vec<_> = (0..rules.slices)
            .map(|id| Slice::new(id, FewLines(Vec::new())))
            .collect();
        for at in (0..lines).map(LineAddr) {
            let home = usize::from(rules.home(at));
            let dead = at >= map.dst;
            let line = HomeLine::new(if dead { DEAD } else { 0 });
            slices[home].lines.0.push((at, line));
        }
        let core = |ops: &&[LitmusAccess]| TsoCore {
            tlb: None,
            side: CoreSide::new(EachLine(
                vec![Cached::Invalid; lines as usize],
                CacheRoom::All,
            )),
            ops: vec![Progress::Waiting; ops.len()],
        };
        World {
            cores: self.test.cores.iter().map(core).collect(),
            device: vec![Progress::Waiting; self.test.device.len()],
            device_tlb: None,
            slices,
            controller: Controller::default(),
            os: OsMigration::new(map),
            net: Vec::new(),
            struck: false,
        }
    }

    fn loads_before_are_done(&self, core: &TsoCore, id: usize, op: usize) -> bool {
        let before = self.test.cores[id][..op].iter().zip(&core.ops);
        before
            .filter(|((_, store), _)| store.is_none())
            .all(|(_, progress)| matches!(progress, Progress::Done(_)))
    }

    fn events(&self, world: &World) -> Vec<Event> {
        let mut all: Vec<Event> = (0..world.net.len()).map(Event::Deliver).collect();
        let os = &world.os;
        if self.case.migrates && os.next_command(&self.rules).is_some() {
            all.push(Event::Submit);
        }
        if self.case.poison && !world.struck {
            let frames: &[Role] = match self.case.migrates {
                true => &[Role::Source, Role::Destination],
                false => &[Role::Source],
            };
            all.extend(frames.iter().copied().map(Event::Strike));
        }
        for (id, core) in world.cores.iter().enumerate() {
            let idle = |p: &Progress| matches!(p, Progress::Waiting | Progress::Done(_));
            if os.may_invalidate(&self.rules, 1 << id) && core.ops.iter().all(idle) {
                all.push(Event::Invalidate(id));
            }
            if core.tlb.is_none() {
                all.push(Event::Translate(id));
                continue;
            }
            let done = |p: &Progress| matches!(p, Progress::Done(_));
            for (op, (_, store)) in self.test.cores[id].iter().enumerate() {
                let waits = core.ops[op] == Progress::Waiting;
                if waits && (store.is_none() || core.ops[..op].iter().all(done)) {
                    all.push(Event::Issue(id, op));
                }
            }
        }
        let next = world
            .device
            .iter()
            .position(|p| !matches!(p, Progress::Done(_)));
        let idle = next.is_none_or(|next| world.device[next] == Progress::Waiting);
        if idle && os.may_invalidate(&self.rules, OsMigration::iotlb(&self.rules)) {
            all.push(Event::DeviceInvalidates);
        }
        all.extend(next.filter(|_| idle).map(Event::DeviceIssues));
        all
    }

    fn apply(&self, world: &World, event: &Event) -> Option<World> {
        let rules = &self.rules;
        let mut w = world.clone();
        match *event {
            Event::Deliver(place) => {
                let envelope = w.net.remove(place);
                self.deliver(&mut w, envelope)?;
            }
            Event::Translate(id) => w.cores[id].tlb = Some(w.os.pte),
            Event::Invalidate(id) => {
                w.cores[id].tlb = None;
                w.os.invalidated(rules, 1 << id);
            }
            Event::DeviceInvalidates => {
                w.device_tlb = None;
                w.os.invalidated(rules, OsMigration::iotlb(rules));
                w.os.invalidated(rules, OsMigration::nic_tlb(rules));
            }
            Event::Issue(id, op) => self.issue(&mut w, id, op)?,
            Event::DeviceIssues(op) => {
                let (variable, store) = self.test.device[op];
                let role = *w.device_tlb.get_or_insert(w.os.pte);
                let line = w.os.map.line(role, variable.into());
                w.device[op] = Progress::Asked(true);
                let message = LineRequest::of_device(rules.cores, line, store);
                w.net.push(Envelope {
                    from: Party::Agent(rules.cores),
                    to: Party::Slice(rules.home(line)),
                    message: Message::Request(message),
                });
            }
            Event::Strike(role) => {
                let at = w.os.map.line(role, X.into());
                let home = &mut w.slices[usize::from(rules.home(at))];
                home.lines.line(at).data = POISON;
                w.struck = true;
            }
            Event::Submit => {
                let command = w.os.next_command(rules)?;
                w.controller.submit(rules, command).ok()?;
                w.os.submitted(rules);
                let mut out = Outbox::default();
                let record = w.controller.take_next(rules, &mut out);
                debug_assert!(record.is_none(), "refused: {record:?}");
                self.flush(&mut w, out)?;
            }
        }
        w.net.sort_unstable();
        Some(w)
    }

    /// A load or store looks for its line.
    fn issue(&self, w: &mut World, id: usize, op: usize) -> Option<()> {
        let (variable, store) = self.test.cores[id][op];
        let core = &mut w.cores[id];
        let earlier = self.test.cores[id][..op].iter().zip(&core.ops).rev();
        let mut own = earlier.filter(|((v, s), _)| *v == variable && s.is_some());
        if let (None, Some(((_, Some(value)), progress))) = (store, own.next())
            && !matches!(progress, Progress::Done(_))
        {
            // From the store buffer.
            core.ops[op] = Progress::Value(*value);
            self.end_loads(core, id);
            return Some(());
        }
        let line = w.os.map.line(core.tlb?, variable.into());
        if let Some(found) = core.side.lines.0[line.0 as usize].permits(store.is_some()) {
            core.ops[op] = match store {
                None => Progress::Value(found),
                Some(value) => {
                    core.side.lines.0[line.0 as usize] = Cached::Modified(value);
                    Progress::Done(value)
                }
            };
            self.end_loads(core, id);
            return Some(());
        }
        let oldest = self.loads_before_are_done(core, id, op);
        core.ops[op] = Progress::Asked(oldest);
        let issued = self.at_core(w, id, None, |side, step| {
            side.miss(step, line, (store.is_some(), op as u8), 4)
        })?;
        (issued != Issued::Refused).then_some(())
    }

    /// Lets a core take a step of the protocol.
    fn at_core<R>(
        &self,
        w: &mut World,
        id: usize,
        uncached: Option<u8>,
        act: impl FnOnce(&mut CoreSide<EachLine<u8>, u8>, &mut CoreStep<'_, u8, Seen>) -> R,
    ) -> Option<R> {
        let mut stores = self.test.cores[id].iter().zip(&w.cores[id].ops);
        let under_way = stores.find_map(|((_, store), progress)| match progress {
            Progress::Asked(_) => *store,
            _ => None,
        });
        let mut seen = Seen {
            given: None,
            stores: under_way.unwrap_or(0),
            ended: Vec::new(),
        };
        let mut out = Outbox::default();
        let mut step = CoreStep {
            rules: &self.rules,
            core: id as u8,
            observer: &mut seen,
            out: &mut out,
        };
        let result = act(&mut w.cores[id].side, &mut step);
        let core = &mut w.cores[id];
        for token in seen.ended {
            let op = usize::from(token);
            core.ops[op] = match (self.test.cores[id][op].1, uncached, core.ops[op]) {
                (Some(value), _, _) => Progress::Done(value),
                (None, Some(_), Progress::Asked(false)) if !self.case.careless => Progress::Waiting,
                (None, Some(value), _) => Progress::Value(value),
                (None, None, _) => Progress::Value(seen.given?),
            };
        }
        self.end_loads(core, id);
        self.flush(w, out)?;
        Some(result)
    }

    /// Loads end in the order of the program.
    fn end_loads(&self, core: &mut TsoCore, id: usize) {
        for op in 0..core.ops.len() {
            if let Progress::Value(value) = core.ops[op]
                && self.loads_before_are_done(core, id, op)
            {
                core.ops[op] = Progress::Done(value);
            }
        }
    }

    fn deliver(&self, w: &mut World, envelope: Envelope<u8>) -> Option<()> {
        let mut out = Outbox::default();
        match envelope.to {
            Party::Slice(s) => {
                let slice = &mut w.slices[usize::from(s)];
                if slice.handle(&self.rules, envelope.message, &mut out) != Taken::Yes {
                    return None;
                }
            }
            Party::Controller => {
                let record = w.controller.handle(&self.rules, envelope.message, &mut out);
                if let Some(record) = record {
                    w.os.completed(&self.rules, record.status);
                    if self.test.device.is_empty() {
                        w.os.invalidated(&self.rules, OsMigration::iotlb(&self.rules));
                        w.os.invalidated(&self.rules, OsMigration::nic_tlb(&self.rules));
                    }
                }
            }
            Party::Agent(a) if a < self.rules.cores => {
                return self.core_takes(w, usize::from(a), envelope.message);
            }
            Party::Agent(_) => {
                let Message::Once { data, .. } = envelope.message else {
                    return None;
                };
                let asked = |p: &&mut Progress| matches!(p, Progress::Asked(_));
                *w.device.iter_mut().find(asked)? = Progress::Done(data);
            }
        }
        self.flush(w, out)
    }

    fn core_takes(&self, w: &mut World, id: usize, message: Message<u8>) -> Option<()> {
        let uncached = match message {
            Message::Once { data, .. } => Some(data),
            _ => None,
        };
        let map = w.os.map;
        let on = |line: LineAddr, op: usize| {
            map.locate(line).map(|(_, i)| i) == Some(self.test.cores[id][op].0.into())
        };
        if let Message::Nack { line } = message {
            // The core asks again, from the place in its order that it has reached by now.
            for op in (0..w.cores[id].ops.len()).filter(|&op| on(line, op)) {
                let oldest = self.loads_before_are_done(&w.cores[id], id, op);
                if let Progress::Asked(was) = &mut w.cores[id].ops[op] {
                    *was = oldest;
                }
            }
        }
        self.at_core(w, id, uncached, |side, step| side.receive(step, message))?;
        if let Message::Once { line, .. } = message {
            // A load that had joined is asked for now.
            for op in (0..w.cores[id].ops.len()).filter(|&op| on(line, op)) {
                let oldest = self.loads_before_are_done(&w.cores[id], id, op);
                if let Progress::Asked(was) = &mut w.cores[id].ops[op] {
                    *was = oldest;
                }
            }
        }
        if let Message::Probe { line, .. } = message
            && w.cores[id].side.lines.0[line.0 as usize]
                .readable()
                .is_none()
        {
            // The line is gone: a load that has not ended looks again.
            for op in (0..w.cores[id].ops.len()).filter(|&op| on(line, op)) {
                if let progress @ Progress::Value(_) = &mut w.cores[id].ops[op] {
                    *progress = Progress::Waiting;
                }
            }
        }
        Some(())
    }

    fn flush(&self, w: &mut World, out: Outbox<u8>) -> Option<()> {
        for mut envelope in out.sent {
            if let Message::CopyWrite { data, .. } = &mut envelope.message
                && self.case.drops_poison
                && *data == POISON
            {
                *data = DEAD;
            }
            match is_answer(&envelope.message) {
                true => self.deliver(w, envelope)?,
                false => w.net.push(envelope),
            }
        }
        Some(())
    }

    /// Values of all loads in a world in which everything has ended.
    fn outcome(&self, world: &World) -> Option<Vec<u8>> {
        let cores = world.cores.iter().flat_map(|core| &core.ops);
        let ops = self.test.cores.iter().copied().flatten();
        let all = ops
            .zip(cores)
            .chain(self.test.device.iter().zip(&world.device));
        let mut values = Vec::new();
        for ((_, store), progress) in all {
            match (store, progress) {
                (None, Progress::Done(value)) => values.push(*value),
                (Some(_), Progress::Done(_)) => {}
                _ => return None,
            }
        }
        Some(values)
    }
}

/// Outcomes of a test (values of the loads in order of the program), and how many states it has.
pub fn litmus_outcomes(
    test: LitmusTest,
    design: Design,
    case: LitmusCase,
) -> (BTreeSet<Vec<u8>>, usize) {
    let mut rules = super::CheckConfig::new(test.name, design).rules;
    (rules.cores, rules.page_lines) = (test.cores.len() as u8, 2);
    rules.hash = SliceHash::Gray;
    let machine = Machine { test, rules, case };
    let print = |world: &World| {
        let mut hasher = DefaultHasher::new();
        world.hash(&mut hasher);
        hasher.finish()
    };
    let first = machine.first();
    let mut known = HashSet::from([print(&first)]);
    let (mut open, mut outcomes) = (vec![first], BTreeSet::new());
    while let Some(world) = open.pop() {
        if let Some(outcome) = machine.outcome(&world) {
            outcomes.insert(outcome);
            continue;
        }
        let events = machine.events(&world);
        let after = events
            .iter()
            .filter_map(|event| machine.apply(&world, event));
        open.extend(after.filter(|world| known.insert(print(world))));
    }
    (outcomes, known.len())
}
