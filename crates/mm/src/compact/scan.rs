// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compaction with two scanners (`mm/compaction.c`, 6.12): one goes up and picks movable
//! pages, the other comes down and picks free pages to move them to.

use crate::core::{BLOCK_ORDER, BLOCK_PAGES, Core, HIGH, MAX_ORDER};
use crate::frame::{Kind, State};
use crate::policy::linux;
use crate::psi::{MIGRATE_NS, SCAN_BLOCK_NS, Stall};
use crate::server::Server;
use ample_pfn::{MigrateType, is_movable};

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Compaction {
    pub(crate) scanned_blocks: u64,
    pub(crate) moved_pages: u64,
    /// What was wanted is there.
    pub(crate) success: bool,
    /// The scanners met.
    pub(crate) complete: bool,
}

impl Compaction {
    /// Time it took the task that did it.
    pub(crate) fn cost_ns(&self) -> u64 {
        self.scanned_blocks * SCAN_BLOCK_NS + self.moved_pages * MIGRATE_NS
    }
}

/// What a compaction works towards, and from which blocks it takes movable pages
/// (`suitable_migration_source`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// A free block of this order for this type, from blocks of that type only: kernel requests
    /// get the movable pages out of kernel blocks (direct compaction, asynchronous).
    Alike(u32, MigrateType),
    /// A free block of this order for this type, from all blocks (synchronous compaction,
    /// kcompactd).
    Block(u32, MigrateType),
    /// A fragmentation score of so many per cent at most, from all blocks (kcompactd).
    Score(u64),
}

/// Where the migrate and the free scanner stopped, in blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanners {
    pub(crate) migrate: u32,
    pub(crate) free: u32,
}

/// Blocks that one asynchronous compaction looks at before it gives up.
pub(crate) const DIRECT_BLOCKS: u64 = 256;

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

    pub(crate) fn note(&mut self, order: u32, success: bool) {
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
        let others = MigrateType::REQUESTED
            .iter()
            .fold(0, |all, &mt| all | area.orders(mt));
        let claims = |o: &u32| *o >= BLOCK_ORDER || self.rules.mixing && linux::may_claim(*o, mt);
        let claimable = (order..=MAX_ORDER)
            .filter(claims)
            .fold(0, |all, o| all | 1 << o);
        area.orders(mt) >> order != 0 || others & claimable != 0
    }

    /// Free memory of the upper region that is not in free 2 MB blocks, in per cent
    /// (`fragmentation_score_zone`, `extfrag_for_order`).
    pub(crate) fn fragmentation_score(&self) -> u64 {
        let area = &self.areas[HIGH];
        let whole: u64 = (BLOCK_ORDER..=MAX_ORDER)
            .map(|order| area.count(order) << order)
            .sum();
        match area.free_pages {
            0 => 0,
            free => 100 * (free - whole) / free,
        }
    }

    fn reached(&self, goal: Goal) -> bool {
        match goal {
            Goal::Alike(order, mt) | Goal::Block(order, mt) => self.has_block(order, mt),
            Goal::Score(most) => self.fragmentation_score() <= most,
        }
    }

    /// Compacts the upper region until the goal is reached, the scanners meet, or `enough` says
    /// so. The scanners go on from where they stand.
    pub(crate) fn compact(
        &mut self,
        goal: Goal,
        scanners: &mut Scanners,
        enough: impl Fn(&Compaction) -> bool,
    ) -> Compaction {
        let mut result = Compaction::default();
        let low = self.border >> BLOCK_ORDER;
        let mut targets: Vec<u32> = Vec::new();
        while !enough(&result) {
            if scanners.migrate < low || scanners.migrate >= scanners.free {
                let met = scanners.migrate >= scanners.free && result.scanned_blocks > 0;
                *scanners = self.scanners_apart();
                if met {
                    result.complete = true;
                    break;
                }
            }
            let b = scanners.migrate;
            scanners.migrate += 1;
            result.scanned_blocks += 1;
            if self.migrate_source(b, goal) {
                result.moved_pages += self.compact_block(b, &mut targets, scanners, &mut result);
                if self.reached(goal) {
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

    /// The scanners at the two ends of the upper region.
    pub(crate) fn scanners_apart(&self) -> Scanners {
        Scanners {
            migrate: self.border >> BLOCK_ORDER,
            free: self.blocks.len() as u32,
        }
    }

    /// `suitable_migration_source`, and asynchronously no point in a block whose pages cannot
    /// all leave when a whole block is wanted (`skip_on_failure`).
    fn migrate_source(&self, b: u32, goal: Goal) -> bool {
        let block = self.blocks[b as usize];
        let suits = match goal {
            Goal::Block(..) | Goal::Score(_) => true,
            Goal::Alike(order, mt) => block.mt == mt && (order < BLOCK_ORDER || block.fixed == 0),
        };
        suits && !block.giga && block.movable > 0 && u32::from(block.movable) < BLOCK_PAGES
    }

    fn compact_block(
        &mut self,
        b: u32,
        targets: &mut Vec<u32>,
        scanners: &mut Scanners,
        result: &mut Compaction,
    ) -> u64 {
        let mut pages = Vec::new();
        self.heads(b, |pfn, state| {
            if state.kind() == Kind::Used && state.order() == 0 && is_movable(state.class()) {
                pages.push(pfn);
            }
        });
        let mut moved = 0;
        for (done, &src) in pages.iter().enumerate() {
            let need = pages.len() - done;
            if targets.is_empty() && !self.fill_targets(targets, need, b, scanners, result) {
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
    /// (`suitable_migration_target`) above the migrate scanner, and takes what is needed of them.
    fn fill_targets(
        &mut self,
        targets: &mut Vec<u32>,
        need: usize,
        above: u32,
        scanners: &mut Scanners,
        done: &mut Compaction,
    ) -> bool {
        while scanners.free > above + 1 {
            scanners.free -= 1;
            done.scanned_blocks += 1;
            let b = scanners.free;
            let block = self.blocks[b as usize];
            let usable = block.mt == MigrateType::Movable && !block.isolated && !block.giga;
            if !usable || block.free == 0 || u32::from(block.free) == BLOCK_PAGES {
                continue;
            }
            for (pfn, order) in self.free_in(b) {
                if targets.len() >= need {
                    scanners.free = b + 1;
                    break;
                }
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
    /// Compaction by an allocating task, which waits for it; if `patient`, until all is tried.
    pub(crate) fn direct_compact(
        &mut self,
        order: u32,
        mt: MigrateType,
        patient: bool,
        stall: Stall,
    ) -> bool {
        self.core.counters.compact_stalls += 1;
        self.core.drain_all();
        let mut scanners = self.core.scanners;
        let goal = if patient {
            Goal::Block(order, mt)
        } else {
            Goal::Alike(order, mt)
        };
        let enough = |done: &Compaction| !patient && done.scanned_blocks >= DIRECT_BLOCKS;
        let done = (self.core).compact(goal, &mut scanners, enough);
        self.core.scanners = scanners;
        self.core.psi.stall(stall, done.cost_ns());
        self.core.deferral.note(order, done.success);
        self.core.counters.compact_success += u64::from(done.success);
        done.success
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::config::{Config, PolicyKind};

    /// A server full of anonymous pages of which every second one of blocks 8 to 15 is free.
    fn half_empty_blocks() -> Server {
        let mut config = Config::new(PolicyKind::Linux);
        config.memory_bytes = 64 << 20;
        let mut server = Server::new(&config).expect("a valid size");
        let pool = server.new_pool();
        let pages = server.core.free_pages(HIGH) as u32;
        server.allocate(
            pool,
            &crate::Request::new(ample_pfn::PageClass::Anon),
            pages,
            0,
        );
        for pfn in (8 * BLOCK_PAGES..16 * BLOCK_PAGES).step_by(2) {
            let state = server.core.frames.get(pfn);
            if state.kind() == Kind::Used {
                let (_, index) = state.pool_entry();
                server.free_entry(pool.0, index, 0);
            }
        }
        server.core.drain_all();
        server
    }

    fn movable_pages(server: &Server, b: usize) -> u32 {
        u32::from(server.core.blocks[b].movable)
    }

    #[test]
    fn a_kernel_request_gets_movable_pages_out_of_kernel_blocks_only() {
        let mut server = half_empty_blocks();
        server.core.retype_block(9, MigrateType::Unmovable);
        let before: Vec<u32> = (0..32).map(|b| movable_pages(&server, b)).collect();
        let mt = MigrateType::Unmovable;
        assert!(server.direct_compact(3, mt, false, Stall::Unmovable));
        assert!(movable_pages(&server, 9) < before[9]);
        let others = (0..32).filter(|&b| b != 9);
        for b in others {
            assert!(movable_pages(&server, b) >= before[b], "block {b}");
        }
    }

    #[test]
    fn synchronous_compaction_empties_blocks_that_kernel_pages_share() {
        let mut server = half_empty_blocks();
        let b = 8;
        let kernel = (b as u32 * BLOCK_PAGES..)
            .find(|&pfn| server.core.frames.get(pfn).kind() == Kind::Used)
            .expect("a used page");
        server.set_class(kernel, ample_pfn::PageClass::Slab);
        let before = movable_pages(&server, b);
        let mut scanners = server.core.scanners_apart();
        let goal = Goal::Block(MAX_ORDER, MigrateType::Movable);
        let done = (server.core).compact(goal, &mut scanners, |_| false);
        assert!(done.complete || done.success);
        assert!(movable_pages(&server, b) < before);
        server.check().expect("sound");
    }

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
