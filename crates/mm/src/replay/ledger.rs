// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns page events, with all that real recordings lack, into allocations and frees of numbered
//! blocks that are always consistent. What had to be repaired is counted.

use super::classify::classify;
use super::start::{Image, Start};
use super::table::{FrameTable, Known};
use ample_pfn::{PageClass, is_movable};
use ample_trace::pages::{EventKind, Gfp, PageEvent, Traced};
use serde::Serialize;
use std::collections::HashMap;

/// What a recording lacked, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Repairs {
    /// Frees of pages that were allocated before the recording began and are not in the
    /// snapshot, if there is one: ignored.
    pub frees_of_earlier_pages: u64,
    /// Second frees of a page without an allocation between: ignored.
    pub double_frees: u64,
    /// Blocks that were allocated again without a free: freed first.
    pub missing_frees: u64,
    /// Blocks that were freed in parts: split.
    pub split_blocks: u64,
    /// Frees of a larger block than was allocated: all blocks inside freed.
    pub larger_frees: u64,
    /// Pages of the snapshot that were allocated again without a free: freed first. They were
    /// freed between the snapshot and the recording, or moved by compaction.
    pub stale_snapshot_pages: u64,
    /// Allocations that failed in the traced kernel (frame 0): ignored.
    pub failed_allocs: u64,
    /// Events earlier than the one before on the same CPU: taken to happen now.
    pub backward_same_cpu: u64,
    /// Events earlier than the one before on another CPU: taken to happen now.
    pub backward_across_cpus: u64,
    /// The largest step back.
    pub max_backward_ns: u64,
    /// The longest time without an event.
    pub max_gap_ns: u64,
}

impl Repairs {
    /// All repairs of events; steps of time are not in it.
    pub fn total(&self) -> u64 {
        self.frees_of_earlier_pages
            + self.double_frees
            + self.missing_frees
            + self.split_blocks
            + self.larger_frees
            + self.stale_snapshot_pages
            + self.failed_allocs
    }
}

/// How the recording fits the snapshot that it started from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SnapshotUse {
    /// Pages in use at the start.
    pub pages: u64,
    /// Of these, the ones that the recording freed.
    pub freed_pages: u64,
}

/// One step of a replay. Blocks are numbers, given again after a free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Allocate a block.
    Alloc {
        /// Number that the ledger gave to the block.
        block: u32,
        /// CPU of the request.
        cpu: u16,
        /// The block has 2^`order` pages.
        order: u8,
        /// What for.
        class: PageClass,
        /// May neither sleep nor leave the whole reserve (`GFP_ATOMIC`).
        atomic: bool,
        /// May not reclaim.
        light: bool,
    },
    /// Free a block.
    Free {
        /// Number that the ledger gave to the block.
        block: u32,
        /// CPU of the request.
        cpu: u16,
    },
    /// Make single pages of a block; the block is the first of them from now on, and a
    /// [`Op::Piece`] for each other page follows.
    Split {
        /// Number that the ledger gave to the block.
        block: u32,
    },
    /// The next page of the block that was split last.
    Piece {
        /// Number that the ledger gave to the block.
        block: u32,
    },
    /// Let time pass.
    Tick {
        /// How much.
        elapsed_ns: u64,
    },
    /// Take a sample.
    Sample,
}

/// The state of a recording up to the present event.
#[derive(Debug, Default)]
pub struct Ledger {
    table: FrameTable,
    spare: Vec<u32>,
    blocks: u32,
    now_ns: Option<u64>,
    last_by_cpu: HashMap<u16, u64>,
    live_blocks: u64,
    /// Blocks below this number are pages of the snapshot; their numbers are not given again.
    before: u32,
    freed_before: u64,
    image: Option<Image>,
    repairs: Repairs,
}

impl Ledger {
    /// Nothing known.
    pub fn new() -> Ledger {
        Ledger::default()
    }

    /// The pages of a snapshot, as blocks of one page each in the order of their frames.
    pub fn starting_from(start: &Start) -> Ledger {
        let mut ledger = Ledger::new();
        for (block, (pfn, class)) in start.used().enumerate() {
            let unmovable = !is_movable(class);
            ledger.table.add(pfn, 0, unmovable, block as u32);
            ledger.before += 1;
        }
        ledger.blocks = ledger.before;
        ledger.image = Some(Image::new(start));
        ledger
    }

    /// What had to be repaired so far.
    pub fn repairs(&self) -> &Repairs {
        &self.repairs
    }

    /// The frames named so far.
    pub fn table(&self) -> &FrameTable {
        &self.table
    }

    /// The traced kernel's memory, if the ledger started from a snapshot.
    pub fn image(&mut self) -> Option<&mut Image> {
        self.image.as_mut()
    }

    /// How the recording fits the snapshot so far, if the ledger started from one.
    pub fn snapshot(&self) -> Option<SnapshotUse> {
        self.image.is_some().then_some(SnapshotUse {
            pages: u64::from(self.before),
            freed_pages: self.freed_before,
        })
    }

    /// Blocks allocated since the recording began and not freed.
    pub fn live_blocks(&self) -> u64 {
        self.live_blocks
    }

    /// Moves the clock to an event's time, or leaves it if that is in the past. The time now.
    pub fn advance(&mut self, event: &PageEvent) -> u64 {
        let now = self.now_ns.unwrap_or(event.time_ns);
        let own = self.last_by_cpu.insert(event.cpu, event.time_ns);
        if event.time_ns < now {
            // The clock may be ahead because of this CPU or of another one.
            if own.is_some_and(|own| event.time_ns < own) {
                self.repairs.backward_same_cpu += 1;
            } else {
                self.repairs.backward_across_cpus += 1;
            }
            let step = now - event.time_ns;
            self.repairs.max_backward_ns = self.repairs.max_backward_ns.max(step);
        } else {
            let gap = event.time_ns - now;
            self.repairs.max_gap_ns = self.repairs.max_gap_ns.max(gap);
        }
        let now = now.max(event.time_ns);
        self.now_ns = Some(now);
        now
    }

    /// Adds what an event means to `ops`.
    #[inline]
    pub fn apply(&mut self, event: &PageEvent, ops: &mut Vec<Op>) {
        match event.kind {
            EventKind::Alloc(_) if event.pfn == 0 => self.repairs.failed_allocs += 1,
            EventKind::Alloc(traced) => self.alloc(event.pfn, &traced, event.cpu, ops),
            EventKind::Free { order } => self.free(event.pfn, Some(order), event.cpu, ops),
            EventKind::FreeBatched => self.free(event.pfn, None, event.cpu, ops),
            EventKind::ExtFrag { .. } | EventKind::ZoneLocked | EventKind::PcpuDrain => {}
        }
    }

    /// Block numbers given so far: all are below it.
    pub fn numbers(&self) -> u32 {
        self.blocks
    }

    fn number(&mut self) -> u32 {
        self.live_blocks += 1;
        self.spare.pop().unwrap_or_else(|| {
            self.blocks += 1;
            self.blocks - 1
        })
    }

    fn alloc(&mut self, pfn: u64, traced: &Traced, cpu: u16, ops: &mut Vec<Op>) {
        self.make_room(pfn, traced.order, cpu, ops);
        let class = classify(traced);
        let block = self.number();
        let unmovable = !is_movable(class);
        self.table.add(pfn, traced.order, unmovable, block);
        if let Some(image) = &mut self.image {
            image.set(pfn, traced.order, class);
        }
        ops.push(Op::Alloc {
            block,
            cpu,
            order: traced.order,
            class,
            atomic: !traced.gfp.may_reclaim() && traced.gfp.has(Gfp::HIGH),
            light: !traced.gfp.may_reclaim(),
        });
    }

    /// Frees what is live on frames that are being allocated.
    #[inline]
    fn make_room(&mut self, pfn: u64, order: u8, cpu: u16, ops: &mut Vec<Op>) {
        // One page of a block that is given out again means that all of it had been freed.
        if let Some(head) = self.table.cover(pfn) {
            self.free_unseen(head, cpu, ops);
        }
        if order == 0 {
            if self.table.get(pfn).known == Known::Live {
                self.free_unseen(pfn, cpu, ops);
            }
            return;
        }
        for stale in self.table.live_in(pfn, order) {
            self.free_unseen(stale, cpu, ops);
        }
    }

    /// Frees a live block whose free the recording does not show.
    fn free_unseen(&mut self, pfn: u64, cpu: u16, ops: &mut Vec<Op>) {
        if self.table.get(pfn).block < self.before {
            self.repairs.stale_snapshot_pages += 1;
        } else {
            self.repairs.missing_frees += 1;
        }
        self.drop(pfn, Known::Freed, cpu, ops);
    }

    fn drop(&mut self, pfn: u64, known: Known, cpu: u16, ops: &mut Vec<Op>) {
        let was = self.table.drop(pfn, known);
        if was.block < self.before {
            self.freed_before += 1;
        } else {
            self.live_blocks -= 1;
            self.spare.push(was.block);
        }
        if let Some(image) = &mut self.image {
            image.set(pfn, was.order, PageClass::Free);
        }
        ops.push(Op::Free {
            block: was.block,
            cpu,
        });
    }

    /// Makes single pages of the live block at `head`.
    fn split(&mut self, head: u64, ops: &mut Vec<Op>) {
        let was = self.table.drop(head, Known::Nothing);
        self.repairs.split_blocks += 1;
        ops.push(Op::Split { block: was.block });
        self.table.add(head, 0, was.unmovable, was.block);
        for page in head + 1..head + (1 << was.order) {
            let block = self.number();
            self.table.add(page, 0, was.unmovable, block);
            ops.push(Op::Piece { block });
        }
    }

    #[inline]
    fn free(&mut self, pfn: u64, order: Option<u8>, cpu: u16, ops: &mut Vec<Op>) {
        let freed = match order {
            Some(_) => Known::Freed,
            None => Known::FreedBatched,
        };
        let entry = self.table.get(pfn);
        if entry.known == Known::Live && order.is_none_or(|order| order == entry.order) {
            self.drop(pfn, freed, cpu, ops);
            return;
        }
        if entry.known == Known::Live || self.table.cover(pfn).is_some() || order > Some(0) {
            self.free_uneven(pfn, order.unwrap_or(0), freed, cpu, ops);
            return;
        }
        self.free_again(pfn, entry.known, freed);
    }

    /// A free that does not name a live block by its first frame and order.
    #[cold]
    fn free_uneven(&mut self, pfn: u64, order: u8, freed: Known, cpu: u16, ops: &mut Vec<Op>) {
        let head = self.table.cover(pfn).unwrap_or(pfn);
        let entry = self.table.get(head);
        if entry.known == Known::Live && entry.order > order || head != pfn {
            self.split(head, ops);
        }
        let inside = self.table.live_in(pfn, order);
        if inside.is_empty() {
            self.free_again(pfn, self.table.get(pfn).known, freed);
            return;
        }
        // A snapshot shows pages, not the blocks that they were allocated as.
        let traced = |&page: &u64| self.table.get(page).block >= self.before;
        if head == pfn
            && (entry.known != Known::Live || entry.order < order)
            && inside.iter().any(traced)
        {
            self.repairs.larger_frees += 1;
        }
        for page in inside {
            self.drop(page, freed, cpu, ops);
        }
    }

    /// A free of a page that is not allocated as far as the trace knows.
    #[inline]
    fn free_again(&mut self, pfn: u64, known: Known, freed: Known) {
        let next = match (known, freed) {
            // The kernel reports one free twice when it frees in batches.
            (Known::Freed, Known::FreedBatched) | (Known::FreedBatched, Known::Freed) => {
                Known::FreedTwice
            }
            (Known::Nothing, freed) => {
                self.repairs.frees_of_earlier_pages += 1;
                freed
            }
            (_, freed) => {
                self.repairs.double_frees += 1;
                freed
            }
        };
        self.table.note(pfn, next);
    }
}
