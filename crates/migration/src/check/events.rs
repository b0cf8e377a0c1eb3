// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can happen in a state.

use super::config::CheckConfig;
use super::state::State;
use crate::protocol::{Cached, Envelope, LineAddr, OsMigration, OsPhase, PlantedFault};
use std::fmt;

/// What can happen next in a state. Fields are the numbers of a core and of a page of data, the
/// index of a line in the page, and whether it is written.
#[allow(missing_docs, reason = "the same few fields in every variant")]
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
    /// A core executes a flush instruction.
    Flush { core: u8, page: u8, index: u32 },
    /// The directory at the home of a line takes it back.
    Recall { line: LineAddr },
    /// The last slice is taken offline: others become homes of its lines.
    Offline,
    /// The NIC fills its TLB from the IOTLB, or that from the page table.
    NicTranslate { page: u8 },
    /// A late answer to the NIC's translation request arrives.
    NicTranslated { page: u8 },
    /// The host resets its function.
    Reset,
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
    /// The migration of a page is over, and the OS moves the page again: back to the frame that it
    /// has left, or, when the first migration was aborted, once more to the same destination.
    MoveAgain { page: u8 },
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
            Self::Flush { core, page, index } => {
                write!(f, "core {core}: flushes line {index} of page {page}")
            }
            Self::Recall { line } => write!(f, "directory: recalls {line:?}"),
            Self::Offline => write!(f, "firmware: takes the last slice offline"),
            Self::NicTranslate { page } => write!(f, "NIC: translates page {page}"),
            Self::NicTranslated { page } => write!(f, "NIC: takes the translation of page {page}"),
            Self::Reset => write!(f, "OS: resets its function"),
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
            Self::MoveAgain { page } => write!(f, "OS: decides to move page {page} again"),
        }
    }
}

/// Everything that can happen now.
pub fn actions(config: &CheckConfig, state: &State, all: &mut Vec<Action>) {
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
    if config.reset && !state.was_reset {
        all.push(Action::Reset);
    }
    if config.offline && state.can_go_offline(config) {
        all.push(Action::Offline);
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
            let core = core as u8;
            let held = c.lines().filter(|(_, cached)| cached.readable().is_some());
            all.extend(held.map(|(line, _)| Action::Evict { core, line }));
        }
    }
    if config.recalls {
        let lines = state.slices.iter().flat_map(|slice| &slice.lines.0);
        let listed = lines.filter(|(_, home)| home.directory.holders().is_some());
        all.extend(listed.map(|&(line, _)| Action::Recall { line }));
    }
}

fn os_actions(config: &CheckConfig, state: &State, page: u8, all: &mut Vec<Action>) {
    let os = &state.os[usize::from(page)];
    if os.next_command(&config.rules).is_some() {
        all.push(Action::Submit { page });
    }
    let over = os.phase == OsPhase::Done && !state.moved_again[usize::from(page)];
    if config.second_move && over {
        all.push(Action::MoveAgain { page });
    }
    if config.aborts && os.can_abort() {
        all.push(Action::Abort { page });
    }
    let fault = config.rules.fault;
    let idle = state.nic.pending.is_none() || fault == Some(PlantedFault::NicDoesNotDrain);
    // Who translated an access waits for its end.
    let iotlb_idle = idle || config.device_tlb || fault == Some(PlantedFault::IotlbDoesNotDrain);
    if iotlb_idle && os.may_invalidate(&config.rules, OsMigration::iotlb(&config.rules)) {
        all.push(Action::InvalidateIotlb { page });
    }
    if idle && os.may_invalidate(&config.rules, OsMigration::nic_tlb(&config.rules)) {
        all.push(Action::InvalidateNicTlb { page });
    }
    for core in 0..config.rules.cores {
        // INVLPG serialises: the core's own accesses are over.
        let idle = state.cores[usize::from(core)].open == 0;
        if idle && os.may_invalidate(&config.rules, 1 << core) {
            all.push(Action::Invalidate { core, page });
        }
    }
}

fn core_actions(config: &CheckConfig, state: &State, core: u8, page: u8, all: &mut Vec<Action>) {
    let c = &state.cores[usize::from(core)];
    let Some(role) = c.tlb[usize::from(page)] else {
        all.push(Action::Translate { core, page });
        return;
    };
    if c.open.count_ones() >= u32::from(config.accesses) {
        return;
    }
    for index in 0..config.lines() {
        let line = state.os[usize::from(page)].map.line(role, index);
        let cached = c.cached(line);
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
        if config.flushes {
            all.push(Action::Flush { core, page, index });
        }
    }
}

fn nic_actions(config: &CheckConfig, state: &State, page: u8, all: &mut Vec<Action>) {
    let nic = &state.nic;
    if nic.translating[usize::from(page)].is_some() {
        all.push(Action::NicTranslated { page });
    } else if config.device_tlb && nic.tlb[usize::from(page)].is_none() {
        all.push(Action::NicTranslate { page });
    } else if nic.pending.is_none() {
        for index in 0..config.lines() {
            for write in [false, true] {
                all.push(Action::NicAccess { page, index, write });
            }
        }
    }
}
