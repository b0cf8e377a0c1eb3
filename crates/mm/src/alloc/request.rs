// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is asked of the allocator.

use ample_pfn::{MigrateType, PageClass};

/// What is asked of the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocRequest {
    /// What the pages are for; decides the migratetype.
    pub class: PageClass,
    /// Order of the block.
    pub order: u32,
    /// May not sleep (`GFP_ATOMIC`): no reclaim, no compaction, half the reserve.
    pub atomic: bool,
    /// Fails early instead of reclaiming (without `__GFP_DIRECT_RECLAIM`).
    pub light: bool,
    /// Inherently long-lived: belongs at the far end of the unmovable region.
    pub long_lived: bool,
}

impl AllocRequest {
    /// The migratetype that it asks for.
    #[inline]
    pub(crate) fn migratetype(&self) -> MigrateType {
        MigrateType::of(self.class)
    }

    /// An ordinary request for one page.
    pub fn new(class: PageClass) -> AllocRequest {
        AllocRequest {
            class,
            order: 0,
            atomic: false,
            light: false,
            long_lived: false,
        }
    }

    /// The same for a block of `order`.
    pub fn order(self, order: u32) -> AllocRequest {
        AllocRequest { order, ..self }
    }

    /// The same, unable to sleep.
    pub fn atomic(self) -> AllocRequest {
        AllocRequest {
            atomic: true,
            ..self
        }
    }

    /// The same, giving up rather than reclaiming.
    pub fn light(self) -> AllocRequest {
        AllocRequest {
            light: true,
            ..self
        }
    }
}
