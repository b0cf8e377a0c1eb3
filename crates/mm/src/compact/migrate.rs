// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moving single blocks (`mm/migrate.c`, 6.12).

use crate::alloc::fallback::{claim_or_steal, claim_whole_block};
use crate::kernel::SimKernel;
use crate::memory::{BLOCK_ORDER, BLOCK_PAGES, FrameState, FreeList};
use ample_pfn::{MigrateType, PageClass, is_movable};

/// Probability that a migration finds its page busy (locked, under write-back, extra
/// reference) after all retries.
const BUSY: f64 = 0.0005;

/// Whether a used block can be moved by what this machine has.
pub(crate) fn can_move(kernel: &SimKernel, state: FrameState) -> bool {
    let class = state.class();
    let by_hardware = || kernel.rules.hw_moves.is_some_and(|hw| hw.moves(class));
    !state.short_pinned() && (is_movable(class) || by_hardware())
}

/// Moves a used block to `dst`, a taken block of the same order, and frees the source.
pub(crate) fn move_block(kernel: &mut SimKernel, src: u32, dst: u32) {
    let zone = &mut kernel.zone;
    let state = zone.state(src);
    let (order, class) = (state.order(), state.class());
    debug_assert_eq!(dst & ((1 << order) - 1), 0, "not a place for its order");
    zone.frames_mut().set(dst, state);
    zone.count_used(dst, order, class, true);
    if state.on_lru() {
        kernel.lru.relocate(state, dst);
    } else {
        kernel.pools.relocate(state, dst);
    }
    zone.count_used(src, order, class, false);
    zone.frames_mut().set(src, FrameState::INTERIOR);
    zone.free_block(src, order);
    if is_movable(class) {
        kernel.counters.migrated_pages += 1 << order;
    } else {
        kernel.counters.hw_migrated_pages += 1 << order;
    }
}

/// A place to migrate a block of this class and order to, outside isolated blocks.
fn migration_target(kernel: &mut SimKernel, order: u32, class: PageClass) -> Option<u32> {
    let mt = MigrateType::of(class);
    for &region in kernel.route(mt) {
        // The reserve below the minimum is not for migrations.
        let reserve = kernel.watermarks.of(region).min / 2;
        if kernel.zone.free_pages(region) < reserve + (1 << order) {
            continue;
        }
        let mt = kernel.type_in(region, mt);
        let list = FreeList { region, order, mt };
        let found = (kernel.zone.take(list)).or_else(|| match kernel.rules.mixing {
            true => claim_or_steal(kernel, list),
            false => claim_whole_block(kernel, list),
        });
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Moves one used block to anywhere else; whether it worked.
pub(crate) fn migrate_away(kernel: &mut SimKernel, pfn: u32) -> bool {
    let state = kernel.zone.state(pfn);
    let busy = kernel.rng.chance(BUSY);
    if !can_move(kernel, state) || busy {
        kernel.counters.failed_migrations += 1;
        return false;
    }
    let Some(dst) = migration_target(kernel, state.order(), state.class()) else {
        if state.order() == BLOCK_ORDER && state.class() == PageClass::Anon {
            split_huge(kernel, pfn);
            let mut done = true;
            for page in pfn..pfn + BLOCK_PAGES {
                done &= migrate_away(kernel, page);
            }
            return done;
        }
        kernel.counters.failed_migrations += 1;
        return false;
    };
    move_block(kernel, pfn, dst);
    true
}

/// Splits a 2 MB page of a pool into 512 entries of it.
pub(crate) fn split_huge(kernel: &mut SimKernel, pfn: u32) {
    kernel.pools.split(kernel.zone.frames_mut(), pfn);
    kernel.counters.thp_splits += 1;
}
