// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compaction with two scanners (`mm/compaction.c`, 6.12): one goes up and picks movable
//! pages, the other comes down and picks free pages to move them to.

use crate::core::{BLOCK_ORDER, BLOCK_PAGES, Core, HIGH, MAX_ORDER};
use crate::frame::{Kind, MigrateType, State, is_movable};
use crate::policy::linux;
use crate::psi::{MIGRATE_NS, SCAN_BLOCK_NS, Stall};
use crate::server::Server;

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Compaction {
    pub(crate) scanned_blocks: u64,
    pub(crate) moved_pages: u64,
    pub(crate) success: bool,
}

/// Blocks that one direct compaction may look at before it gives up.
pub(crate) const DIRECT_BLOCKS: u32 = 256;

/// Compaction that failed for an order is not tried again for it, or for a larger one, until a
/// number of requests has passed that doubles with each failure (`defer_compaction`,
/// `compaction_deferred`). Direct and background compaction share it, as they share the zone's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deferral {
    order_failed: u32,
    considered: u32,
    shift: u32,
}

/// Requests that pass at most: 2^6 (`COMPACT_MAX_DEFER_SHIFT`).
const MAX_DEFER_SHIFT: u32 = 6;

impl Default for Deferral {
    fn default() -> Deferral {
        Deferral {
            order_failed: u32::MAX,
            considered: 0,
            shift: 0,
        }
    }
}

impl Deferral {
    /// Whether a request of this order is to do without compaction; counts the request.
    pub(crate) fn defers(&mut self, order: u32) -> bool {
        if order < self.order_failed {
            return false;
        }
        self.considered = (self.considered + 1).min(1 << self.shift);
        self.considered < 1 << self.shift
    }

    fn note(&mut self, order: u32, success: bool) {
        self.considered = 0;
        if success {
            self.shift = 0;
            if order >= self.order_failed {
                self.order_failed = order + 1;
            }
        } else {
            self.shift = (self.shift + 1).min(MAX_DEFER_SHIFT);
            self.order_failed = self.order_failed.min(order);
        }
    }
}

impl Core {
    /// Whether a block of `order` for `mt` can be had now, from its own lists or by claiming the
    /// block of another type (`__compact_finished`, `find_suitable_fallback`).
    fn has_block(&self, order: u32, mt: MigrateType) -> bool {
        let area = &self.areas[HIGH];
        let others = MigrateType::ALL
            .iter()
            .fold(0, |all, &mt| all | area.orders(mt));
        let claims = |o: &u32| *o >= BLOCK_ORDER || self.rules.mixing && linux::may_claim(*o, mt);
        let claimable = (order..=MAX_ORDER)
            .filter(claims)
            .fold(0, |all, o| all | 1 << o);
        area.orders(mt) >> order != 0 || others & claimable != 0
    }

    /// Compacts the upper region until a block of `order` is free, the scanners meet, or
    /// `budget` blocks were looked at. Scanners go on where they stopped.
    pub(crate) fn compact(
        &mut self,
        order: u32,
        mt: MigrateType,
        budget: u32,
        sync: bool,
    ) -> Compaction {
        let mut result = Compaction::default();
        let low = self.border >> BLOCK_ORDER;
        let top = self.blocks.len() as u32;
        let mut targets: Vec<u32> = Vec::new();
        while (result.scanned_blocks as u32) < budget {
            if self.scan_migrate < low || self.scan_migrate >= self.scan_free {
                self.scan_migrate = low;
                self.scan_free = top;
                if result.scanned_blocks > 0 {
                    break;
                }
            }
            let b = self.scan_migrate;
            self.scan_migrate += 1;
            result.scanned_blocks += 1;
            if self.migrate_source(b, order, sync) {
                result.moved_pages += self.compact_block(b, &mut targets, &mut result);
                if self.has_block(order, mt) {
                    result.success = true;
                    break;
                }
            }
        }
        for pfn in targets {
            self.frames.set(pfn, State::INTERIOR);
            self.isolated_pages -= 1;
            self.free_block(pfn, 0);
        }
        result
    }

    /// `suitable_migration_source`, and no point in a block whose pages cannot all leave when a
    /// whole block is wanted.
    fn migrate_source(&self, b: u32, order: u32, sync: bool) -> bool {
        let block = self.blocks[b as usize];
        (sync || block.mt == MigrateType::Movable)
            && !block.giga
            && block.movable > 0
            && u32::from(block.movable) < BLOCK_PAGES
            && (order < BLOCK_ORDER || block.fixed == 0)
    }

    fn compact_block(&mut self, b: u32, targets: &mut Vec<u32>, result: &mut Compaction) -> u64 {
        let mut pages = Vec::new();
        self.heads(b, |pfn, state| {
            if state.kind() == Kind::Used && state.order() == 0 && is_movable(state.class()) {
                pages.push(pfn);
            }
        });
        let mut moved = 0;
        for src in pages {
            if targets.is_empty() && !self.fill_targets(targets, b, result) {
                break;
            }
            if !self.can_move(self.frames.get(src)) || self.rng.chance(1.0 / 2048.0) {
                self.counters.failed_migrations += 1;
                continue;
            }
            let Some(dst) = targets.pop() else { break };
            self.isolated_pages -= 1;
            self.move_block(src, dst);
            moved += 1;
        }
        moved
    }

    /// Lets the free scanner come down until it has found free pages in a movable block
    /// (`suitable_migration_target`) above the migrate scanner.
    fn fill_targets(&mut self, targets: &mut Vec<u32>, above: u32, done: &mut Compaction) -> bool {
        while self.scan_free > above + 1 {
            self.scan_free -= 1;
            done.scanned_blocks += 1;
            let b = self.scan_free;
            let block = self.blocks[b as usize];
            let usable = block.mt == MigrateType::Movable && !block.isolated && !block.giga;
            if !usable || block.free == 0 || u32::from(block.free) == BLOCK_PAGES {
                continue;
            }
            for (pfn, order) in self.free_in(b) {
                self.remove(pfn);
                self.isolated_pages += 1 << order;
                for page in pfn..pfn + (1 << order) {
                    let mt = MigrateType::Movable;
                    self.frames.set(page, State::free(Kind::Isolated, 0, mt));
                    targets.push(page);
                }
            }
            return true;
        }
        false
    }
}

impl Server {
    /// Compaction by an allocating task, which waits for it.
    pub(crate) fn direct_compact(&mut self, order: u32, mt: MigrateType, stall: Stall) -> bool {
        self.core.counters.compact_stalls += 1;
        self.core.drain_all();
        let done = self.core.compact(order, mt, DIRECT_BLOCKS, false);
        let ns = done.scanned_blocks * SCAN_BLOCK_NS + done.moved_pages * MIGRATE_NS;
        self.core.psi.stall(stall, ns);
        self.core.deferral.note(order, done.success);
        self.core.counters.compact_success += u64::from(done.success);
        done.success
    }

    /// kcompactd: keeps a few whole blocks free in the background, `budget` blocks a call.
    pub(crate) fn background_compact(&mut self, budget: u32) {
        let core = &mut self.core;
        let whole = core.areas[HIGH].count(BLOCK_ORDER) + 2 * core.areas[HIGH].count(MAX_ORDER);
        let wanted = (core.blocks.len() as u64 / 1024).max(1);
        if whole >= wanted || core.deferral.defers(BLOCK_ORDER) {
            return;
        }
        let done = core.compact(BLOCK_ORDER, MigrateType::Movable, budget, true);
        core.deferral.note(BLOCK_ORDER, done.success);
    }
}

/// Takes an aligned free block of `order` for movable memory, changing block types if the
/// policy allows it.
pub(crate) fn take_movable(core: &mut Core, region: usize, order: u32) -> Option<u32> {
    core.take(region, order, MigrateType::Movable)
        .or_else(|| linux::claim_whole_block(core, region, order, MigrateType::Movable))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests until one is not deferred, that one included.
    fn wait(deferral: &mut Deferral, order: u32) -> u32 {
        (1..).find(|_| !deferral.defers(order)).expect("an end")
    }

    #[test]
    fn failures_double_the_wait_up_to_64_and_success_ends_it() {
        let mut deferral = Deferral::default();
        assert_eq!(wait(&mut deferral, 3), 1);
        for expected in [2, 4, 8, 16, 32, 64, 64] {
            deferral.note(3, false);
            assert_eq!(wait(&mut deferral, 3), expected);
        }
        deferral.note(3, true);
        assert_eq!(wait(&mut deferral, 3), 1);
    }

    #[test]
    fn smaller_orders_than_the_failed_one_are_not_deferred() {
        let mut deferral = Deferral::default();
        deferral.note(9, false);
        assert!(!deferral.defers(3));
        assert!(deferral.defers(9));
        deferral.note(3, false);
        assert!(deferral.defers(4));
    }
}
