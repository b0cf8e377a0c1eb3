// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steps of a core, and what must be true of each: what its accesses find and do, what it asks for
//! on their behalf, and what it makes of each message.

use super::config::CheckConfig;
use super::state::{ModelCore, State};
use super::step::flush;
use crate::protocol::{
    Cached, CoreStep, Envelope, Issued, LineAddr, Message, Observer, Outbox, Probe, Protocol,
    RequestKind,
};

/// Of the accesses of a core: whether they found the last write, how many wrote, and which are
/// over.
#[derive(Default)]
pub struct Freshness {
    error: Option<&'static str>,
    values: u32,
    stores: u32,
    stored: Option<LineAddr>,
    ended: Vec<u8>,
}

impl Observer<bool, u8> for Freshness {
    fn given(&mut self, _: LineAddr, fresh: bool, write: bool) {
        self.values += 1;
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
        self.stores += 1;
        true
    }

    fn store_once(&mut self) -> bool {
        true
    }

    fn ended(&mut self, token: u8) {
        self.ended.push(token);
    }
}

/// Whether the core has marked the page of a line.
fn is_marked(rules: &Protocol, core: &ModelCore, line: LineAddr) -> bool {
    let page = line.0 / u64::from(rules.page_lines);
    let mut marks = core.side.marks().iter();
    marks.any(|&(first, last)| (first..=last).contains(&page))
}

/// Lets a core take a step, with a message or by itself, and makes all other copies stale when it
/// has stored. Each access that was asked for ends once.
pub fn at_core(
    config: &CheckConfig,
    state: &mut State,
    core: u8,
    message: Option<Message<bool>>,
    act: impl FnOnce(&mut ModelCore, &mut CoreStep<'_, bool, Freshness>),
) -> Option<()> {
    let mut seen = Freshness::default();
    let mut out = Outbox::default();
    let rules = state.rules(config);
    let mut step = CoreStep {
        rules: &rules,
        core,
        observer: &mut seen,
        out: &mut out,
    };
    let c = &mut state.cores[usize::from(core)];
    let before = message.map(|message| (message, c.clone()));
    act(c, &mut step);
    let wrong =
        before.and_then(|(message, before)| wrong_answer(&rules, &before, c, message, &seen));
    let asked = out
        .sent
        .iter()
        .find_map(|envelope| wrong_request(c, envelope));
    for token in seen.ended {
        if c.open >> token & 1 == 0 {
            seen.error = Some("an access ended that was not under way");
        }
        let others = !(1 << token);
        c.open &= others;
        c.stores &= others;
        c.flushes &= others;
    }
    state.error = seen.error.or(wrong).or(asked).or(state.error);
    if let Some(line) = seen.stored {
        state.stale_all(config, line);
        state.cores[usize::from(core)].set(line, Cached::Modified(true));
    }
    flush(config, state, out)
}

/// What is wrong with what a core made of a message, if anything.
fn wrong_answer(
    rules: &Protocol,
    before: &ModelCore,
    after: &ModelCore,
    message: Message<bool>,
    seen: &Freshness,
) -> Option<&'static str> {
    let stores = |token: &&u8| before.stores >> **token & 1 == 1;
    let ended = seen.ended.iter().filter(stores).count();
    match message {
        Message::Data { .. } if ended != seen.stores as usize => {
            Some("each store that ends with its line has stored")
        }
        Message::Data { .. } if seen.values == 0 => Some("an access is given what its line holds"),
        Message::Once { .. } if seen.stores != 0 => {
            Some("a store in the last level leaves the private caches as they are")
        }
        Message::Nack { line } => {
            let full = after.side.marks().len() >= usize::from(rules.mark_entries);
            let marked = full || is_marked(rules, after, line);
            (!marked).then_some("a page that was refused is marked")
        }
        Message::Probe {
            line,
            probe: Probe::Downgrade,
            ..
        } => {
            let lost = before.cached(line).readable() != after.cached(line).readable();
            lost.then_some("a line that others want to read stays readable")
        }
        _ => None,
    }
}

/// What is wrong with a request that a core sends for an access under way, if anything.
fn wrong_request(core: &ModelCore, envelope: &Envelope<bool>) -> Option<&'static str> {
    let Message::Request(request) = envelope.message else {
        return None;
    };
    let mut misses = core.side.misses().iter();
    let miss = misses.find(|miss| miss.line == request.line);
    let token = miss.and_then(|miss| miss.tokens().next());
    let has = |set: u8| token.is_some_and(|token| set >> token & 1 == 1);
    let right = match request.kind {
        RequestKind::WriteBack(_) => true,
        RequestKind::Flush => has(core.flushes),
        RequestKind::GetModified | RequestKind::WriteOnce(_) => has(core.stores),
        RequestKind::GetShared | RequestKind::ReadOnce => {
            token.is_some() && !has(core.stores | core.flushes)
        }
    };
    (!right).then_some("a core asks for what its access needs")
}

/// A load, or a store, that a core issues.
pub fn access(
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
    core.stores |= u8::from(write) << token;
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
    match issued {
        Issued::Refused => {
            core.open &= !(1 << token);
            core.stores &= core.open;
        }
        Issued::Joined => {}
        Issued::Asked if once == is_marked(step.rules, core, line) => {}
        Issued::Asked => {
            step.observer.error = Some("a marked page was to be cached, or another was not");
        }
    }
}

/// A flush instruction that a core issues.
pub fn flush_instruction(
    core: &mut ModelCore,
    step: &mut CoreStep<'_, bool, Freshness>,
    line: LineAddr,
    mshrs: u8,
) {
    let token = core.open.trailing_ones() as u8;
    let waited_for = core.side.misses().iter().any(|miss| miss.line == line);
    let full = core.side.misses().len() + core.side.marks().len() >= usize::from(mshrs);
    let leaves = matches!(core.cached(line), Cached::Evicting { .. });
    let wanted = match waited_for || full || leaves {
        true => Issued::Refused,
        false => Issued::Asked,
    };
    let issued = core.side.flush(step, line, token, mshrs.into());
    if issued != wanted {
        step.observer.error = Some("a flush instruction was refused or asked for without reason");
    }
    if issued == Issued::Asked {
        core.open |= 1 << token;
        core.flushes |= 1 << token;
    }
}
