// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an event leads to.

use super::config::CheckConfig;
use super::events::Action;
use super::state::{ModelCore, State};
use crate::protocol::{
    Cached, Completion, Controller, CoreStep, Envelope, HOST, Issued, LineAddr, LineRequest,
    Message, MetadataTable, Observer, OsMigration, OsPhase, Outbox, Party, Performed, PlantedFault,
    RequestKind, Taken,
};

/// The state after `action`, or `None` when it cannot happen yet (a busy line, a full queue).
pub fn apply(config: &CheckConfig, last: &State, action: &Action) -> Option<State> {
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
        } => {
            let role = state.cores[usize::from(core)].tlb[usize::from(page)]?;
            let line = state.os[usize::from(page)].map.line(role, index);
            at_core(config, &mut state, core, |c, step| {
                access(c, step, line, write, config.mshrs);
            })?;
        }
        Action::Evict { core, line } => {
            at_core(config, &mut state, core, |c, step| c.side.evict(step, line))?;
        }
        Action::NicTranslate { page } => {
            let page = usize::from(page);
            let pte = state.os[page].pte;
            let answer = Some(*state.nic.iotlb[page].get_or_insert(pte));
            match config.late_translations {
                true => state.nic.translating[page] = answer,
                false => state.nic.tlb[page] = answer,
            }
        }
        Action::NicTranslated { page } => {
            let page = usize::from(page);
            state.nic.tlb[page] = state.nic.translating[page].take();
        }
        Action::NicAccess { page, index, write } => {
            let (place, pte) = (usize::from(page), state.os[usize::from(page)].pte);
            let role = match config.device_tlb {
                true => state.nic.tlb[place]?,
                false => *state.nic.iotlb[place].get_or_insert(pte),
            };
            let line = state.os[usize::from(page)].map.line(role, index);
            state.nic.pending = Some((line, write));
            let request = LineRequest::of_device(rules.cores, line, write.then_some(true));
            state.send(Envelope {
                from: Party::Agent(rules.cores),
                to: Party::Slice(rules.home(line)),
                message: Message::Request(request),
            });
        }
        _ => apply_os(config, &mut state, action)?,
    }
    if config.symmetry {
        state = state.representative();
    }
    Some(state)
}

/// An event of the OS, or of the front end that takes its commands.
fn apply_os(config: &CheckConfig, state: &mut State, action: &Action) -> Option<()> {
    let rules = &config.rules;
    match *action {
        Action::Submit { page } => {
            let os = &mut state.os[usize::from(page)];
            let command = os.next_command(rules)?;
            let function = config.function(usize::from(page));
            let submitted = state.controller.submit_as(rules, function, command);
            submitted.ok()?;
            os.submitted(rules);
        }
        Action::TakeCommand => {
            let mut out = Outbox::default();
            let completion = state.controller.take_next(rules, &mut out);
            complete(config, state, completion);
            flush(config, state, out)?;
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
            if !rules.has(PlantedFault::TranslationAfterInvalidation) {
                state.nic.translating[usize::from(page)] = None;
            }
            state.os[usize::from(page)].invalidated(rules, OsMigration::nic_tlb(rules));
        }
        Action::Reset => {
            state.was_reset = true;
            for dropped in state.controller.reset(HOST) {
                complete(config, state, Some(dropped));
            }
            if rules.has(PlantedFault::ResetDropsTable) {
                state.controller = Controller::default();
                let slices = state.slices.iter_mut();
                slices.for_each(|slice| slice.table = MetadataTable::default());
            }
        }
        Action::MoveAgain { page } => state.move_again(usize::from(page)),
        _ => unreachable!("not an event of the OS: {action:?}"),
    }
    Some(())
}

/// Of the accesses of a core: whether they found the last write, whether one wrote, and which are
/// over.
#[derive(Default)]
struct Freshness {
    error: Option<&'static str>,
    stored: Option<LineAddr>,
    ended: Vec<u8>,
}

impl Observer<bool, u8> for Freshness {
    fn given(&mut self, _: LineAddr, fresh: bool, write: bool) {
        // Every store is treated as an atomic that returns the old value, so that stale data
        // under it are noticed.
        match (fresh, write) {
            (true, _) => {}
            (false, true) => self.error = Some("a store found stale data in its private cache"),
            (false, false) => self.error = Some("a load was given stale data"),
        }
    }

    fn store(&mut self, line: LineAddr) -> bool {
        let same = self.stored.is_none_or(|stored| stored == line);
        debug_assert!(same, "a message brings one line");
        self.stored = Some(line);
        true
    }

    fn store_once(&mut self) -> bool {
        true
    }

    fn ended(&mut self, token: u8) {
        self.ended.push(token);
    }
}

/// Lets a core take a step, and makes all other copies stale when it has stored. Each access that
/// was asked for ends once.
fn at_core(
    config: &CheckConfig,
    state: &mut State,
    core: u8,
    act: impl FnOnce(&mut ModelCore, &mut CoreStep<'_, bool, Freshness>),
) -> Option<()> {
    let mut seen = Freshness::default();
    let mut out = Outbox::default();
    let mut step = CoreStep {
        rules: &config.rules,
        core,
        observer: &mut seen,
        out: &mut out,
    };
    let c = &mut state.cores[usize::from(core)];
    act(c, &mut step);
    for token in seen.ended {
        if c.open >> token & 1 == 0 {
            seen.error = Some("an access ended that was not under way");
        }
        c.open &= !(1 << token);
    }
    state.error = seen.error.or(state.error);
    if let Some(line) = seen.stored {
        state.stale_all(config, line);
        state.cores[usize::from(core)].set(line, Cached::Modified(true));
    }
    flush(config, state, out)
}

fn access(
    core: &mut ModelCore,
    step: &mut CoreStep<'_, bool, Freshness>,
    line: LineAddr,
    write: bool,
    mshrs: u8,
) {
    if let Some(fresh) = core.cached(line).permits(write) {
        step.observer.given(line, fresh, write);
        let stored = write.then(|| Cached::Modified(step.observer.store(line)));
        if let Some(cached) = stored {
            core.set(line, cached);
        }
        return;
    }
    let token = core.open.trailing_ones() as u8;
    core.open |= 1 << token;
    let waited_for = core.side.misses().iter().any(|miss| miss.line == line);
    let leaves = matches!(core.cached(line), Cached::Evicting { .. });
    let taken = core.side.misses().len() + core.side.marks().len();
    let wanted = match (leaves, waited_for) {
        (true, _) => Issued::Refused,
        (false, true) => Issued::Joined,
        (false, false) if taken >= usize::from(mshrs) => Issued::Refused,
        (false, false) => Issued::Asked,
    };
    let issued = core.side.miss(step, line, (write, token), mshrs.into());
    if issued != wanted {
        step.observer.error = Some("an access was refused, joined or asked for without reason");
    }
    let once = match step.out.sent.last().map(|envelope| &envelope.message) {
        Some(Message::Request(asked)) => matches!(
            asked.kind,
            RequestKind::ReadOnce | RequestKind::WriteOnce(_)
        ),
        _ => false,
    };
    let page = step.rules.page(line);
    let mut marks = core.side.marks().iter();
    let marked = marks.any(|&(first, last)| (first..=last).contains(&page));
    match issued {
        Issued::Refused => core.open &= !(1 << token),
        Issued::Joined => {}
        Issued::Asked if once == marked => {}
        Issued::Asked => {
            step.observer.error = Some("a marked page was to be cached, or another was not");
        }
    }
}

fn complete(config: &CheckConfig, state: &mut State, completion: Option<Completion>) {
    let Some(Completion {
        command, status, ..
    }) = completion
    else {
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
fn without_nic(config: &CheckConfig, os: &mut OsMigration) {
    if !config.nic {
        os.invalidated(&config.rules, OsMigration::iotlb(&config.rules));
    }
    if !config.nic || !config.device_tlb {
        os.invalidated(&config.rules, OsMigration::nic_tlb(&config.rules));
    }
}

/// Whether a message only ends a wait of its receiver.
pub(super) fn is_answer<V>(message: &Message<V>) -> bool {
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
            | Message::Marked(_)
            | Message::Unmarked(_)
            | Message::Served { .. }
    )
}

fn flush(config: &CheckConfig, state: &mut State, out: Outbox<bool>) -> Option<()> {
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
        // The value of its point in the order of the line, not that of an earlier or a later one.
        if let (Message::Once { data, .. }, Some(done)) = (envelope.message, out.performed)
            && data != done.before
        {
            state.error = Some("an uncached access was answered with another value");
        }
        // Nobody waits for `Served` before the next access: one of them at a time may be late.
        let served = |e: &Envelope<bool>| matches!(e.message, Message::Served { .. });
        let second = served(&envelope) && state.net.iter().any(served);
        if second || config.prompt_answers && is_answer(&envelope.message) {
            deliver(config, state, envelope)?;
        } else {
            state.send(envelope);
        }
    }
    Some(())
}

fn deliver(config: &CheckConfig, state: &mut State, envelope: Envelope<bool>) -> Option<()> {
    let rules = &config.rules;
    let mut out = Outbox::default();
    match envelope.to {
        Party::Slice(s) => {
            let slice = &mut state.slices[usize::from(s)];
            match slice.handle(rules, envelope.message, &mut out) {
                Taken::Yes => {}
                Taken::Busy(_) => return None,
            }
        }
        Party::Controller => {
            let completion = state.controller.handle(rules, envelope.message, &mut out);
            complete(config, state, completion);
        }
        Party::Agent(a) if a < rules.cores => {
            let message = envelope.message;
            return at_core(config, state, a, |c, step| c.side.receive(step, message));
        }
        Party::Agent(_) => state.nic.pending = None,
    }
    flush(config, state, out)
}
