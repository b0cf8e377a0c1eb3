// SPDX-License-Identifier: MIT OR Apache-2.0
//! Linux 6.12: pageblocks have a type, and a type that runs out takes from another
//! (`mm/page_alloc.c`: `__rmqueue_claim`, `__rmqueue_steal`).

use super::decisions::Policy;
use crate::alloc::fallback::claim_or_steal;
use crate::config::Rules;
use crate::kernel::SimKernel;
use crate::memory::HIGH;
use ample_pfn::MigrateType;

/// The stock memory manager.
#[derive(Debug)]
pub(crate) struct Linux;

impl Policy for Linux {
    fn rules(&self) -> Rules {
        Rules {
            route: [&[HIGH], &[HIGH], &[HIGH]],
            one_type_low: false,
            banded: false,
            mixing: true,
            hw_moves: false,
        }
    }

    fn fallback(
        &mut self,
        kernel: &mut SimKernel,
        region: usize,
        order: u32,
        mt: MigrateType,
    ) -> Option<u32> {
        claim_or_steal(kernel, region, order, mt)
    }
}
