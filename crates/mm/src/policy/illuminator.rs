// SPDX-License-Identifier: MIT OR Apache-2.0
//! Illuminator (Panwar et al., ASPLOS 2018), its rule: a 2 MB block holds movable pages or
//! kernel pages, never both. A kernel request that finds no block empties a movable one first.

use super::decisions::Policy;
use crate::alloc::fallback::claim_whole_block;
use crate::compact::range::evacuate_one;
use crate::config::Rules;
use crate::kernel::SimKernel;
use crate::memory::{FreeList, HIGH};
use crate::psi::{MIGRATE_NS, Stall};
use ample_pfn::MigrateType;

/// Types never mix inside 2 MB.
#[derive(Debug)]
pub(crate) struct Illuminator;

impl Policy for Illuminator {
    fn rules(&self) -> Rules {
        Rules {
            mixing: false,
            ..Rules::default()
        }
    }

    fn fallback(&mut self, kernel: &mut SimKernel, list: FreeList) -> Option<u32> {
        if let Some(pfn) = claim_whole_block(kernel, list) {
            return Some(pfn);
        }
        let FreeList { region, mt, .. } = list;
        if mt == MigrateType::Movable {
            return None;
        }
        for _ in 0..4 {
            if let Some(moved) = evacuate_one(kernel, region, mt) {
                kernel.psi.stall(Stall::of(mt), moved * MIGRATE_NS);
                kernel.counters.blocks_claimed += 1;
                return kernel.zone.take(list);
            }
        }
        None
    }

    fn must_move_to_pin(&self, _kernel: &SimKernel, _pfn: u32) -> bool {
        true
    }

    fn pin_target(&mut self, kernel: &mut SimKernel) -> Option<u32> {
        let list = FreeList::single(HIGH, MigrateType::Unmovable);
        (kernel.zone.take(list)).or_else(|| self.fallback(kernel, list))
    }
}
