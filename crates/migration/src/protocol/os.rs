// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operating system's part of one migration: page table entry, lazy TLB invalidations, and
//! the order of commands (Contiguitas §3.3).

use super::controller::Command;
use super::faults::PlantedFault;
use super::status::Status;
use super::types::{Design, Mapping, Protocol, Role};

/// Where the OS is with a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OsPhase {
    /// To be submitted.
    Ready,
    /// Waits for [`Status::Installed`] (cacheable design).
    Installing,
    /// Translations change, one TLB at a time.
    Invalidating,
    /// Waits for [`Status::Copied`].
    Copying,
    /// All TLBs have changed: `Clear` is to be submitted.
    ReadyToClear,
    /// Waits for [`Status::Cleared`].
    Clearing,
    /// Over: the source (or, when aborted, the destination) is free.
    Done,
    /// Refused for a reason that trying again does not mend.
    Refused(Status),
}

/// One migration as the OS sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OsMigration {
    /// What moves where.
    pub map: Mapping,
    /// How far the kernel has come.
    pub phase: OsPhase,
    /// Which page the page table entry names.
    pub pte: Role,
    /// TLBs that may hold another translation than `pte` says: a bit a core, then the NIC's TLB,
    /// then the IOTLB.
    pub stale_tlbs: u128,
    /// The OS has changed its mind.
    pub aborting: bool,
    copied: bool,
}

impl OsMigration {
    /// A migration to be submitted.
    pub fn new(map: Mapping) -> Self {
        Self {
            map,
            phase: OsPhase::Ready,
            pte: Role::Source,
            stale_tlbs: 0,
            aborting: false,
            copied: false,
        }
    }

    /// The bit of the NIC's TLB in `stale_tlbs`.
    pub fn nic_tlb(rules: &Protocol) -> u128 {
        1 << rules.cores
    }

    /// The bit of the IOTLB in `stale_tlbs`.
    pub fn iotlb(rules: &Protocol) -> u128 {
        2 << rules.cores
    }

    /// The command to submit now, if any.
    pub fn next_command(&self, rules: &Protocol) -> Option<Command> {
        let map = self.map;
        match self.phase {
            OsPhase::Ready => {
                let start = rules.design == Design::NonCacheable || self.pte == Role::Destination;
                Some(Command::Migrate { map, start })
            }
            OsPhase::ReadyToClear => Some(Command::Clear { map }),
            _ => None,
        }
    }

    /// The command was accepted by the queue.
    pub fn submitted(&mut self, rules: &Protocol) {
        self.phase = match self.phase {
            OsPhase::Ready if rules.design == Design::NonCacheable => OsPhase::Copying,
            OsPhase::Ready if self.pte == Role::Destination => OsPhase::Copying,
            OsPhase::Ready => {
                if rules.has(PlantedFault::PteBeforeInstall) {
                    self.switch(rules, Role::Destination);
                }
                OsPhase::Installing
            }
            OsPhase::ReadyToClear => OsPhase::Clearing,
            other => other,
        };
    }

    /// Writes the page table entry; from now on every TLB is suspect.
    fn switch(&mut self, rules: &Protocol, pte: Role) {
        self.pte = pte;
        self.stale_tlbs = (4 << rules.cores) - 1;
        if rules.has(PlantedFault::ForgetNicTlb) {
            self.stale_tlbs &= !Self::nic_tlb(rules);
        }
    }

    /// A completion record for this migration was written.
    pub fn completed(&mut self, rules: &Protocol, status: Status) {
        match status {
            Status::Installed => {
                self.switch(rules, Role::Destination);
                self.phase = OsPhase::Invalidating;
                if rules.has(PlantedFault::CopyBeforeTlbsClean) {
                    self.phase = OsPhase::Ready;
                }
            }
            Status::Copied => {
                self.copied = true;
                if rules.design == Design::NonCacheable {
                    self.switch(rules, Role::Destination);
                }
                self.phase = OsPhase::Invalidating;
                self.when_clean(rules);
            }
            Status::Cleared => self.phase = OsPhase::Done,
            // Another migration must end first.
            Status::TableFull => {
                self.phase = match self.pte {
                    Role::Source => OsPhase::Ready,
                    Role::Destination => OsPhase::Refused(status),
                }
            }
            // The function was reset: submit again.
            Status::Dropped if self.phase == OsPhase::Clearing => {
                self.phase = OsPhase::ReadyToClear;
            }
            Status::Dropped => self.phase = OsPhase::Ready,
            refusal => self.phase = OsPhase::Refused(refusal),
        }
    }

    /// Goes back to the source, possible until copying starts (cacheable design).
    pub fn can_abort(&self) -> bool {
        self.phase == OsPhase::Invalidating && !self.copied && !self.aborting
    }

    /// See [`Self::can_abort`].
    pub fn abort(&mut self, rules: &Protocol) {
        self.aborting = true;
        self.switch(rules, Role::Source);
    }

    /// Whether this TLB may be invalidated now. The NIC's comes after the IOTLB, from which it
    /// would otherwise refill the old translation.
    pub fn may_invalidate(&self, rules: &Protocol, tlb: u128) -> bool {
        let order = tlb != Self::nic_tlb(rules)
            || self.stale_tlbs & Self::iotlb(rules) == 0
            || rules.has(PlantedFault::NicTlbBeforeIotlb);
        self.stale_tlbs & tlb != 0 && order
    }

    /// A TLB has dropped the translation, and the requests it made with it are over.
    pub fn invalidated(&mut self, rules: &Protocol, tlb: u128) {
        self.stale_tlbs &= !tlb;
        self.when_clean(rules);
    }

    fn when_clean(&mut self, rules: &Protocol) {
        let clean = self.stale_tlbs == 0 || rules.has(PlantedFault::EarlyClear) && self.copied;
        if self.phase == OsPhase::Invalidating && clean {
            self.phase = match self.copied || self.aborting {
                true => OsPhase::ReadyToClear,
                false => OsPhase::Ready,
            };
        }
    }
}
