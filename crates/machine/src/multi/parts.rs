// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a server is made of besides its memory: programs, where data lie, migrations under way,
//! events.

use super::core::CoreAccess;
use super::os_params::Mover;
use ample_memory::BadParams;
use ample_migration::protocol::{Completion, LineAddr, OsMigration};
use serde::Serialize;
use std::collections::VecDeque;

/// Frames behind all data: the ring; then the status words, and the lock with the driver's own
/// head and tail in the last line.
pub(super) const QUEUE_FRAMES: u64 = 2;

/// What the program of a core does.
pub trait CoreProgram {
    /// Its next access.
    fn next(&mut self, core: u8) -> CoreAccess;
    /// The cycles until the NIC's next access, and that access unless the NIC has nothing to do;
    /// `None` when there is no NIC.
    fn next_dma(&mut self) -> Option<(u64, Option<CoreAccess>)>;
    /// Instructions so far, of all cores, in which the program only waited.
    fn waited_instructions(&self) -> u64 {
        0
    }
    /// Looks the page of an access up in the core's TLBs: cycles beyond a first-level hit, and
    /// the page-table lines that a walk reads, in order. Without this every access hits.
    fn translation(&mut self, _core: u8, _op: &CoreAccess, _reads: &mut Vec<LineAddr>) -> u64 {
        0
    }
    /// INVLPG of a page on a core.
    fn invalidate(&mut self, _core: u8, _page: u32) {}
}

/// Times of one migration, in cycles since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Timeline {
    /// When the migration started, in cycles of the run.
    pub start_cycle: u64,
    /// Both mappings usable, the destination purged (cacheable design).
    pub installed_cycles: Option<u64>,
    /// All lines moved.
    pub copied_cycles: Option<u64>,
    /// All TLBs changed.
    pub clean_cycles: Option<u64>,
    /// The source is free.
    pub done_cycles: Option<u64>,
    /// Software: cycles from the cleared entry until it is back. Hardware never clears it; what
    /// accesses see is measured by [`super::MultiCore::watch`].
    pub unavailable_cycles: Option<u64>,
}

impl Timeline {
    /// Cycles of the copy itself, in hardware. The cacheable design copies after the TLBs have
    /// changed, the non-cacheable one before.
    pub fn copying(&self) -> Option<u64> {
        let copied = self.copied_cycles?;
        let before = match (self.installed_cycles, self.clean_cycles) {
            (Some(_), clean) => clean?,
            _ => 0,
        };
        copied.checked_sub(before)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    Core(u8),
    Nic,
    /// The tail register of the invalidation queue has a new value.
    Tail(u64),
    IotlbDone,
    /// The NIC has dropped a translation, asked for by the descriptor at `place`, at cycle `at`.
    NicTlbDone {
        place: u64,
        page: u32,
        at: u64,
    },
    AskDevices,
    ShootdownDone,
    Walk(u64),
}

/// Where the data of a server lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagePlacement {
    /// Pages of data, in frames from 0 on.
    pub pages: u32,
    /// Free destinations behind them, each of `group_pages` frames.
    pub spare: u32,
    /// Pages that one migration moves together: those of one mapping of a device. A power of two;
    /// frames of a group begin at a multiple of it.
    pub group_pages: u32,
    /// One TLB entry maps a whole group, as a 2 MB page; else each page has its own.
    pub is_large_page: bool,
}

impl PagePlacement {
    /// Pages that move one by one.
    pub fn single(pages: u32, spare: u32) -> Self {
        Self {
            pages,
            spare,
            group_pages: 1,
            is_large_page: false,
        }
    }

    pub(super) fn check(&self, frames: u64) -> Result<(), BadParams> {
        let (pages, group) = (u64::from(self.pages), u64::from(self.group_pages));
        let reason = if group == 0 || !pages.is_multiple_of(group) {
            format!("groups of {group} pages do not divide {pages} pages")
        } else if !group.is_power_of_two() {
            format!("groups of {group} pages: a migration moves 1, 2, 4, 8, ... pages")
        } else if pages + u64::from(self.spare) * group + QUEUE_FRAMES > frames {
            let spare = self.spare;
            format!(
                "{pages} pages, {spare} times {group} free frames and {QUEUE_FRAMES} of the \
                 invalidation queue do not fit in {frames}"
            )
        } else {
            return Ok(());
        };
        Err(BadParams {
            field: "frames",
            reason,
        })
    }
}

/// What a core does once its kernel's accesses are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Goes on with its program.
    Nothing,
    /// Writes the tail register: stores before it must be visible.
    Publish,
    /// Has read the status of its invalidation, and waits when that is not written.
    Poll,
    /// Has copied a page in software.
    EndCopy,
}

/// A migration in hardware, as the OS sees it.
#[derive(Clone)]
pub(super) struct Hardware {
    pub(super) os: OsMigration,
    /// First page of data.
    pub(super) page: u32,
    pub(super) records: Vec<(u64, Completion)>,
    /// Place of the wait descriptor of its invalidation of devices, once queued.
    pub(super) wait_place: Option<u64>,
    /// When that one's status reached memory.
    pub(super) status_at: Option<u64>,
    /// The NIC uses the new translation.
    pub(super) nic_dropped: bool,
    /// TLBs that the OS takes for stale after it gave up, and that hold what the entry says.
    pub(super) unchanged_tlbs: u128,
    /// The OS gives up when so many TLBs, or fewer, are left to change.
    pub(super) abort_at_tlbs: Option<u32>,
    /// After `TableFull`: not before this cycle, and how long it waited last.
    pub(super) retry: (u64, u64),
    pub(super) timeline: Timeline,
}

/// What software is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SoftwareStep {
    /// Entries are cleared; TLBs drop them.
    Unmapping,
    /// Transactional: dirty bits are cleared, TLBs drop the entries and load them again.
    Cleaning,
    /// The initiator copies.
    Copying,
    /// Transactional: the copy is there; the entry is cleared, TLBs drop it, and the dirty bit
    /// decides.
    Committing,
}

/// A migration in software, of several pages when they are batched.
#[derive(Clone)]
pub(super) struct Software {
    pub(super) mover: Mover,
    pub(super) step: SoftwareStep,
    /// First page of the first group; names it in the invalidation queue.
    pub(super) page: u32,
    /// First page and destination of each group that has not moved; the next one first.
    pub(super) moves: VecDeque<(u32, u32)>,
    /// The core that copies; none yet while a lazy shootdown is under way.
    pub(super) initiator: Option<u8>,
    /// Place of the wait descriptor of its invalidation of devices, once queued.
    pub(super) wait_place: Option<u64>,
    /// When that one's status reached memory.
    pub(super) status_at: Option<u64>,
    /// Agents without a translation: a bit a core, then the NIC.
    pub(super) unmapped: u128,
    /// Transactional: a store was made since the dirty bits were cleared.
    pub(super) is_dirty: bool,
    /// Transactional: stores from before the dirty bits were cleared that have not ended.
    pub(super) earlier: Option<Vec<(u8, LineAddr)>>,
    /// When the entry was cleared that is not back.
    pub(super) unmapped_at: u64,
    /// What the source held when the copy began.
    pub(super) digest: u64,
    pub(super) timeline: Timeline,
}

/// A copy that a store made worthless.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailedTransaction {
    pub(super) page: u32,
    /// When the first of its tries began.
    pub(super) start_cycle: u64,
}

/// An access whose translation is being fetched.
#[derive(Clone)]
pub(super) struct Walk {
    pub(super) core: u8,
    pub(super) op: CoreAccess,
    /// Token of the access, once it is made.
    pub(super) token: u64,
    /// Page-table lines still to read, the next one last.
    pub(super) reads: Vec<LineAddr>,
    /// Cycle of its start, until its end has been counted.
    pub(super) start: Option<u64>,
}
