// SPDX-License-Identifier: MIT OR Apache-2.0
//! Illuminator (Panwar et al., ASPLOS 2018), its rule: a 2 MB block holds movable pages or
//! kernel pages, never both. A kernel request that finds no block empties a movable one first.

use super::decisions::Policy;
use crate::alloc::fallback::claim_whole_block;
use crate::compact::range::evacuate_one;
use crate::config::Rules;
use crate::kernel::SimKernel;
use crate::memory::HIGH;
use crate::psi::{MIGRATE_NS, Stall};
use ample_pfn::MigrateType;

/// Types never mix inside 2 MB.
#[derive(Debug)]
pub(crate) struct Illuminator;

impl Policy for Illuminator {
    fn rules(&self) -> Rules {
        Rules {
            route: [&[HIGH], &[HIGH], &[HIGH]],
            one_type_low: false,
            banded: false,
            mixing: false,
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
        if let Some(pfn) = claim_whole_block(kernel, region, order, mt) {
            return Some(pfn);
        }
        if mt == MigrateType::Movable {
            return None;
        }
        for _ in 0..4 {
            if let Some(moved) = evacuate_one(kernel, region, mt) {
                kernel.psi.stall(Stall::of(mt), moved * MIGRATE_NS);
                kernel.counters.blocks_claimed += 1;
                return kernel.zone.take(region, order, mt);
            }
        }
        None
    }

    fn must_move_to_pin(&self, _kernel: &SimKernel, _pfn: u32) -> bool {
        true
    }

    fn pin_target(&mut self, kernel: &mut SimKernel) -> Option<u32> {
        kernel
            .zone
            .take(HIGH, 0, MigrateType::Unmovable)
            .or_else(|| self.fallback(kernel, HIGH, 0, MigrateType::Unmovable))
    }
}
