// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kernelcore=`: a fixed part of memory for the kernel (and for user memory when the rest is
//! full), the rest ZONE_MOVABLE (`mm/mm_init.c: find_zone_movable_pfns_for_nodes`, 6.12).

use super::decisions::Policy;
use crate::alloc::fallback::claim_or_steal;
use crate::config::Rules;
use crate::kernel::SimKernel;
use crate::memory::{FreeList, HIGH, LOW, MAX_ORDER};
use ample_pfn::MigrateType;

/// A border that never moves.
#[derive(Debug)]
pub(crate) struct Static {
    low_region_ratio: f64,
}

impl Static {
    pub(crate) fn new(low_region_ratio: f64) -> Static {
        Static { low_region_ratio }
    }
}

impl Policy for Static {
    fn rules(&self) -> Rules {
        Rules {
            // Zonelists start at the highest zone a request may use.
            route: [&[LOW], &[HIGH, LOW], &[LOW]],
            // `hugepage_movable_supported` (`include/linux/hugetlb.h`) is false for gigantic pages:
            // none is made in ZONE_MOVABLE.
            giga_region: LOW,
            ..Rules::default()
        }
    }

    fn boot(&mut self, kernel: &mut SimKernel, boot_pages: u64) {
        let all = u64::from(kernel.zone.frames().len());
        let wanted = ((all as f64 * self.low_region_ratio) as u64).max(boot_pages + boot_pages / 8);
        let granule = 1u64 << MAX_ORDER;
        let border = wanted.next_multiple_of(granule).min(all & !(granule - 1));
        kernel.set_border(border as u32);
    }

    /// `folio_is_longterm_pinnable`: not in ZONE_MOVABLE.
    fn must_move_to_pin(&self, kernel: &SimKernel, pfn: u32) -> bool {
        kernel.zone.region(pfn) == HIGH
    }

    fn pin_target(&mut self, kernel: &mut SimKernel) -> Option<u32> {
        let list = FreeList::single(LOW, MigrateType::Unmovable);
        (kernel.zone.take(list)).or_else(|| claim_or_steal(kernel, list))
    }
}
