// SPDX-License-Identifier: MIT OR Apache-2.0
//! Illuminator (Panwar et al., ASPLOS 2018), its rule: a 2 MB block holds movable pages or
//! kernel pages, never both. A kernel request that finds no block empties a movable one first.

use super::Policy;
use super::linux::claim_whole_block;
use crate::alloc::stall_of;
use crate::config::Rules;
use crate::core::{Core, HIGH};
use crate::psi::MIGRATE_NS;
use ample_pfn::MigrateType;

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
        core: &mut Core,
        region: usize,
        order: u32,
        mt: MigrateType,
    ) -> Option<u32> {
        if let Some(pfn) = claim_whole_block(core, region, order, mt) {
            return Some(pfn);
        }
        if mt == MigrateType::Movable {
            return None;
        }
        for _ in 0..4 {
            if let Some(moved) = core.evacuate_one(region, mt) {
                core.psi.stall(stall_of(mt), moved * MIGRATE_NS);
                core.counters.blocks_claimed += 1;
                return core.take(region, order, mt);
            }
        }
        None
    }

    fn must_move_to_pin(&self, _core: &Core, _pfn: u32) -> bool {
        true
    }

    fn pin_target(&mut self, core: &mut Core) -> Option<u32> {
        core.take(HIGH, 0, MigrateType::Unmovable)
            .or_else(|| self.fallback(core, HIGH, 0, MigrateType::Unmovable))
    }
}
