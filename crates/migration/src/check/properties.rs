// SPDX-License-Identifier: MIT OR Apache-2.0
//! What must hold in every reachable state. (That every access and every migration ends is a
//! property of the whole graph: `liveness.rs`.)

use super::config::CheckConfig;
use super::descriptors::wrong_descriptors_refused;
use super::state::State;
use crate::protocol::{
    Cached, Design, Directory, LineAddr, Message, OsMigration, OsPhase, Party, PlantedFault,
    RequestKind, Role,
};

/// A property of a state, with its name.
pub type Property = (&'static str, fn(&CheckConfig, &State) -> bool);

/// The properties that hold in every state.
pub const CHECKS: [Property; 11] = [
    ("every access returns the last write", reads_are_fresh),
    ("no write is lost", some_copy_is_fresh),
    (
        "a line is cached under one mapping at most",
        one_mapping_cached,
    ),
    (
        "a freed page is unreferenced after Clear",
        freed_page_unreferenced,
    ),
    (
        "a line that may be written stands in one private cache",
        one_writer,
    ),
    ("a line that leaves is on its way", lines_leave),
    ("each access under way is waited for once", accesses_wait),
    (
        "the kernel waits for what it has asked for, and for nothing else",
        kernel_waits_for_something,
    ),
    ("no mark outlives Clear", marks_end),
    ("a page that has been copied is marked", marks_are_set),
    (
        "a wrong descriptor is refused and changes nothing",
        wrong_descriptors_refused,
    ),
];

/// The sides a TLB names, or would name after a miss.
fn visible(entry: Option<Role>, pte: Role) -> Role {
    entry.unwrap_or(pte)
}

fn reads_are_fresh(config: &CheckConfig, state: &State) -> bool {
    let hits_are_fresh = state.cores.iter().all(|core| {
        state.os.iter().enumerate().all(|(page, os)| {
            let role = visible(core.tlb[page], os.pte);
            (0..config.lines()).all(|i| {
                let line = os.map.line(role, i);
                core.cached(line).readable() != Some(false)
            })
        })
    });
    state.error.is_none() && hits_are_fresh
}

fn some_copy_is_fresh(config: &CheckConfig, state: &State) -> bool {
    // A step that failed another property leaves no meaning to this one.
    if state.error.is_some() {
        return true;
    }
    let mut copy = state.clone();
    (0..usize::from(config.pages)).all(|page| {
        (0..config.lines()).all(|index| {
            let mut fresh = false;
            copy.each_copy(config, (page, index), |v| fresh |= *v);
            fresh
        })
    })
}

/// Whether the destination may still hold dead lines of its former life in private caches.
fn before_purge(os_phase: OsPhase, pte: Role) -> bool {
    pte == Role::Source
        && matches!(
            os_phase,
            OsPhase::Ready | OsPhase::Installing | OsPhase::Copying
        )
}

fn one_mapping_cached(config: &CheckConfig, state: &State) -> bool {
    state.os.iter().all(|os| {
        let cached = |role, i| {
            let line = os.map.line(role, i);
            state
                .cores
                .iter()
                .any(|c| c.cached(line).readable().is_some())
        };
        before_purge(os.phase, os.pte)
            || (0..config.lines())
                .all(|i| !(cached(Role::Source, i) && cached(Role::Destination, i)))
    })
}

/// Stores to a line that is held modified are not explored: no other copy is there to go stale.
fn one_writer(_: &CheckConfig, state: &State) -> bool {
    state.cores.iter().enumerate().all(|(core, c)| {
        c.lines()
            .filter(|(_, held)| held.is_writable())
            .all(|(line, _)| {
                let mut cores = state.cores.iter().enumerate();
                cores.all(|(other, c)| other == core || c.cached(line).readable().is_none())
            })
    })
}

/// A write-back that nobody sends keeps its place for ever.
fn lines_leave(_: &CheckConfig, state: &State) -> bool {
    (0..).zip(&state.cores).all(|(core, c)| {
        let leaves = |held: &Cached<bool>| matches!(held, Cached::Evicting { .. });
        let mut leaving_lines = c.lines().filter(|(_, held)| leaves(held));
        leaving_lines.all(|(line, _)| {
            let answered = state.net.iter().any(|e| {
                let done = matches!(e.message, Message::WriteBackDone { line: l } if l == line);
                done && e.to == Party::Agent(core)
            });
            answered || leaving(state, core, line)
        })
    })
}

/// Whether a write-back of this line has not arrived yet.
fn leaving(state: &State, core: u8, line: LineAddr) -> bool {
    state.net.iter().any(|e| match e.message {
        Message::Request(r) => {
            r.agent == core && r.line == line && matches!(r.kind, RequestKind::WriteBack(_))
        }
        _ => false,
    })
}

fn freed_page_unreferenced(config: &CheckConfig, state: &State) -> bool {
    state.os.iter().enumerate().all(|(page, os)| {
        if os.phase != OsPhase::Done {
            return true;
        }
        let freed = match os.pte {
            Role::Source => Role::Destination,
            Role::Destination => Role::Source,
        };
        let is_freed = |line: LineAddr| os.map.locate(line).is_some_and(|(role, _)| role == freed);
        let tlbs = state.cores.iter().map(|c| &c.tlb);
        let devices = [&state.nic.tlb, &state.nic.iotlb];
        let translated = tlbs.chain(devices).any(|tlb| tlb[page] == Some(freed));
        let waiting = state.cores.iter().flat_map(|c| c.side.misses());
        let pending = waiting
            .map(|miss| miss.line)
            .chain(state.nic.pending.map(|(line, _)| line));
        let pending = pending.into_iter().any(is_freed);
        let cached = (0..).zip(&state.cores).any(|(core, c)| {
            (0..config.lines()).any(|i| {
                let line = os.map.line(freed, i);
                match c.cached(line) {
                    Cached::Invalid => false,
                    // Once its data are taken, a write-back is an empty shell that waits for an
                    // answer.
                    Cached::Evicting { given, .. } => !given && leaving(state, core, line),
                    _ => true,
                }
            })
        });
        let listed = state
            .slices
            .iter()
            .flat_map(|s| &s.lines.0)
            .any(|(at, line)| {
                let tag = line.directory.holders().map(|(tag, _)| tag);
                tag.is_some_and(is_freed) || (is_freed(*at) && line.directory != Directory::Idle)
            });
        let under_way = state.net.iter().any(|e| match e.message {
            Message::Request(r) => is_freed(r.line) && !matches!(r.kind, RequestKind::WriteBack(_)),
            _ => false,
        });
        !(translated || pending || cached || listed || under_way)
    })
}

/// Whether each access that a core has under way stands in its miss-status entries, once, and no
/// line in two of them.
fn accesses_wait(config: &CheckConfig, state: &State) -> bool {
    state.cores.iter().all(|core| {
        let misses = core.side.misses();
        let tokens: Vec<u8> = misses.iter().flat_map(|miss| miss.tokens()).collect();
        let each = tokens.iter().fold(0u8, |set, token| set | 1 << token);
        let lines = |line| misses.iter().filter(|miss| miss.line == line).count();
        each == core.open
            && tokens.len() == core.open.count_ones() as usize
            && misses.iter().all(|miss| lines(miss.line) == 1)
            && misses.len() <= usize::from(config.mshrs)
            && core.side.marks().len() <= usize::from(config.rules.mark_entries)
    })
}

/// Whether the kernel's view of each migration is that of the front end and of the TLBs: a command
/// under way has been asked for, only TLBs of the machine are waited for, and no longer than one
/// of them may be stale.
fn kernel_waits_for_something(config: &CheckConfig, state: &State) -> bool {
    use OsPhase::{
        Clearing, Copying, Done, Installing, Invalidating, Ready, ReadyToClear, Refused,
    };
    let rules = &config.rules;
    // These change when the kernel waits.
    let early = matches!(
        rules.fault,
        Some(
            PlantedFault::EarlyClear
                | PlantedFault::PteBeforeInstall
                | PlantedFault::CopyBeforeTlbsClean
                | PlantedFault::ResetDropsTable
        )
    );
    let cacheable = rules.design == Design::Cacheable;
    let devices = OsMigration::iotlb(rules) | OsMigration::nic_tlb(rules);
    let cores = (1u128 << rules.cores) - 1;
    let devices = match config.device_tlb {
        true => devices,
        false => OsMigration::iotlb(rules),
    };
    let tlbs = if config.nic { cores | devices } else { cores };
    early
        || state.error.is_some()
        || state.os.iter().all(|os| {
            let asked = matches!(os.phase, Installing | Copying | Clearing);
            let invalidates = os.phase == Invalidating;
            // Pages that have not changed their place, or no longer.
            let before = matches!(os.phase, Installing) || os.phase == Ready && !os.aborting;
            asked == state.controller.works_on(os.map)
                && invalidates == (os.stale_tlbs != 0)
                && os.stale_tlbs & !tlbs == 0
                && (!before || os.pte == Role::Source || cacheable)
                && os.can_abort() == (invalidates && cacheable && !os.aborting)
                && (os.phase != Installing || cacheable && os.pte == Role::Source)
                && (os.phase != Copying || !cacheable || os.pte == Role::Destination)
                && (!matches!(os.phase, Done | ReadyToClear | Refused(_)) || !invalidates)
        })
}

/// A mark that stays holds a miss-status entry, and the frame's next page bypasses the caches.
fn marks_end(config: &CheckConfig, state: &State) -> bool {
    let ended = |os: &&OsMigration| os.phase == OsPhase::Done;
    let mut ended = state.os.iter().filter(ended);
    ended.all(|os| {
        !state
            .cores
            .iter()
            .flat_map(|core| core.side.marks())
            .any(|run| {
                let first = LineAddr(run.0 * u64::from(config.rules.page_lines));
                os.map.locate(first).is_some()
            })
    })
}

/// Marks save the refusal of a first access; nothing else depends on them. (Where there is an entry
/// for each migration: refusals take entries too. An OS that is not made to wait for marks is asked
/// for the worse that follows, a mark that leaks.)
fn marks_are_set(config: &CheckConfig, state: &State) -> bool {
    let rules = &config.rules;
    let enough = config.pages <= rules.mark_entries && config.lines() == rules.page_lines;
    let announced = rules.design == Design::NonCacheable && rules.announce;
    let waited_for = !rules.has(PlantedFault::UnmarkBeforeMarked);
    if !announced || !enough || !waited_for {
        return true;
    }
    let copied =
        |os: &&OsMigration| matches!(os.phase, OsPhase::Invalidating | OsPhase::ReadyToClear);
    state.os.iter().filter(copied).all(|os| {
        let page = os.map.src.0 / u64::from(rules.page_lines);
        let mut cores = state.cores.iter();
        cores.all(|core| core.side.marks().contains(&(page, page)))
    })
}
