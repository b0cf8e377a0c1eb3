// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can happen in a state, and what it leads to.

use super::config::Config;
use super::state::{Pending, State};
use crate::protocol::{
    Cached, Completion, Envelope, Kind, LineAddr, Message, Node, OsMigration, OsPhase, Outbox,
    Performed, Request, Role, Taken,
};
use std::fmt;

/// An event.
#[derive(Clone, PartialEq, Eq)]
pub enum Action {
    /// A core walks the page table and fills its TLB.
    Translate { core: u8, page: u8 },
    /// A core loads or stores; hits end at once.
    Access {
        core: u8,
        page: u8,
        index: u32,
        write: bool,
    },
    /// A private cache loses a line.
    Evict { core: u8, line: LineAddr },
    /// The NIC fills its TLB from the IOTLB, or that from the page table.
    NicTranslate { page: u8 },
    /// The NIC reads or writes.
    NicAccess { page: u8, index: u32, write: bool },
    /// A message arrives.
    Deliver(Envelope<bool>),
    /// The OS submits its next descriptor for a page.
    Submit { page: u8 },
    /// The controller takes a descriptor.
    TakeCommand,
    /// The OS gives a migration up.
    Abort { page: u8 },
    /// A core, in the kernel, invalidates its own TLB entry.
    Invalidate { core: u8, page: u8 },
    /// Some core invalidates the IOTLB.
    InvalidateIotlb { page: u8 },
    /// Some core invalidates the TLB of the NIC.
    InvalidateNicTlb { page: u8 },
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = |write: bool| if write { "stores to" } else { "loads" };
        match self {
            Self::Translate { core, page } => {
                write!(
                    f,
                    "core {core}: TLB miss on page {page}, walks the page table"
                )
            }
            Self::Access {
                core,
                page,
                index,
                write,
            } => write!(
                f,
                "core {core}: {} line {index} of page {page}",
                verb(*write)
            ),
            Self::Evict { core, line } => write!(f, "core {core}: evicts {line:?}"),
            Self::NicTranslate { page } => write!(f, "NIC: translates page {page}"),
            Self::NicAccess { page, index, write } => {
                write!(f, "NIC: {} line {index} of page {page}", verb(*write))
            }
            Self::Deliver(e) => write!(f, "{:?} -> {:?}: {:?}", e.from, e.to, e.message),
            Self::Submit { page } => write!(f, "OS: submits a descriptor for page {page}"),
            Self::TakeCommand => write!(f, "controller: takes a descriptor"),
            Self::Abort { page } => write!(f, "OS: gives up the migration of page {page}"),
            Self::Invalidate { core, page } => {
                write!(f, "core {core}: kernel entry, INVLPG of page {page}")
            }
            Self::InvalidateIotlb { page } => write!(f, "OS: invalidates page {page} in the IOTLB"),
            Self::InvalidateNicTlb { page } => {
                write!(f, "OS: invalidates page {page} in the NIC's TLB")
            }
        }
    }
}

/// Everything that can happen now.
pub fn actions(config: &Config, state: &State, all: &mut Vec<Action>) {
    if state.error.is_some() {
        return;
    }
    for envelope in &state.net {
        if all.last() != Some(&Action::Deliver(*envelope)) {
            all.push(Action::Deliver(*envelope));
        }
    }
    if state.controller.has_work() {
        all.push(Action::TakeCommand);
    }
    for page in 0..config.pages {
        os_actions(config, state, page, all);
        for core in 0..config.rules.cores {
            core_actions(config, state, core, page, all);
        }
        if config.nic {
            nic_actions(config, state, page, all);
        }
    }
    if config.evictions {
        for (core, c) in state.cores.iter().enumerate() {
            for (line, cached) in c.cache.iter().enumerate() {
                if cached.readable().is_some() {
                    all.push(Action::Evict {
                        core: core as u8,
                        line: LineAddr(line as u64),
                    });
                }
            }
        }
    }
}

fn os_actions(config: &Config, state: &State, page: u8, all: &mut Vec<Action>) {
    let os = &state.os[usize::from(page)];
    if os.next_command(&config.rules).is_some() {
        all.push(Action::Submit { page });
    }
    if config.aborts && os.can_abort() {
        all.push(Action::Abort { page });
    }
    if os.may_invalidate(&config.rules, OsMigration::iotlb(&config.rules)) {
        all.push(Action::InvalidateIotlb { page });
    }
    let drains = config.rules.fault != Some(crate::protocol::Fault::NicDoesNotDrain);
    let idle = state.nic.pending.is_none() || !drains;
    if idle && os.may_invalidate(&config.rules, OsMigration::nic_tlb(&config.rules)) {
        all.push(Action::InvalidateNicTlb { page });
    }
    for core in 0..config.rules.cores {
        // INVLPG serialises: the core's own accesses are over.
        let idle = state.cores[usize::from(core)].pending.is_none();
        if idle && os.may_invalidate(&config.rules, 1 << core) {
            all.push(Action::Invalidate { core, page });
        }
    }
}

fn core_actions(config: &Config, state: &State, core: u8, page: u8, all: &mut Vec<Action>) {
    let c = &state.cores[usize::from(core)];
    let Some(role) = c.tlb[usize::from(page)] else {
        all.push(Action::Translate { core, page });
        return;
    };
    if c.pending.is_some() {
        return;
    }
    for index in 0..config.lines {
        let line = config.mapping(page).line(role, index);
        let cached = c.cache[line.0 as usize];
        let access = |write| Action::Access {
            core,
            page,
            index,
            write,
        };
        match cached {
            Cached::Evicting { .. } => {}
            // A load that hits changes nothing; `properties` checks what it would return.
            Cached::Invalid => all.extend([access(false), access(true)]),
            Cached::Modified(true) => {}
            _ => all.push(access(true)),
        }
    }
}

fn nic_actions(config: &Config, state: &State, page: u8, all: &mut Vec<Action>) {
    let nic = &state.nic;
    if nic.tlb[usize::from(page)].is_none() {
        all.push(Action::NicTranslate { page });
    } else if nic.pending.is_none() {
        for index in 0..config.lines {
            for write in [false, true] {
                all.push(Action::NicAccess { page, index, write });
            }
        }
    }
}

/// The state after `action`, or `None` when it cannot happen yet (a busy line, a full queue).
pub fn apply(config: &Config, last: &State, action: &Action) -> Option<State> {
    let mut state = last.clone();
    let rules = &config.rules;
    match *action {
        Action::Deliver(envelope) => {
            let place = state.net.iter().position(|e| *e == envelope)?;
            state.net.remove(place);
            deliver(config, &mut state, envelope)?;
        }
        Action::Translate { core, page } => {
            let pte = state.os[usize::from(page)].pte;
            state.cores[usize::from(core)].tlb[usize::from(page)] = Some(pte);
        }
        Action::Access {
            core,
            page,
            index,
            write,
        } => access(config, &mut state, core, page, index, write),
        Action::Evict { core, line } => {
            let cached = &mut state.cores[usize::from(core)].cache[line.0 as usize];
            if let Some(data) = cached.evict() {
                request(config, &mut state, core, line, Kind::WriteBack(data));
            }
        }
        Action::NicTranslate { page } => {
            let page = usize::from(page);
            let pte = state.os[page].pte;
            state.nic.tlb[page] = Some(*state.nic.iotlb[page].get_or_insert(pte));
        }
        Action::NicAccess { page, index, write } => {
            let role = state.nic.tlb[usize::from(page)]?;
            let line = config.mapping(page).line(role, index);
            state.nic.pending = Some(Pending { line, write });
            let kind = if write {
                Kind::WriteOnce(true)
            } else {
                Kind::ReadOnce
            };
            request(config, &mut state, rules.cores, line, kind);
        }
        Action::Submit { page } => {
            let os = &mut state.os[usize::from(page)];
            let command = os.next_command(rules)?;
            state.controller.submit(rules, command).ok()?;
            os.submitted(rules);
        }
        Action::TakeCommand => {
            let mut out = Outbox::default();
            let completion = state.controller.take_next(rules, &mut out);
            complete(config, &mut state, completion);
            flush(config, &mut state, out)?;
        }
        Action::Abort { page } => {
            let os = &mut state.os[usize::from(page)];
            os.abort(rules);
            without_nic(config, os);
        }
        Action::Invalidate { core, page } => {
            state.cores[usize::from(core)].tlb[usize::from(page)] = None;
            state.os[usize::from(page)].invalidated(rules, 1 << core);
        }
        Action::InvalidateIotlb { page } => {
            state.nic.iotlb[usize::from(page)] = None;
            state.os[usize::from(page)].invalidated(rules, OsMigration::iotlb(rules));
        }
        Action::InvalidateNicTlb { page } => {
            state.nic.tlb[usize::from(page)] = None;
            state.os[usize::from(page)].invalidated(rules, OsMigration::nic_tlb(rules));
        }
    }
    if config.symmetry {
        state = state.representative();
    }
    Some(state)
}

fn request(config: &Config, state: &mut State, agent: u8, line: LineAddr, kind: Kind<bool>) {
    state.send(Envelope {
        from: Node::Agent(agent),
        to: Node::Slice(config.rules.home(line)),
        message: Message::Request(Request {
            agent,
            line,
            kind,
            resolved: false,
        }),
    });
}

fn access(config: &Config, state: &mut State, core: u8, page: u8, index: u32, write: bool) {
    let c = &mut state.cores[usize::from(core)];
    let Some(role) = c.tlb[usize::from(page)] else {
        return;
    };
    let line = config.mapping(page).line(role, index);
    let cached = c.cache[line.0 as usize];
    if write && cached.is_writable() {
        return write_hit(config, state, core, line);
    }
    c.pending = Some(Pending { line, write });
    let bypass = role == Role::Source && c.marked >> page & 1 == 1;
    let kind = match (write, bypass) {
        (false, false) => Kind::GetShared,
        (true, false) => Kind::GetModified,
        (false, true) => Kind::ReadOnce,
        (true, true) => Kind::WriteOnce(true),
    };
    request(config, state, core, line, kind);
}

/// A store to a line the core may write. Every store is treated as an atomic that returns the
/// old value, so that stale data under it are noticed.
fn write_hit(config: &Config, state: &mut State, core: u8, line: LineAddr) {
    let cached = state.cores[usize::from(core)].cache[line.0 as usize];
    if cached.readable() != Some(true) {
        state.error = Some("a store found stale data in its private cache");
    }
    state.stale_all(config, line);
    state.cores[usize::from(core)].cache[line.0 as usize] = Cached::Modified(true);
}

fn complete(config: &Config, state: &mut State, completion: Option<Completion>) {
    let Some(Completion { command, status }) = completion else {
        return;
    };
    let os = state.os.iter_mut().find(|os| os.map == command.map());
    if let Some(os) = os {
        os.completed(&config.rules, status);
        without_nic(config, os);
        if matches!(os.phase, OsPhase::Refused(_)) {
            state.error = Some("the OS procedure was refused a command");
        }
    }
}

/// A machine without a NIC has no device TLBs to wait for.
fn without_nic(config: &Config, os: &mut OsMigration) {
    if !config.nic {
        os.invalidated(&config.rules, OsMigration::iotlb(&config.rules));
        os.invalidated(&config.rules, OsMigration::nic_tlb(&config.rules));
    }
}

/// Whether a message only ends a wait of its receiver.
fn is_answer(message: &Message<bool>) -> bool {
    matches!(
        message,
        Message::ProbeReply { .. }
            | Message::Unblock { .. }
            | Message::CopyAck { .. }
            | Message::WriteBackDone { .. }
            | Message::Installed(_)
            | Message::SliceCopied(_)
            | Message::Finished(_)
            | Message::Flushed(_)
            | Message::Cleared(_)
    )
}

fn flush(config: &Config, state: &mut State, out: Outbox<bool>) -> Option<()> {
    if let Some(Performed {
        at,
        before,
        written,
        ..
    }) = out.performed
    {
        if !before {
            state.error = Some("an uncached access found stale data in the last-level cache");
        }
        if written.is_some() {
            state.stale_all(config, at);
            state.home_line(config, at).data = true;
        }
    }
    for envelope in out.sent {
        if config.prompt_answers && is_answer(&envelope.message) {
            deliver(config, state, envelope)?;
        } else {
            state.send(envelope);
        }
    }
    Some(())
}

fn deliver(config: &Config, state: &mut State, envelope: Envelope<bool>) -> Option<()> {
    let rules = &config.rules;
    let mut out = Outbox::default();
    match envelope.to {
        Node::Slice(s) => {
            let slice = &mut state.slices[usize::from(s)];
            match slice.handle(rules, envelope.message, &mut out) {
                Taken::Yes => {}
                Taken::Busy(_) => return None,
            }
        }
        Node::Controller => {
            let completion = state.controller.handle(rules, envelope.message, &mut out);
            complete(config, state, completion);
        }
        Node::Agent(a) if a < rules.cores => {
            to_core(config, state, a, envelope.message, &mut out);
        }
        Node::Agent(_) => state.nic.pending = None,
    }
    flush(config, state, out)
}

fn to_core(
    config: &Config,
    state: &mut State,
    core: u8,
    message: Message<bool>,
    out: &mut Outbox<bool>,
) {
    let me = Node::Agent(core);
    let c = &mut state.cores[usize::from(core)];
    let mut reply = |home, message| {
        out.sent.push(Envelope {
            from: me,
            to: Node::Slice(home),
            message,
        });
    };
    match message {
        Message::Data {
            line,
            at,
            home,
            data,
            grant,
        } => {
            let write = c.pending.take().is_some_and(|p| p.write);
            c.cache[line.0 as usize].fill(grant, data);
            reply(home, Message::Unblock { at });
            if write {
                write_hit(config, state, core, line);
            } else if !data {
                state.error = Some("a load was given stale data");
            }
        }
        Message::Probe {
            line,
            at,
            home,
            probe,
        } => {
            let (data, kept) = c.cache[line.0 as usize].probe(probe);
            let answer = Message::ProbeReply {
                at,
                agent: core,
                data,
                kept,
            };
            reply(home, answer);
        }
        Message::Once { .. } => c.pending = None,
        Message::WriteBackDone { line } => c.cache[line.0 as usize].write_back_done(),
        Message::Nack { line } => {
            let (page, _) = State::logical(config, line);
            c.marked |= 1 << page;
            let write = c.pending.is_some_and(|p| p.write);
            let kind = match write {
                true => Kind::WriteOnce(true),
                false => Kind::ReadOnce,
            };
            request(config, state, core, line, kind);
        }
        Message::Mark(map) => c.marked |= 1 << State::logical(config, map.src).0,
        Message::Unmark(map) => c.marked &= !(1 << State::logical(config, map.src).0),
        _ => unreachable!("not a message for a core"),
    }
}
