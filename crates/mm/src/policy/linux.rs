// SPDX-License-Identifier: MIT OR Apache-2.0
//! Linux 6.12: pageblocks have a type, and a type that runs out takes from another
//! (`mm/page_alloc.c`: `__rmqueue_claim`, `__rmqueue_steal`).

use super::Policy;
use crate::config::Rules;
use crate::core::{BLOCK_ORDER, BLOCK_PAGES, Core, HIGH, MAX_ORDER};
use ample_pfn::MigrateType;

/// Types to take from, best first (`fallbacks[][]`).
pub(crate) fn fallbacks(mt: MigrateType) -> [MigrateType; 2] {
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

/// Bit `o` set: a type that `mt` falls back to has a free block of order `o`.
fn fallback_orders(core: &Core, region: usize, mt: MigrateType) -> u16 {
    let [first, second] = fallbacks(mt);
    let area = &core.areas[region];
    area.orders(first) | area.orders(second)
}

/// Claims a block of another type, or takes a single page from one: the 6.12 fallback.
pub(crate) fn claim_or_steal(
    core: &mut Core,
    region: usize,
    order: u32,
    mt: MigrateType,
) -> Option<u32> {
    let held = fallback_orders(core, region, mt);
    for current in (order..=MAX_ORDER).rev() {
        if !may_claim(current, mt) {
            break;
        }
        if held >> current & 1 == 0 {
            continue;
        }
        let other = fallbacks(mt)
            .into_iter()
            .find_map(|other| Some((core.areas[region].first(current, other)?, other)));
        if let Some((pfn, _)) = other
            && let Some(found) = try_claim(core, region, pfn, current, order, mt)
        {
            return Some(found);
        }
    }
    for current in order..=MAX_ORDER {
        if held >> current & 1 == 0 {
            continue;
        }
        for other in fallbacks(mt) {
            if core.areas[region].first(current, other).is_some() {
                core.counters.pages_stolen += 1 << order;
                return core.take(region, order, other);
            }
        }
    }
    None
}

/// Claims only blocks that are wholly free: never mixes types inside 2 MB.
pub(crate) fn claim_whole_block(
    core: &mut Core,
    region: usize,
    order: u32,
    mt: MigrateType,
) -> Option<u32> {
    for current in (order.max(BLOCK_ORDER)..=MAX_ORDER).rev() {
        for other in fallbacks(mt) {
            if let Some(pfn) = core.areas[region].first(current, other) {
                return try_claim(core, region, pfn, current, order, mt);
            }
        }
    }
    None
}

/// `try_to_claim_block`: whole blocks change type; else the block does if at least half of it
/// is free or of a compatible kind.
fn try_claim(
    core: &mut Core,
    region: usize,
    pfn: u32,
    current: u32,
    order: u32,
    mt: MigrateType,
) -> Option<u32> {
    let b = pfn >> BLOCK_ORDER;
    if current >= BLOCK_ORDER {
        core.remove(pfn);
        for b in b..b + (1 << (current - BLOCK_ORDER)) {
            core.blocks[b as usize].mt = mt;
            core.counters.blocks_claimed += 1;
        }
        core.split(pfn, current, order, mt);
        return Some(pfn);
    }
    // Watermark boost: reclaim a block's worth, so that the next request finds a whole one.
    let most = core.watermarks[region].high * 3 / 2;
    core.boost_pages = (core.boost_pages + u64::from(BLOCK_PAGES)).min(most);
    let block = core.blocks[b as usize];
    let (free, movable) = (u32::from(block.free), u32::from(block.movable));
    let alike = match (mt, block.mt) {
        (MigrateType::Movable, _) => movable,
        (_, MigrateType::Movable) => BLOCK_PAGES.saturating_sub(free + movable),
        _ => 0,
    };
    if free + alike < BLOCK_PAGES / 2 {
        return None;
    }
    core.retype_block(b, mt);
    core.counters.blocks_claimed += 1;
    core.take(region, order, mt)
}

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
        core: &mut Core,
        region: usize,
        order: u32,
        mt: MigrateType,
    ) -> Option<u32> {
        claim_or_steal(core, region, order, mt)
    }
}
