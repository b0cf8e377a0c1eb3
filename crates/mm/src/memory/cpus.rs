// SPDX-License-Identifier: MIT OR Apache-2.0
//! Per-CPU lists of free pages (`struct per_cpu_pages`, 6.12): allocations and frees of small
//! orders go through them, and reach the buddy lists in batches.

use super::frames::Frames;
use super::state::{FrameKind, FrameState};
use super::units::{FreeList, HIGH, TYPES};
use ample_pfn::MigrateType;
use std::collections::VecDeque;

/// There are lists for orders below this (`PAGE_ALLOC_COSTLY_ORDER` + 1).
pub(crate) const PCP_ORDERS: u32 = 4;
/// Pages moved between a per-CPU list and the buddy lists at once (`pcp->batch`).
pub(crate) const PCP_BATCH: u32 = 63;
/// Pages a per-CPU list of order 0 holds before it is drained.
const PCP_HIGH: u32 = 6 * PCP_BATCH;
const LISTS_PER_CPU: usize = 2 * PCP_ORDERS as usize * TYPES;

/// One list: of a CPU, for a region, an order and a type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    index: usize,
    /// The buddy list that it is filled from.
    pub(crate) list: FreeList,
}

/// The lists of all CPUs, the page freed last at the back.
///
/// Invariants: each frame on a list is the head of a per-CPU block of the list's order;
/// the pages of a region are the sum over its lists.
#[derive(Debug)]
pub(crate) struct CpuLists {
    cpus: usize,
    lists: Vec<VecDeque<u32>>,
    pages: [u64; 2],
}

impl CpuLists {
    /// Empty lists for `cpus` CPUs, at least one.
    pub(crate) fn new(cpus: usize) -> CpuLists {
        let cpus = cpus.max(1);
        CpuLists {
            cpus,
            lists: vec![VecDeque::new(); cpus * LISTS_PER_CPU],
            pages: [0; 2],
        }
    }

    /// The list of the CPU that stands for the caller's.
    #[inline]
    pub(crate) fn slot(&self, cpu: usize, region: usize, order: u32, mt: MigrateType) -> Slot {
        debug_assert!(order < PCP_ORDERS && region <= HIGH);
        let cpu = if self.cpus.is_power_of_two() {
            cpu & (self.cpus - 1)
        } else {
            cpu % self.cpus
        };
        let of_cpu = (region * PCP_ORDERS as usize + order as usize) * TYPES + mt as usize;
        Slot {
            index: cpu * LISTS_PER_CPU + of_cpu,
            list: FreeList { region, order, mt },
        }
    }

    /// Pages on the lists of a region.
    pub(crate) fn pages(&self, region: usize) -> u64 {
        self.pages[region]
    }

    /// Whether a list is empty.
    #[inline]
    pub(crate) fn is_empty(&self, slot: Slot) -> bool {
        self.lists[slot.index].is_empty()
    }

    /// Puts a block that was just freed on its list; whether the list is too long now.
    #[inline]
    pub(crate) fn put(&mut self, frames: &mut Frames, slot: Slot, pfn: u32) -> bool {
        frames.set(
            pfn,
            FrameState::free(FrameKind::Pcp, slot.list.order, slot.list.mt),
        );
        self.pages[slot.list.region] += 1 << slot.list.order;
        let list = &mut self.lists[slot.index];
        list.push_back(pfn);
        list.len() as u32 > PCP_HIGH >> slot.list.order
    }

    /// Fills a list with `count` neighbouring blocks from the buddy lists.
    #[inline]
    pub(crate) fn refill(&mut self, frames: &mut Frames, slot: Slot, first: u32, count: u32) {
        let list = &mut self.lists[slot.index];
        let state = FrameState::free(FrameKind::Pcp, slot.list.order, slot.list.mt);
        let mut pfn = first;
        for _ in 0..count {
            frames.set(pfn, state);
            list.push_front(pfn);
            pfn += 1 << slot.list.order;
        }
        self.pages[slot.list.region] += u64::from(count << slot.list.order);
    }

    /// Takes the block freed last; the caller gives it a state.
    #[inline]
    pub(crate) fn pop(&mut self, slot: Slot) -> Option<u32> {
        let pfn = self.lists[slot.index].pop_back()?;
        self.pages[slot.list.region] -= 1 << slot.list.order;
        Some(pfn)
    }

    /// Takes up to `most` blocks, the one freed last first; the caller gives them states.
    #[inline]
    pub(crate) fn take_newest(
        &mut self,
        slot: Slot,
        most: u32,
    ) -> impl ExactSizeIterator<Item = u32> + '_ {
        let list = &mut self.lists[slot.index];
        let count = (list.len() as u32).min(most);
        self.pages[slot.list.region] -= u64::from(count << slot.list.order);
        list.drain(list.len() - count as usize..).rev()
    }

    /// Takes the oldest batch of a list; the caller gives the blocks states.
    pub(crate) fn take_batch(
        &mut self,
        slot: Slot,
        batch: &mut [u32; PCP_BATCH as usize],
    ) -> usize {
        let list = &mut self.lists[slot.index];
        let count = (PCP_BATCH as usize >> slot.list.order).min(list.len());
        for (pfn, old) in batch.iter_mut().zip(list.drain(..count)) {
            *pfn = old;
        }
        self.pages[slot.list.region] -= (count as u64) << slot.list.order;
        count
    }

    /// Takes everything off the lists; `free` is given each block with its order, the oldest of
    /// each list first.
    pub(crate) fn drain(&mut self, mut free: impl FnMut(u32, u32)) {
        for (index, list) in self.lists.iter_mut().enumerate() {
            let order = index / TYPES % PCP_ORDERS as usize;
            for pfn in list.drain(..) {
                free(pfn, order as u32);
            }
        }
        self.pages = [0; 2];
    }

    /// Verifies the invariants; `region` is the region of a frame.
    ///
    /// # Errors
    /// A sentence about the first violation.
    pub(crate) fn check(
        &self,
        frames: &Frames,
        region: impl Fn(u32) -> usize,
    ) -> Result<(), String> {
        let mut pages = [0; 2];
        for (index, list) in self.lists.iter().enumerate() {
            let order = (index / TYPES % PCP_ORDERS as usize) as u32;
            for &pfn in list {
                let state = frames.get(pfn);
                if state.kind() != FrameKind::Pcp || state.order() != order {
                    return Err(format!("frame {pfn:#x} is on a wrong per-CPU list"));
                }
                pages[region(pfn)] += 1 << order;
            }
        }
        if pages != self.pages {
            return Err(format!("per-CPU pages {pages:?}, counted {:?}", self.pages));
        }
        Ok(())
    }
}
