// SPDX-License-Identifier: MIT OR Apache-2.0
//! Software may submit anything: in every state, wrong descriptors are refused with the code of
//! docs/contiguitas-hw.md and change nothing. (A full queue refuses too; the runs themselves meet
//! that.)

use super::config::CheckConfig;
use super::state::State;
use crate::protocol::{
    Command, HOST, LineAddr, Mapping, OsMigration, OsPhase, Outbox, Role, Status, VirtualFunction,
};
use std::cell::RefCell;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A line far from those of the machine; a multiple of each size of page in the suite.
const FRESH: u64 = 1200;
/// Number of a guest's function.
const GUEST: u8 = 1;

/// What a controller answers to a function's descriptor, and whether it has then changed or said
/// anything.
fn answer(
    config: &CheckConfig,
    state: &State,
    function: u8,
    command: Command,
) -> (Option<Status>, bool) {
    let rules = &config.rules;
    let mut controller = state.controller.clone();
    let lines = u64::from(config.lines());
    controller.grant(VirtualFunction {
        function: GUEST,
        first: LineAddr(FRESH),
        lines: 5 * lines,
        entries: 1,
    });
    let before = controller.clone();
    let mut out: Outbox<bool> = Outbox::default();
    let submitted = controller.submit_as(rules, function, command);
    debug_assert!(submitted.is_ok(), "the queue is empty and has an entry");
    let completion = controller.take_next(rules, &mut out);
    let changed = controller != before || !out.sent.is_empty();
    let right = completion.is_none_or(|c| (c.function, c.command) == (function, command));
    debug_assert!(right, "the record is that of another descriptor");
    (completion.map(|completion| completion.status), changed)
}

fn start(map: Mapping) -> Command {
    Command::Migrate { map, start: true }
}

thread_local! {
    /// Front ends that have answered rightly. Most steps leave the front end as it is.
    static ASKED: RefCell<HashSet<u64>> = RefCell::default();
}

/// A function that is being reset takes no descriptor; it is so while a migration of it moves.
fn resets_end(config: &CheckConfig, state: &State) -> bool {
    let controller = &state.controller;
    let map = config.mapping(0);
    let refused = || {
        controller
            .clone()
            .submit(&config.rules, Command::Clear { map })
            .is_err()
    };
    let moving = state.os.iter().any(|os| controller.works_on(os.map));
    let others = 1..4;
    !others
        .into_iter()
        .any(|function| controller.is_resetting(function))
        && (!controller.is_resetting(HOST) || state.was_reset && moving && refused())
}

/// See the head of this file.
pub fn wrong_descriptors_refused(config: &CheckConfig, state: &State) -> bool {
    let mut hasher = DefaultHasher::new();
    (config.name, config.rules, &state.controller).hash(&mut hasher);
    for os in &state.os {
        (os.map, os.phase, os.pte).hash(&mut hasher);
    }
    let key = hasher.finish();
    let asked = || ASKED.with_borrow(|asked| asked.contains(&key));
    // A function that is being reset takes none at all.
    let closed = state.controller.has_work() || state.controller.is_resetting(HOST);
    let right = resets_end(config, state) && (closed || asked() || all_refused(config, state));
    if right {
        ASKED.with_borrow_mut(|asked| asked.insert(key));
    }
    right
}

fn all_refused(config: &CheckConfig, state: &State) -> bool {
    let refused = |command, status| answer(config, state, HOST, command) == (Some(status), false);
    let lines = config.lines();
    let fresh = Mapping {
        src: LineAddr(FRESH),
        dst: LineAddr(FRESH + u64::from(lines)),
        lines,
    };
    let in_flight = state.controller.in_flight();
    let full = in_flight >= usize::from(config.rules.table_entries);
    in_flight <= usize::from(config.rules.table_entries)
        && bad_ranges(config).into_iter().all(|(map, status)| {
            refused(start(map), status) && refused(Command::Clear { map }, status)
        })
        && refused(Command::Clear { map: fresh }, Status::NotFound)
        && (!full || refused(start(fresh), Status::TableFull))
        && (full || answer(config, state, HOST, start(fresh)) == (None, true))
        && guests_are_confined(config, state, fresh, full)
        && state
            .os
            .iter()
            .all(|os| refused_while_moving(config, state, os))
}

/// Ranges that are wrong whatever the table holds.
fn bad_ranges(config: &CheckConfig) -> Vec<(Mapping, Status)> {
    let lines = config.lines();
    let page = u64::from(lines);
    let map = |src: u64, dst: u64, lines: u32| Mapping {
        src: LineAddr(src),
        dst: LineAddr(dst),
        lines,
    };
    // The first page that reaches beyond memory, and the last one that has an address.
    let end = config.rules.memory_lines / page * page;
    let last = u64::MAX / page * page;
    let mut bad = vec![
        (map(FRESH, FRESH, lines), Status::BadRange),
        (map(FRESH, FRESH + page, 2 * lines), Status::Unaligned),
        (map(FRESH + page, FRESH, 2 * lines), Status::Unaligned),
        (map(FRESH, FRESH + 4 * page, 3 * lines), Status::BadRange),
        (map(FRESH, FRESH, 2 * lines), Status::BadRange),
        (map(FRESH, FRESH + page, 0), Status::BadRange),
        (map(FRESH, end, lines), Status::OutsideMemory),
        (map(end, FRESH, lines), Status::OutsideMemory),
        (map(FRESH, last, lines), Status::OutsideMemory),
        (map(last, FRESH, lines), Status::OutsideMemory),
    ];
    if lines > 1 {
        let unaligned = [
            map(FRESH + 1, FRESH + 2 * page, lines),
            map(FRESH, FRESH + 2 * page + 1, lines),
            map(FRESH, FRESH + 2 * page, lines - 1),
            // Wrong in every way: the least code.
            map(last - 1, last - 1, lines + 1),
        ];
        bad.extend(unaligned.map(|map| (map, Status::Unaligned)));
    }
    bad
}

/// A guest moves its own frames only, as many at once as it has entries, and cannot tell whether
/// other frames move.
fn guests_are_confined(config: &CheckConfig, state: &State, own: Mapping, full: bool) -> bool {
    let answer = |command| answer(config, state, GUEST, command);
    let foreign = |command| answer(command) == (Some(Status::NotYours), false);
    let page = u64::from(own.lines);
    let beyond = LineAddr(FRESH + 5 * page);
    let before = LineAddr(FRESH - page);
    let out_of_it = [
        (own.src, beyond),
        (beyond, own.dst),
        (own.src, before),
        (before, own.dst),
    ]
    .map(|(src, dst)| Mapping {
        src,
        dst,
        lines: own.lines,
    });
    let across = Mapping {
        src: LineAddr(FRESH + 4 * page),
        dst: own.src,
        lines: 2 * own.lines,
    };
    let others = state.os.iter().map(|os| os.map);
    let mut maps = out_of_it.into_iter().chain([across]).chain(others);
    let wanted = match full {
        true => (Some(Status::TableFull), false),
        false => (None, true),
    };
    maps.all(|map| foreign(start(map)) && foreign(Command::Clear { map }))
        && answer(Command::Clear { map: own }) == (Some(Status::NotFound), false)
        && answer(start(own)) == wanted
}

/// A page that moves can neither take part in another migration, nor be cleared while it is copied.
fn refused_while_moving(config: &CheckConfig, state: &State, os: &OsMigration) -> bool {
    let refused = |command, status| answer(config, state, HOST, command) == (Some(status), false);
    let moves = match os.phase {
        OsPhase::Ready => os.pte == Role::Destination,
        OsPhase::Done | OsPhase::Refused(_) => false,
        _ => true,
    };
    let Mapping { src, dst, lines } = os.map;
    let beyond = LineAddr(2 * FRESH);
    // Each side, as source and as destination.
    let mut overlapping = [
        (src, beyond),
        (beyond, src),
        (dst, beyond),
        (beyond, dst),
        (dst, src),
    ]
    .into_iter();
    let overlap = |(src, dst)| refused(start(Mapping { src, dst, lines }), Status::Overlap);
    let map = os.map;
    let copying = [
        Command::Clear { map },
        start(map),
        Command::Migrate { map, start: false },
    ];
    let in_progress = |command| refused(command, Status::CopyInProgress);
    (!moves || overlapping.all(overlap))
        && (os.phase != OsPhase::Copying || copying.into_iter().all(in_progress))
}
