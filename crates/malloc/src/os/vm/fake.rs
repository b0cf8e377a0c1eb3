// SPDX-License-Identifier: MIT OR Apache-2.0
//! A pretended virtual memory with a clock that the test moves.

use super::{HugeBacking, Refusal, Vm};
use crate::units::{GIB, HUGE_BYTES, HugeRange, NATIVE_BYTES};
use core::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// Address space without memory: counts what a kernel would be asked.
pub struct FakeVm {
    /// The next hugepage number to be reserved.
    pub next_hugepage: usize,
    /// Hugepages reserved at a time.
    pub chunk_hugepages: usize,
    /// Hugepages that may still be reserved.
    pub left_hugepages: usize,
    /// Time in nanoseconds.
    pub now_ns: Cell<u64>,
    /// Calls to `unback`.
    pub unback_calls: Cell<u64>,
    /// Bytes given to `unback`.
    pub unback_bytes: Cell<u64>,
    /// Calls to `collapse`.
    pub collapse_calls: Cell<u64>,
    /// Hugepages asked to be native less those asked to be huge again.
    pub native_hugepages: Cell<isize>,
    /// Hugepages that are mapped with native pages, all of which have memory.
    pub native: RefCell<BTreeSet<usize>>,
    /// Makes every `unback` and `collapse` fail.
    pub refuse: Cell<bool>,
}

impl Default for FakeVm {
    fn default() -> Self {
        FakeVm {
            next_hugepage: (1 << 40) / HUGE_BYTES,
            chunk_hugepages: GIB / HUGE_BYTES,
            left_hugepages: 1 << 24,
            now_ns: Cell::new(0),
            unback_calls: Cell::new(0),
            unback_bytes: Cell::new(0),
            collapse_calls: Cell::new(0),
            native_hugepages: Cell::new(0),
            native: RefCell::default(),
            refuse: Cell::new(false),
        }
    }
}

impl FakeVm {
    /// Moves the clock on.
    pub fn advance_ns(&self, ns: u64) {
        self.now_ns.set(self.now_ns.get() + ns);
    }
}

impl Vm for FakeVm {
    fn reserve(&mut self, min_hugepages: usize) -> Option<HugeRange> {
        let len = if min_hugepages <= self.chunk_hugepages {
            self.chunk_hugepages.min(self.left_hugepages)
        } else {
            min_hugepages
        };
        if len < min_hugepages || len > self.left_hugepages {
            return None;
        }
        let start = self.next_hugepage;
        self.next_hugepage += len;
        self.left_hugepages -= len;
        Some(HugeRange { start, len })
    }

    fn unback(&self, _address: usize, bytes: usize) -> bool {
        if self.refuse.get() {
            return false;
        }
        self.unback_calls.set(self.unback_calls.get() + 1);
        self.unback_bytes
            .set(self.unback_bytes.get() + bytes as u64);
        true
    }

    fn set_huge(&self, range: HugeRange, huge: bool) -> bool {
        let change = if huge { -1 } else { 1 } * range.len as isize;
        self.native_hugepages
            .set(self.native_hugepages.get() + change);
        !self.refuse.get()
    }

    fn collapse(&self, address: usize) -> Result<(), Refusal> {
        self.collapse_calls.set(self.collapse_calls.get() + 1);
        if self.refuse.get() {
            return Err(Refusal::NoHugepage);
        }
        self.native.borrow_mut().remove(&(address / HUGE_BYTES));
        Ok(())
    }

    fn look(&self, hugepages: &[usize], found: &mut [Option<HugeBacking>]) {
        for (hugepage, found) in hugepages.iter().zip(found) {
            *found = Some(match self.native.borrow().contains(hugepage) {
                true => HugeBacking::Native(HUGE_BYTES / NATIVE_BYTES),
                false => HugeBacking::Huge,
            });
        }
    }

    fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }
}
