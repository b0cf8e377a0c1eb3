// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics.

use crate::units::PAGE_BYTES;
use crate::{cache, central, pageheap, size_class};

/// Bytes of live objects, rounded to their classes.
pub fn bytes_in_use() -> usize {
    let mut bytes = pageheap::sizes().used_pages * PAGE_BYTES;
    for class in 1..size_class::CLASSES {
        let sizes = central::sizes(class);
        let info = &size_class::TABLE[class];
        let span_bytes = usize::from(info.pages) * PAGE_BYTES;
        let tail = span_bytes - usize::from(info.objects) * info.bytes as usize;
        let free = (sizes.free_objects + sizes.transfer_objects) * info.bytes as usize;
        bytes = bytes.saturating_sub(free + sizes.spans * tail);
    }
    cache::for_each_sizes(|slab| bytes = bytes.saturating_sub(slab.bytes));
    bytes
}

/// Writes the statistics page.
pub fn write_text(_fd: i32) {}
