// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which hugepages the system maps with native pages, and having them rebuilt.
//!
//! The heap knows what it has broken itself. Where physical memory is fragmented the kernel also
//! fills with native pages what was asked for as a hugepage, and says nothing. The heap looks at
//! its hugepages in turn, a few at a time: what turns out to be native counts as broken from then
//! on, so that spans go there after all whole hugepages, its free pages go back first, and it is
//! rebuilt when hugepages can be had. All system calls are made without the lock, see
//! [`super::release`].

use super::PageHeap;
use crate::os::vm::{HugeBacking, Refusal, Vm};
use crate::units::{HUGE_BYTES, HUGE_SHIFT, HugeRange, NATIVE_BYTES, PAGES_PER_HUGE};

/// A hugepage that the heap broke is rebuilt when this much of it is in use again: seven eighths.
const COLLAPSE_PAGES: usize = PAGES_PER_HUGE / 8 * 7;
/// A refused collapse is not tried again for this long.
const COLLAPSE_RETRY_S: u32 = 60;
/// Hugepages looked at in one step: a cache miss each under the lock.
pub const LOOKS: usize = 16;
/// A hugepage counts as native with so many native pages in memory, as in google/tcmalloc: one that
/// is only begun may become whole at its next fault, and rebuilding it would cost memory.
pub const NATIVE_PAGES: usize = HUGE_BYTES / NATIVE_BYTES / 8 * 7;

/// A collapse under way: the tracker and the hugepage's address.
#[derive(Clone, Copy, Debug)]
pub struct Collapse {
    tracker: u32,
    /// Whether the heap has broken it, and marked it as native.
    marked: bool,
    /// The address to collapse.
    pub address: usize,
}

impl Collapse {
    /// Makes the system calls.
    ///
    /// # Errors
    /// If the hugepage is not whole afterwards.
    pub fn run(&self, vm: &impl Vm) -> Result<(), Refusal> {
        let (start, len) = (self.address >> HUGE_SHIFT, 1);
        if self.marked {
            vm.set_huge(HugeRange { start, len }, true);
        }
        let result = vm.collapse(self.address);
        if self.marked && result.is_err() {
            vm.set_huge(HugeRange { start, len }, false);
        }
        result
    }
}

/// A look at some hugepages of the filler under way.
#[derive(Clone, Copy, Debug)]
pub struct LookStep {
    trackers: [u32; LOOKS],
    hugepages: [usize; LOOKS],
    len: usize,
}

impl LookStep {
    /// Makes the system calls: how each hugepage is mapped; nothing where that cannot be told.
    pub fn run(&self, vm: &impl Vm) -> [Option<HugeBacking>; LOOKS] {
        let mut found = [None; LOOKS];
        vm.look(&self.hugepages[..self.len], &mut found[..self.len]);
        found
    }
}

impl<V: Vm> PageHeap<V> {
    /// Begins a look at the next hugepages in turn. `None`, once, when all have had their turn.
    pub fn begin_look(&mut self) -> Option<LookStep> {
        let mut look = LookStep {
            trackers: [0; LOOKS],
            hugepages: [0; LOOKS],
            len: 0,
        };
        let first = self.looked + 1;
        let last = self.trackers.last_id().min(self.looked + LOOKS as u32);
        if first > last {
            self.looked = 0;
            return None;
        }
        for id in first..=last {
            let tracker = &self.trackers[id];
            if tracker.may_be_native() {
                look.trackers[look.len] = id;
                look.hugepages[look.len] = tracker.hugepage();
                look.len += 1;
            }
        }
        self.looked = last;
        Some(look)
    }

    /// Takes note of what a look has found.
    pub fn end_look(&mut self, look: &LookStep, found: &[Option<HugeBacking>; LOOKS]) {
        let asked = look.trackers.iter().zip(&look.hugepages).take(look.len);
        for ((&id, &hugepage), found) in asked.zip(found) {
            let tracker = &self.trackers[id];
            // It may be another one by now.
            if !tracker.may_be_native() || tracker.hugepage() != hugepage {
                continue;
            }
            match *found {
                Some(HugeBacking::Huge) if tracker.native => {
                    self.filler.set_native(&mut self.trackers, id, false);
                    self.rebuilds.found_whole += 1;
                }
                Some(HugeBacking::Native(pages)) if !tracker.native && pages >= NATIVE_PAGES => {
                    self.filler.set_native(&mut self.trackers, id, true);
                    self.rebuilds.found_native += 1;
                }
                _ => {}
            }
        }
    }

    /// Begins to rebuild the fullest hugepage of those that the heap broke and that are nearly full
    /// again, and those that are native by themselves.
    pub fn begin_collapse(&mut self) -> Option<Collapse> {
        let sizes = self.filler.sizes();
        if sizes.broken_hugepages + sizes.native_hugepages == 0 {
            return None;
        }
        let now_s = (self.vm.now_ns() / 1_000_000_000) as u32;
        let before_s = now_s.saturating_sub(COLLAPSE_RETRY_S);
        let id =
            self.filler
                .collapse_candidate(&mut self.trackers, COLLAPSE_PAGES, before_s, now_s)?;
        self.filler.begin_busy(&mut self.trackers, id);
        let tracker = &self.trackers[id];
        Some(Collapse {
            tracker: id,
            marked: !tracker.native,
            address: tracker.hugepage() * HUGE_BYTES,
        })
    }

    /// Takes note of how a collapse ended.
    pub fn end_collapse(&mut self, collapse: Collapse, succeeded: bool) {
        if succeeded {
            self.rebuilds.collapsed += 1;
        } else {
            self.rebuilds.refused += 1;
        }
        if self
            .filler
            .end_collapse(&mut self.trackers, collapse.tracker, succeeded)
        {
            self.retire(collapse.tracker);
        }
    }
}
