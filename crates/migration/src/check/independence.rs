// SPDX-License-Identifier: MIT OR Apache-2.0
//! The premise of "two lines suffice" (docs/contiguitas-hw.md): a message about one line is taken
//! in the same way whatever the state of the page's other line is, and leaves that alone. Lines
//! meet in the table entry, the marks and the steps of the engine only.

use super::config::CheckConfig;
use super::events::{Action, actions};
use super::state::State;
use super::step::apply;
use crate::protocol::{
    Busy, Cached, Design, Directory, Envelope, LineAddr, Message, Party, SliceHash, Todo,
};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The line that a message is about, if it is one that no engine waits for.
fn about(config: &CheckConfig, state: &State, envelope: &Envelope<bool>) -> Option<LineAddr> {
    let line = match envelope.message {
        Message::Request(request) => request.line,
        Message::ProbeReply { at, .. } | Message::Unblock { at } => at,
        Message::Data { line, .. }
        | Message::Once { line, .. }
        | Message::Nack { line }
        | Message::WriteBackDone { line }
        | Message::Served { line }
        | Message::Probe { line, .. } => line,
        _ => return None,
    };
    // The last answer to the engine lets it go on: that is a step of the engine.
    let of = State::logical(config, line);
    let mut lines = state.slices.iter().flat_map(|slice| &slice.lines.0);
    let engine = lines.any(|(at, home)| {
        let todo = match home.busy {
            Busy::Probing { todo, .. } => Some(todo),
            _ => None,
        };
        State::logical(config, *at) == of && matches!(todo, Some(Todo::Engine(_)))
    });
    (!engine).then_some(line)
}

/// Another state of every line but those of `of`, by a number; undone by the same from `original`.
fn with_other_line(config: &CheckConfig, state: &State, of: (usize, u32), how: u8) -> State {
    let mut other = state.clone();
    let elsewhere = |line: LineAddr| State::logical(config, line) != of;
    for (at, home) in other.slices.iter_mut().flat_map(|slice| &mut slice.lines.0) {
        if elsewhere(*at) {
            home.data = how & 1 == 1;
            home.directory = match how & 2 {
                0 => Directory::Idle,
                _ => Directory::Owned { tag: *at, owner: 0 },
            };
            home.busy = match how & 4 {
                0 => Busy::Free,
                _ => Busy::AwaitUnblock,
            };
        }
    }
    for core in &mut other.cores {
        for at in 0..4 {
            if elsewhere(LineAddr(at)) {
                let cached = [
                    Cached::Invalid,
                    Cached::Shared(true),
                    Cached::Modified(false),
                ];
                core.set(LineAddr(at), cached[usize::from(how) % 3]);
            }
        }
    }
    other
}

/// Messages of all reachable states, each taken with and without another state of the other line.
fn compared(design: Design, hash: SliceHash) -> usize {
    let mut config = CheckConfig::new("independence", design);
    (
        config.rules.cores,
        config.rules.page_lines,
        config.rules.hash,
    ) = (1, 2, hash);
    (config.symmetry, config.aborts, config.nic) = (false, false, true);
    let print = |state: &State| {
        let mut hasher = DefaultHasher::new();
        state.hash(&mut hasher);
        hasher.finish()
    };
    let first = State::initial(&config);
    let mut known = HashSet::from([print(&first)]);
    let mut open = std::collections::VecDeque::from([first]);
    let mut compared = 0;
    while let Some(state) = open.pop_front() {
        let mut all = Vec::new();
        actions(&config, &state, &mut all);
        for action in all {
            let after = apply(&config, &state, &action);
            if let Action::Deliver(envelope) = &action
                && envelope.to != Party::Controller
                && let Some(line) = about(&config, &state, envelope)
            {
                let of = State::logical(&config, line);
                for how in 0..8 {
                    let wanted = after.as_ref().map(|a| with_other_line(&config, a, of, how));
                    let other = with_other_line(&config, &state, of, how);
                    let found = apply(&config, &other, &action);
                    assert_eq!(
                        found, wanted,
                        "{action:?} with the other line changed ({how})"
                    );
                    compared += 1;
                }
            }
            if let Some(after) = after
                && known.len() < 20_000
                && known.insert(print(&after))
            {
                open.push_back(after);
            }
        }
    }
    compared
}

#[test]
fn a_message_of_one_line_neither_reads_nor_changes_another() {
    for design in [Design::NonCacheable, Design::Cacheable] {
        for hash in [SliceHash::Modulo, SliceHash::Gray] {
            let compared = compared(design, hash);
            assert!(compared > 20_000, "{design:?} {hash:?}: {compared}");
        }
    }
}
