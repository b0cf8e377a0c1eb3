// SPDX-License-Identifier: MIT OR Apache-2.0
//! The HugeAllocator (paper section 4.2): address space in hugepage-aligned, unbacked ranges.
//!
//! All reservations are made here. Address space is nearly free, so there is no attempt to limit
//! its fragmentation beyond an approximate best fit.

use super::ranges::{Nodes, RangeSet};
use crate::os::vm::Vm;
use crate::units::HugeRange;

/// Unbacked address space.
#[derive(Default)]
pub struct HugeAllocator {
    free: RangeSet,
    reserved: usize,
    leaked: usize,
}

impl HugeAllocator {
    /// Nothing reserved.
    pub const fn new() -> Self {
        HugeAllocator {
            free: RangeSet::new(),
            reserved: 0,
            leaked: 0,
        }
    }

    /// Hugepages reserved from the system.
    pub const fn reserved_hugepages(&self) -> usize {
        self.reserved
    }

    /// Hugepages of free address space.
    pub const fn free_hugepages(&self) -> usize {
        self.free.total()
    }

    /// Number of runs of free address space.
    pub const fn free_ranges(&self) -> usize {
        self.free.count()
    }

    /// Hugepages forgotten because there was no memory for a node.
    pub const fn leaked_hugepages(&self) -> usize {
        self.leaked
    }

    /// An unbacked range of `len` hugepages, or `None` if the system refuses more address space.
    pub fn allocate(
        &mut self,
        nodes: &mut Nodes,
        vm: &mut impl Vm,
        len: usize,
    ) -> Option<HugeRange> {
        if let Some(start) = self.free.take(nodes, len) {
            return Some(HugeRange { start, len });
        }
        let chunk = vm.reserve(len)?;
        debug_assert!(chunk.len >= len);
        self.reserved += chunk.len;
        // The upper end first: chunks grow downwards, and what stays free joins the next chunk.
        let rest = chunk.len - len;
        if rest > 0 {
            self.free(
                nodes,
                HugeRange {
                    start: chunk.start,
                    len: rest,
                },
            );
        }
        Some(HugeRange {
            start: chunk.start + rest,
            len,
        })
    }

    /// Takes `range` if it is free from its start on: growing an allocation in place.
    pub fn allocate_at(&mut self, nodes: &mut Nodes, range: HugeRange) -> bool {
        self.free.take_at(nodes, range.start, range.len)
    }

    /// Forgets a range whose memory may neither be used nor counted as given back.
    pub fn leak(&mut self, range: HugeRange) {
        self.leaked += range.len;
    }

    /// Gives an unbacked range back.
    pub fn free(&mut self, nodes: &mut Nodes, range: HugeRange) {
        if !self.free.insert(nodes, range.start, range.len) {
            self.leak(range);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::vm::fake::FakeVm;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_disjoint_and_come_back(
            operations in prop::collection::vec((any::<bool>(), 1..700usize, any::<u16>()), 1..120),
        ) {
            let mut nodes = Box::new(Nodes::new());
            let mut vm = FakeVm::default();
            let mut allocator = HugeAllocator::new();
            let mut live: Vec<HugeRange> = Vec::new();
            for (allocate, len, pick) in operations {
                if allocate || live.is_empty() {
                    let range = allocator.allocate(&mut nodes, &mut vm, len).unwrap();
                    prop_assert_eq!(range.len, len);
                    for other in &live {
                        prop_assert!(
                            range.start + range.len <= other.start
                                || other.start + other.len <= range.start
                        );
                    }
                    live.push(range);
                } else {
                    let range = live.swap_remove(pick as usize % live.len());
                    allocator.free(&mut nodes, range);
                }
                let used: usize = live.iter().map(|range| range.len).sum();
                prop_assert_eq!(allocator.free_hugepages() + used, allocator.reserved_hugepages());
            }
            for range in live.drain(..) {
                allocator.free(&mut nodes, range);
            }
            // The pretended chunks are adjacent, so everything joins into one range.
            prop_assert!(allocator.free_ranges() <= 1);
        }
    }

    #[test]
    fn a_refusal_of_the_system_is_passed_on() {
        let mut nodes = Box::new(Nodes::new());
        let mut vm = FakeVm {
            left_hugepages: 10,
            ..FakeVm::default()
        };
        let mut allocator = HugeAllocator::new();
        assert!(allocator.allocate(&mut nodes, &mut vm, 11).is_none());
        assert!(allocator.allocate(&mut nodes, &mut vm, 10).is_some());
        assert!(allocator.allocate(&mut nodes, &mut vm, 1).is_none());
    }
}
