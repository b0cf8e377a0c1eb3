// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an exploration has met: which messages arrived in which situations, and what they led to.

use super::config::CheckConfig;
use super::events::Action;
use super::state::{FewLines, State};
use crate::protocol::{
    Busy, Cached, Directory, Envelope, LineAddr, Mapping, Message, Party, Phase, Protocol,
    RequestKind, Role, Slice, Todo,
};
use std::collections::{BTreeMap, HashSet};

/// What was met while a graph was explored.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// Distinct steps: what happened, in which situation, and what was sent then. Names of lines,
    /// cores and slices are left out.
    pub transitions: HashSet<Transition>,
    sent: BTreeMap<&'static str, u64>,
}

/// All kinds of messages.
#[cfg(test)]
pub(super) const MESSAGES: [&str; 28] = [
    "request",
    "forward",
    "probe",
    "served",
    "probe reply",
    "data",
    "once",
    "unblock",
    "write-back done",
    "nack",
    "mark",
    "marked",
    "unmark",
    "unmarked",
    "install",
    "installed",
    "engine step",
    "turn",
    "copy to another slice",
    "copy within the slice",
    "copy acknowledged",
    "slice copied",
    "finish",
    "finished",
    "flush",
    "flushed",
    "clear",
    "cleared",
];

/// A kind of step.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Transition {
    /// What happened.
    event: &'static str,
    /// Finer points of the event: what was asked or granted.
    detail: String,
    /// The state in which its receiver met it.
    situation: String,
    /// Kinds of the messages that are under way in addition, in order.
    sent: Vec<&'static str>,
}

impl Explored {
    /// Steps in which a slice sent a request on to another one.
    pub fn forwards(&self) -> u64 {
        self.steps_that_sent("forward")
    }

    /// Steps in which a line, or its ownership, went to another slice.
    pub fn cross_slice_copies(&self) -> u64 {
        self.steps_that_sent("copy to another slice")
    }

    /// Steps in which a core was refused a cacheable copy.
    pub fn nacks(&self) -> u64 {
        self.steps_that_sent("nack")
    }

    /// Kinds of messages that were sent at all.
    pub fn kinds(&self) -> impl Iterator<Item = &'static str> {
        self.sent.keys().copied()
    }

    fn steps_that_sent(&self, kind: &str) -> u64 {
        self.sent.get(kind).copied().unwrap_or(0)
    }

    /// Notes one step.
    pub fn note(&mut self, config: &CheckConfig, before: &State, action: &Action, after: &State) {
        let sent = added(before, action, after);
        for kind in &sent {
            *self.sent.entry(kind).or_default() += 1;
        }
        let (event, detail, situation) = match action {
            Action::Deliver(envelope) => (
                name(envelope),
                detail(&envelope.message),
                situation(config, before, envelope),
            ),
            Action::Access { write, .. } => ("access", format!("{write}"), String::new()),
            other => (event_name(other), String::new(), String::new()),
        };
        self.transitions.insert(Transition {
            event,
            detail,
            situation,
            sent,
        });
    }
}

/// Kinds of the messages that a step has added, in order.
fn added(before: &State, action: &Action, after: &State) -> Vec<&'static str> {
    let kinds = |state: &State| -> Vec<&'static str> {
        let mut kinds: Vec<_> = state.net.iter().map(name).collect();
        kinds.sort_unstable();
        kinds
    };
    let mut left = kinds(before);
    if let Action::Deliver(envelope) = action
        && let Ok(place) = left.binary_search(&name(envelope))
    {
        left.remove(place);
    }
    let mut left = left.into_iter().peekable();
    let mut added = kinds(after);
    added.retain(|kind| {
        while left.next_if(|old| old < kind).is_some() {}
        left.next_if(|old| old == kind).is_none()
    });
    added
}

fn event_name(action: &Action) -> &'static str {
    match action {
        Action::Translate { .. } => "translate",
        Action::Access { .. } => "access",
        Action::Evict { .. } => "evict",
        Action::Flush { .. } => "flush instruction",
        Action::Recall { .. } => "recall",
        Action::Offline => "offline",
        Action::NicTranslate { .. } => "NIC translates",
        Action::NicAccess { write: false, .. } => "NIC reads",
        Action::NicAccess { write: true, .. } => "NIC writes",
        Action::Deliver(envelope) => name(envelope),
        Action::Submit { .. } => "submit",
        Action::TakeCommand => "take command",
        Action::Abort { .. } => "abort",
        Action::Invalidate { .. } => "INVLPG",
        Action::InvalidateIotlb { .. } => "IOTLB invalidation",
        Action::InvalidateNicTlb { .. } => "device TLB invalidation",
        Action::NicTranslated { .. } => "NIC takes a translation",
        Action::Reset => "reset",
        Action::MoveAgain { .. } => "move again",
    }
}

/// The kind of a message; sender and receiver make a kind where they tell paths apart.
fn name(envelope: &Envelope<bool>) -> &'static str {
    match envelope.message {
        Message::Request(_) if matches!(envelope.from, Party::Slice(_)) => "forward",
        Message::Request(_) => "request",
        Message::Served { .. } => "served",
        Message::ProbeReply { .. } => "probe reply",
        Message::Unblock { .. } => "unblock",
        Message::Data { .. } => "data",
        Message::Once { .. } => "once",
        Message::Nack { .. } => "nack",
        Message::WriteBackDone { .. } => "write-back done",
        Message::Probe { .. } => "probe",
        Message::Mark(_) => "mark",
        Message::Marked(_) => "marked",
        Message::Unmark(_) => "unmark",
        Message::Unmarked(_) => "unmarked",
        Message::Install(_) => "install",
        Message::Installed(_) => "installed",
        Message::EngineStep(_) => "engine step",
        Message::Turn(_) => "turn",
        Message::CopyWrite { .. } | Message::Handover { .. } if envelope.from != envelope.to => {
            "copy to another slice"
        }
        Message::CopyWrite { .. } | Message::Handover { .. } => "copy within the slice",
        Message::CopyAck { .. } => "copy acknowledged",
        Message::SliceCopied(_) => "slice copied",
        Message::Finish(_) => "finish",
        Message::Finished(_) => "finished",
        Message::Flush(_) => "flush",
        Message::Flushed(_) => "flushed",
        Message::Clear(_) => "clear",
        Message::Cleared(_) => "cleared",
    }
}

fn detail(message: &Message<bool>) -> String {
    match message {
        Message::Request(r) => {
            let kind = match r.kind {
                RequestKind::GetShared => "shared",
                RequestKind::GetModified => "modified",
                RequestKind::ReadOnce => "read once",
                RequestKind::WriteOnce(_) => "write once",
                RequestKind::WriteBack(_) => "write back",
                RequestKind::Flush => "flush instruction",
            };
            format!("{kind}, resolved {}", r.resolved)
        }
        Message::ProbeReply { data, kept, .. } => format!("data {}, kept {kept}", data.is_some()),
        Message::Data { grant, .. } => format!("{grant:?}"),
        Message::Probe { probe, .. } => format!("{probe:?}"),
        Message::Handover { .. } => "ownership".into(),
        _ => String::new(),
    }
}

/// How the receiver of a message stands to what the message is about.
fn situation(config: &CheckConfig, state: &State, envelope: &Envelope<bool>) -> String {
    match envelope.to {
        Party::Slice(s) => {
            let slice = &state.slices[usize::from(s)];
            at_slice(&state.rules(config), slice, &envelope.message)
        }
        Party::Agent(a) if a < config.rules.cores => match envelope.message {
            Message::Data { line, .. }
            | Message::Once { line, .. }
            | Message::Nack { line }
            | Message::WriteBackDone { line }
            | Message::Probe { line, .. } => {
                let core = &state.cores[usize::from(a)];
                let waits = core.side.misses().iter().any(|miss| miss.line == line);
                format!("{} {waits}", cached(core.cached(line)))
            }
            _ => String::new(),
        },
        Party::Agent(_) => "NIC".into(),
        Party::Controller => String::new(),
    }
}

/// What a slice knows of the line, or of the migration, that a message is about: its entry, on
/// which side of the pointer the line is and whether the line's two names have one home; and the
/// line, where the slice is its home. For a step of the engine that is the line which is next.
fn at_slice(rules: &Protocol, slice: &Slice<FewLines>, message: &Message<bool>) -> String {
    let of_map = |map: Mapping| {
        let entry = slice.table.get(map)?;
        let own = |line: &LineAddr| rules.home(*line) == slice.id;
        let side = match entry.phase {
            Phase::Purging => Role::Destination,
            _ => Role::Source,
        };
        (entry.next..map.lines).map(|i| map.line(side, i)).find(own)
    };
    let (line, tag) = match *message {
        Message::Request(r) => (Some(r.line), r.line),
        Message::Served { line } => (None, line),
        Message::ProbeReply { at, .. } | Message::Unblock { at } => (Some(at), at),
        Message::CopyAck { map, index } => (Some(map.line(Role::Source, index)), map.src),
        Message::CopyWrite { map, index, .. } | Message::Handover { map, index, .. } => {
            (Some(map.line(Role::Destination, index)), map.dst)
        }
        Message::EngineStep(map) => (of_map(map), map.src),
        Message::Install(map)
        | Message::Turn(map)
        | Message::Finish(map)
        | Message::Flush(map)
        | Message::Clear(map) => (None, map.src),
        _ => unreachable!("not a message for a slice"),
    };
    let found = slice.table.find(line.unwrap_or(tag));
    let entry = found.map(|(entry, role, index)| {
        let home = |role| rules.home(entry.map.line(role, index));
        let crossed = home(Role::Source) != home(Role::Destination);
        let begun = entry.next > entry.pointer;
        (entry.phase, role, index.cmp(&entry.pointer), begun, crossed)
    });
    let home = slice.lines.0.iter().find(|(at, _)| Some(*at) == line);
    let home = home.map(|(_, home)| (directory(home.directory, tag), busy(home.busy)));
    format!("{entry:?} {home:?} {}", slice.table.entries().len())
}

fn directory(directory: Directory, line: LineAddr) -> (&'static str, bool) {
    match directory {
        Directory::Idle => ("idle", true),
        Directory::Shared { tag, .. } => ("shared", tag == line),
        Directory::Owned { tag, .. } => ("owned", tag == line),
    }
}

fn busy(busy: Busy<bool>) -> &'static str {
    match busy {
        Busy::Free => "free",
        Busy::Probing {
            todo: Todo::Serve(_),
            ..
        } => "probing for a request",
        Busy::Probing {
            todo: Todo::Engine(_),
            ..
        } => "probing for the engine",
        Busy::Probing {
            todo: Todo::Recall, ..
        } => "probing for the directory",
        Busy::AwaitUnblock => "awaits unblock",
        Busy::Copying => "copying",
        Busy::Copied => "copied",
    }
}

fn cached(cached: Cached<bool>) -> &'static str {
    match cached {
        Cached::Invalid => "invalid",
        Cached::Shared(_) => "shared",
        Cached::Exclusive(_) => "exclusive",
        Cached::Modified(_) => "modified",
        Cached::Evicting { given: false, .. } => "leaving",
        Cached::Evicting { given: true, .. } => "leaving, data given",
    }
}
