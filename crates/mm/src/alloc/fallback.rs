// SPDX-License-Identifier: MIT OR Apache-2.0
//! A type whose lists are empty takes from another: the fallback of Linux 6.12
//! (`mm/page_alloc.c`: `__rmqueue_claim`, `__rmqueue_steal`).

use crate::kernel::SimKernel;
use crate::memory::{BLOCK_ORDER, BLOCK_PAGES, FreeList, MAX_ORDER};
use ample_pfn::MigrateType;

/// Types to take from, best first (`fallbacks[][]`).
fn fallbacks(mt: MigrateType) -> [MigrateType; 2] {
    match mt {
        MigrateType::Unmovable => [MigrateType::Reclaimable, MigrateType::Movable],
        MigrateType::Movable => [MigrateType::Reclaimable, MigrateType::Unmovable],
        _ => [MigrateType::Unmovable, MigrateType::Movable],
    }
}

/// Whether a request of this type may claim the block around a free page of `order`
/// (`should_try_claim_block`): kernel requests always, movable ones only for large pages.
pub(crate) fn may_claim(order: u32, mt: MigrateType) -> bool {
    order >= BLOCK_ORDER / 2 || mt != MigrateType::Movable
}

/// Claims a block of another type, or takes a single page from one: the 6.12 fallback.
pub(crate) fn claim_or_steal(kernel: &mut SimKernel, list: FreeList) -> Option<u32> {
    let FreeList { region, order, mt } = list;
    let others = fallbacks(mt);
    // Bit `o` set: one of the other types has a free block of order `o`.
    let area = kernel.zone.area(region);
    let held = others.iter().fold(0, |all, &mt| all | area.orders(mt));
    for current in (order..=MAX_ORDER).rev() {
        if !may_claim(current, mt) {
            break;
        }
        if held >> current & 1 == 0 {
            continue;
        }
        let area = kernel.zone.area(region);
        let first = others.iter().find_map(|&mt| area.first(current, mt));
        if let Some(pfn) = first
            && let Some(found) = try_claim(kernel, list, pfn, current)
        {
            return Some(found);
        }
    }
    for current in order..=MAX_ORDER {
        if held >> current & 1 == 0 {
            continue;
        }
        for other in others {
            if kernel.zone.area(region).first(current, other).is_some() {
                kernel.counters.pages_stolen += 1 << order;
                return kernel.zone.take(FreeList { mt: other, ..list });
            }
        }
    }
    None
}

/// Claims only blocks that are wholly free: never mixes types inside 2 MB.
pub(crate) fn claim_whole_block(kernel: &mut SimKernel, list: FreeList) -> Option<u32> {
    let FreeList { region, order, mt } = list;
    for current in (order.max(BLOCK_ORDER)..=MAX_ORDER).rev() {
        for other in fallbacks(mt) {
            if let Some(pfn) = kernel.zone.area(region).first(current, other) {
                return try_claim(kernel, list, pfn, current);
            }
        }
    }
    None
}

/// `try_to_claim_block`: whole blocks change type; else the block does if at least half of it
/// is free or of a compatible kind. The free block at `pfn` is of order `current`.
fn try_claim(kernel: &mut SimKernel, list: FreeList, pfn: u32, current: u32) -> Option<u32> {
    let FreeList { region, order, mt } = list;
    debug_assert!(current >= order && kernel.zone.state(pfn).is_free_of(current));
    if current >= BLOCK_ORDER {
        kernel.zone.claim(pfn, current, order, mt);
        kernel.counters.blocks_claimed += 1 << (current - BLOCK_ORDER);
        return Some(pfn);
    }
    kernel.watermarks.boost(region);
    let block = kernel.zone.block_of(pfn);
    let (free, movable) = (u32::from(block.free), u32::from(block.movable));
    let alike = match (mt, block.mt) {
        (MigrateType::Movable, _) => movable,
        (_, MigrateType::Movable) => BLOCK_PAGES.saturating_sub(free + movable),
        _ => 0,
    };
    if free + alike < BLOCK_PAGES / 2 {
        return None;
    }
    kernel.zone.retype_block(pfn >> BLOCK_ORDER, mt);
    kernel.counters.blocks_claimed += 1;
    kernel.zone.take(list)
}
