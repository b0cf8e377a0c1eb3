// SPDX-License-Identifier: MIT OR Apache-2.0
//! Objects go back to the NUMA node where they lie.

use crate::heap::pagemap;
use crate::os::numa;
use crate::size_class::MAX_BATCH;
use crate::units::PAGE_SHIFT;

/// Calls `put` with each node and the objects that lie there.
#[inline(always)]
pub fn split(objects: &[usize], put: impl Fn(usize, &[usize])) {
    if numa::nodes() == 1 {
        put(0, objects);
        return;
    }
    for objects in objects.chunks(MAX_BATCH) {
        for node in 0..numa::nodes() {
            let mut here = [0; MAX_BATCH];
            let mut count = 0;
            for &object in objects {
                if pagemap::node_of(object >> PAGE_SHIFT) == node {
                    here[count] = object;
                    count += 1;
                }
            }
            if count > 0 {
                put(node, &here[..count]);
            }
        }
    }
}
