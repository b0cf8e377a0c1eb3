// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an event leads to.

use super::config::CheckConfig;
use super::core_step::{access, at_core, flush_instruction};
use super::events::Action;
use super::state::{FewLines, State};
use crate::protocol::{
    Busy, Completion, Controller, Envelope, HOST, LineRequest, LineStore, Message, MetadataTable,
    OsMigration, OsPhase, Outbox, Party, Performed, PlantedFault, RequestKind, Role, Slice, Taken,
    Todo,
};

/// The state after `action`, or `None` when it cannot happen yet (a busy line, a full queue).
pub fn apply(config: &CheckConfig, last: &State, action: &Action) -> Option<State> {
    let mut state = last.clone();
    let rules = &last.rules(config);
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
            at_core(config, &mut state, core, None, |c, step| {
                access(c, step, line, write, config.mshrs);
            })?;
        }
        Action::Evict { core, line } => {
            at_core(config, &mut state, core, None, |c, step| {
                c.side.evict(step, line);
            })?;
        }
        Action::Flush { core, page, index } => {
            let role = state.cores[usize::from(core)].tlb[usize::from(page)]?;
            let line = state.os[usize::from(page)].map.line(role, index);
            at_core(config, &mut state, core, None, |c, step| {
                flush_instruction(c, step, line, config.mshrs);
            })?;
        }
        Action::Recall { line } => {
            let slice = &mut state.slices[usize::from(rules.home(line))];
            let mut out = Outbox::default();
            if slice.recall(rules, line, &mut out) != Taken::Yes {
                return None;
            }
            flush(config, &mut state, out)?;
        }
        Action::NicTranslate { .. } | Action::NicTranslated { .. } | Action::NicAccess { .. } => {
            apply_nic(config, &mut state, action)?;
        }
        _ => apply_os(config, &mut state, action)?,
    }
    if config.symmetry {
        state = state.representative();
    }
    Some(state)
}

/// An event of the NIC.
fn apply_nic(config: &CheckConfig, state: &mut State, action: &Action) -> Option<()> {
    match *action {
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
            let rules = &state.rules(config);
            let request = LineRequest::of_device(rules.cores, line, write.then_some(true));
            state.send(Envelope {
                from: Party::Agent(rules.cores),
                to: Party::Slice(rules.home(line)),
                message: Message::Request(request),
            });
        }
        _ => unreachable!("not an event of the NIC: {action:?}"),
    }
    Some(())
}

/// An event of the OS, or of the front end that takes its commands.
fn apply_os(config: &CheckConfig, state: &mut State, action: &Action) -> Option<()> {
    let rules = &state.rules(config);
    match *action {
        Action::Submit { page } => {
            let os = &mut state.os[usize::from(page)];
            let command = os.next_command(rules)?;
            let function = config.function(usize::from(page));
            let submitted = match function {
                HOST => state.controller.submit(rules, command),
                guest => state.controller.submit_as(rules, guest, command),
            };
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
            if !os.aborting || os.pte != Role::Source {
                state.error = Some("an abort goes back to the source");
            }
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
            let mut moving = state.os.iter().map(|os| state.controller.works_on(os.map));
            let moving = moving.any(|works| works);
            if state.controller.has_work() || moving != state.controller.is_resetting(HOST) {
                state.error = Some("a reset drops what waits, and lets go on what moves");
            }
            if rules.has(PlantedFault::ResetDropsTable) {
                state.controller = Controller::default();
                let slices = state.slices.iter_mut();
                slices.for_each(|slice| slice.table = MetadataTable::default());
            }
        }
        Action::Offline => state.go_offline(config),
        Action::MoveAgain { page } => state.move_again(usize::from(page)),
        _ => unreachable!("not an event of the OS: {action:?}"),
    }
    Some(())
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

/// Whether a message answers an access: data, what was read or written in the last level, a
/// refusal.
///
/// Its arrival is a left mover (Lipton, CACM 1975) where a core has one access under way: it may
/// come right after its sending without another outcome. Until it arrives the line is closed to all
/// others; its core neither begins an access nor lets a translation go; a mark that arrives before
/// or after it leaves the same marks; and no other party looks at what it changes.
fn is_data<V>(message: &Message<V>) -> bool {
    matches!(
        message,
        Message::Data { .. } | Message::Once { .. } | Message::Nack { .. }
    )
}

pub(super) fn flush(config: &CheckConfig, state: &mut State, out: Outbox<bool>) -> Option<()> {
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
        let message = &envelope.message;
        let prompt = config.prompt_answers && is_answer(message);
        if second || prompt || config.prompt_data && is_data(message) {
            deliver(config, state, envelope)?;
        } else {
            state.send(envelope);
        }
    }
    Some(())
}

/// The request that a message lets a slice serve, if it is the last one that it waits for.
fn served(state: &State, slice: usize, message: &Message<bool>) -> Option<RequestKind<bool>> {
    let at = match message {
        Message::Request(request) => return Some(request.kind),
        Message::ProbeReply { at, .. } => at,
        _ => return None,
    };
    let mut lines = state.slices[slice].lines.0.iter();
    match lines.find(|(line, _)| line == at)?.1.busy {
        Busy::Probing {
            todo: Todo::Serve(request),
            ..
        } => Some(request.kind),
        _ => None,
    }
}

/// What is wrong with an access that a slice has performed in place, if anything.
fn wrong_in_place(
    config: &CheckConfig,
    state: &State,
    (mut before, message): (Slice<FewLines>, Message<bool>),
    (kind, out): (Option<RequestKind<bool>>, &Outbox<bool>),
) -> Option<&'static str> {
    let answer = |e: &Envelope<bool>| matches!(e.message, Message::Once { .. });
    let answered = out.sent.iter().any(answer);
    let Some(done) = &out.performed else {
        return answered.then_some("an access was answered and not performed");
    };
    let writes = matches!(kind, Some(RequestKind::WriteOnce(_)));
    if writes != done.written.is_some() {
        return Some("a write was performed as a read, or the other way around");
    }
    let of = State::logical(config, done.at);
    if kind == Some(RequestKind::Flush) && state.is_cached(of, config) {
        return Some("a flush instruction left a copy in a private cache");
    }
    // The same write of another value leaves that value.
    if let (true, Message::Request(request)) = (writes, message) {
        let kind = RequestKind::WriteOnce(false);
        let other = Message::Request(LineRequest { kind, ..request });
        let taken = before.handle(&state.rules(config), other, &mut Outbox::default());
        if taken == Taken::Yes && before.lines.line(done.at).data {
            return Some("a write leaves its value");
        }
    }
    None
}

/// What is wrong with a request that a slice hands on, if anything.
fn wrong_forward(message: &Message<bool>, out: &Outbox<bool>) -> Option<&'static str> {
    let Message::Request(taken) = message else {
        return None;
    };
    let again = out.sent.iter().any(|envelope| match envelope.message {
        Message::Request(sent) => !sent.resolved,
        _ => false,
    });
    let handed_on = taken.origin.is_some() && again;
    handed_on.then_some("a request that was forwarded goes on only to where it is served")
}

fn deliver(config: &CheckConfig, state: &mut State, envelope: Envelope<bool>) -> Option<()> {
    let rules = &state.rules(config);
    let mut out = Outbox::default();
    match envelope.to {
        Party::Slice(s) => {
            let s = usize::from(s);
            let kind = served(state, s, &envelope.message);
            let before = state.slices[s].clone();
            match state.slices[s].handle(rules, envelope.message, &mut out) {
                Taken::Yes => {}
                Taken::Busy(_) => return None,
            }
            let wrong = wrong_in_place(config, state, (before, envelope.message), (kind, &out));
            let wrong = wrong.or(wrong_forward(&envelope.message, &out));
            state.error = state.error.or(wrong);
        }
        Party::Controller => {
            let completion = state.controller.handle(rules, envelope.message, &mut out);
            complete(config, state, completion);
        }
        Party::Agent(a) if a < rules.cores => {
            let message = envelope.message;
            return at_core(config, state, a, Some(message), |c, step| {
                c.side.receive(step, message);
            });
        }
        Party::Agent(_) => state.nic.pending = None,
    }
    flush(config, state, out)
}
