// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sequences of the model checker: its graph is explored breadth first, and a path is taken to
//! every step of a kind that no earlier one was of.

use crate::trace::PageNumbering;
use crate::world::World;
use ample_migration::check::{Action, CheckConfig, Explored, State, actions, apply};
use ample_migration::protocol::{
    Completion, Design, Envelope, HOST, LineAddr, Message, OsMigration, Protocol, RequestKind,
    Role, SliceHash,
};
use anyhow::{Result, ensure};
use std::collections::{HashMap, VecDeque};
use std::io::Write;

/// Machines of two-line pages: both designs; a window, parallel slices; two pages; a NIC; a page
/// that moves twice.
fn machines(slices: u8) -> Vec<CheckConfig> {
    let mut all = Vec::new();
    for design in [Design::NonCacheable, Design::Cacheable] {
        let mut base = CheckConfig::new("", design);
        base.rules.slices = slices;
        base.rules.hash = match slices {
            2 => SliceHash::Gray,
            _ => SliceHash::Modulo,
        };
        base.rules.page_lines = 2;
        base.rules.table_entries = 2;
        (base.prompt_answers, base.symmetry) = (false, false);
        let mut add = |change: fn(&mut CheckConfig)| {
            let mut config = base.clone();
            change(&mut config);
            all.push(config);
        };
        add(|c| c.rules.cores = 1);
        add(|c| c.rules.cores = 2);
        add(|c| (c.rules.cores, c.nic) = (1, true));
        add(|c| (c.rules.cores, c.pages) = (1, 2));
        add(|c| (c.rules.cores, c.second_move) = (1, true));
        add(|c| {
            c.rules.cores = 1;
            (c.rules.copy_window, c.rules.parallel_slices) = (2, true);
        });
    }
    all
}

/// Explores `states` states of each machine of `cores` cores and writes the paths.
///
/// # Errors
/// When `slices` is neither 2 nor 3, `cores` neither 1 nor 2, or the trace cannot be written.
pub fn write(states: usize, slices: u8, cores: u8, out: impl Write) -> Result<()> {
    ensure!((2..=3).contains(&slices), "--slices {slices}: 2 or 3");
    ensure!((1..=2).contains(&cores), "--cores {cores}: 1 or 2");
    let sizes = PageNumbering {
        small_log2: 1,
        large_log2: 1,
    };
    let mut machines = machines(slices);
    // A front end waits for the answers of as many cores as it has.
    machines.retain(|config| config.rules.cores == cores);
    let mut explored = Explored::default();
    let mut world = World::new(machines[0].rules, sizes, out);
    world.one_late_served = true;
    let mut paths = 0;
    for config in &machines {
        for path in covering_paths(config, states, &mut explored) {
            replay(&mut world, config, &path);
            paths += 1;
        }
    }
    let kinds = explored.transitions.len();
    let events = world.tracer.finish()?;
    eprintln!("{paths} paths of the model checker, {kinds} kinds of steps, {events} events");
    Ok(())
}

/// Shortest paths that end with a step of a new kind.
fn covering_paths(
    config: &CheckConfig,
    states: usize,
    explored: &mut Explored,
) -> Vec<Vec<Action>> {
    let mut index = HashMap::new();
    let mut from: Vec<Option<(usize, Action)>> = vec![None];
    let mut queue = VecDeque::new();
    let first = State::initial(config);
    index.insert(first.clone(), 0);
    queue.push_back((0, first));
    let mut paths = Vec::new();
    let mut all = Vec::new();
    while let Some((number, state)) = queue.pop_front() {
        all.clear();
        actions(config, &state, &mut all);
        for action in &all {
            let Some(after) = apply(config, &state, action) else {
                continue;
            };
            let before = explored.transitions.len();
            explored.note(config, &state, action, &after);
            if explored.transitions.len() > before {
                let mut path = path_to(&from, number);
                path.push(action.clone());
                paths.push(path);
            }
            if from.len() < states && !index.contains_key(&after) {
                index.insert(after.clone(), from.len());
                queue.push_back((from.len(), after));
                from.push(Some((number, action.clone())));
            }
        }
    }
    paths
}

fn path_to(from: &[Option<(usize, Action)>], mut number: usize) -> Vec<Action> {
    let mut path = Vec::new();
    while let Some((parent, action)) = &from[number] {
        path.push(action.clone());
        number = *parent;
    }
    path.reverse();
    path
}

/// What the operating system and the TLBs are at while a path is replayed.
struct Software {
    os: Vec<OsMigration>,
    /// Translations of each core, of the NIC and of the IOTLB.
    tlbs: Vec<Vec<Option<Role>>>,
}

fn replay<W: Write>(world: &mut World<W>, config: &CheckConfig, path: &[Action]) {
    world.reset(config.rules);
    let agents = usize::from(config.rules.cores) + 2;
    let pages = usize::from(config.pages);
    let mut software = Software {
        os: (0..config.pages)
            .map(|page| OsMigration::new(config.mapping(page)))
            .collect(),
        tlbs: vec![vec![None; pages]; agents],
    };
    for action in path {
        if !step(world, config, &mut software, action) {
            // The hardware's engine works on one page at a time, and the path wants two.
            return;
        }
        for Completion {
            command, status, ..
        } in std::mem::take(&mut world.records)
        {
            let mine = |os: &&mut OsMigration| os.map == command.map();
            if let Some(os) = software.os.iter_mut().find(mine) {
                os.completed(&config.rules, status);
                without_nic(config, os);
            }
        }
    }
}

fn without_nic(config: &CheckConfig, os: &mut OsMigration) {
    if !config.nic {
        os.invalidated(&config.rules, OsMigration::iotlb(&config.rules));
        os.invalidated(&config.rules, OsMigration::nic_tlb(&config.rules));
    }
}

/// One event of a path. `false`: the hardware orders its passes otherwise.
fn step<W: Write>(
    world: &mut World<W>,
    config: &CheckConfig,
    software: &mut Software,
    action: &Action,
) -> bool {
    let rules: &Protocol = &config.rules;
    let nic = usize::from(rules.cores);
    let at = |software: &Software, agent: usize, page: u8, index: u32| -> LineAddr {
        let page = usize::from(page);
        let role = software.tlbs[agent][page].expect("the path translates first");
        software.os[page].map.line(role, index)
    };
    match *action {
        Action::Deliver(envelope) => {
            let mut net = world.net.iter();
            let place = net.position(|e| forget(*e) == forget(envelope));
            return world.deliver(place.expect("the path's message is under way"));
        }
        Action::Translate { core, page } => {
            let pte = software.os[usize::from(page)].pte;
            software.tlbs[usize::from(core)][usize::from(page)] = Some(pte);
        }
        Action::Access {
            core,
            page,
            index,
            write,
        } => world.access(core, at(software, usize::from(core), page, index), write),
        Action::Evict { core, line } => world.evict(core, line),
        Action::NicTranslate { page } => {
            let page = usize::from(page);
            let pte = software.os[page].pte;
            let filled = *software.tlbs[nic + 1][page].get_or_insert(pte);
            software.tlbs[nic][page] = Some(filled);
        }
        Action::NicAccess { page, index, write } => {
            world.device_access(at(software, nic, page, index), write);
        }
        Action::Submit { page } => {
            let os = &mut software.os[usize::from(page)];
            let command = os.next_command(rules).expect("the path submits");
            assert!(world.submit(HOST, command), "the path's queue has room");
            os.submitted(rules);
        }
        Action::TakeCommand => world.take_command(),
        Action::Abort { page } => {
            let os = &mut software.os[usize::from(page)];
            os.abort(rules);
            without_nic(config, os);
        }
        Action::Invalidate { core, page } => {
            software.tlbs[usize::from(core)][usize::from(page)] = None;
            software.os[usize::from(page)].invalidated(rules, 1 << core);
        }
        Action::InvalidateIotlb { page } => {
            software.tlbs[nic + 1][usize::from(page)] = None;
            software.os[usize::from(page)].invalidated(rules, OsMigration::iotlb(rules));
        }
        Action::InvalidateNicTlb { page } => {
            software.tlbs[nic][usize::from(page)] = None;
            software.os[usize::from(page)].invalidated(rules, OsMigration::nic_tlb(rules));
        }
        Action::MoveAgain { page } => move_again(software, usize::from(page)),
        _ => unreachable!("no event of a path's machine: {action:?}"),
    }
    true
}

/// The page moves again: sides are named anew.
fn move_again(software: &mut Software, page: usize) {
    let os = &mut software.os[page];
    let mut map = os.map;
    if os.pte == Role::Destination {
        std::mem::swap(&mut map.src, &mut map.dst);
    }
    *os = OsMigration::new(map);
    for tlb in &mut software.tlbs {
        tlb[page] = tlb[page].map(|_| Role::Source);
    }
}

/// The message without its data: the hardware sees none, and the checker's data are another thing
/// than the world's.
fn forget(mut envelope: Envelope<bool>) -> Envelope<bool> {
    match &mut envelope.message {
        Message::Request(request) => match &mut request.kind {
            RequestKind::WriteOnce(v) | RequestKind::WriteBack(v) => *v = true,
            _ => {}
        },
        Message::ProbeReply { data: Some(v), .. }
        | Message::Data { data: v, .. }
        | Message::Once { data: v, .. }
        | Message::CopyWrite { data: v, .. } => *v = true,
        _ => {}
    }
    envelope
}
