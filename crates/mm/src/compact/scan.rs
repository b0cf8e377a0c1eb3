// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compaction with two scanners (`mm/compaction.c`, 6.12): one goes up and picks movable
//! pages, the other comes down and picks free pages to move them to.

use super::migrate::{can_move, move_block};
use super::state::Scanners;
use crate::alloc::costly::compact_gap;
use crate::alloc::fallback::may_claim;
use crate::kernel::SimKernel;
use crate::memory::{BLOCK_ORDER, BLOCK_PAGES, FrameKind, HIGH, MAX_ORDER};
use crate::psi::{MIGRATE_NS, SCAN_BLOCK_NS, Stall};
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

impl Goal {
    /// Whether blocks are passed over where compaction has been: not ahead of requests
    /// (`ignore_skip_hint` in `compact_node`).
    fn heeds_marks(self) -> bool {
        !matches!(self, Goal::Score(_))
    }
}

/// Blocks that one asynchronous compaction looks at before it gives up.
const DIRECT_BLOCKS: u64 = 256;

/// Probability that compaction finds a page busy.
const BUSY: f64 = 1.0 / 2048.0;

/// Whether a block of `order` for `mt` can be had now, from its own lists or by claiming the
/// block of another type (`__compact_finished`, `find_suitable_fallback`).
fn has_block(kernel: &SimKernel, order: u32, mt: MigrateType) -> bool {
    let area = kernel.zone.area(HIGH);
    let others = MigrateType::REQUESTED
        .iter()
        .fold(0, |all, &mt| all | area.orders(mt));
    let claims = |o: &u32| *o >= BLOCK_ORDER || kernel.rules.mixing && may_claim(*o, mt);
    let claimable = (order..=MAX_ORDER)
        .filter(claims)
        .fold(0, |all, o| all | 1 << o);
    area.orders(mt) >> order != 0 || others & claimable != 0
}

/// Free memory of the upper region that is not in free 2 MB blocks, in per cent
/// (`fragmentation_score_zone`, `extfrag_for_order`).
pub(crate) fn fragmentation_score(kernel: &SimKernel) -> u64 {
    let area = kernel.zone.area(HIGH);
    let whole: u64 = (BLOCK_ORDER..=MAX_ORDER)
        .map(|order| area.count(order) << order)
        .sum();
    match area.free_pages() {
        0 => 0,
        free => 100 * (free - whole) / free,
    }
}

fn reached(kernel: &SimKernel, goal: Goal) -> bool {
    match goal {
        Goal::Alike(order, mt) | Goal::Block(order, mt) => has_block(kernel, order, mt),
        Goal::Score(most) => fragmentation_score(kernel) <= most,
    }
}

/// Compacts the upper region until the goal is reached, the scanners meet, or `enough` says
/// so. The scanners go on from where they stand.
pub(crate) fn compact(
    kernel: &mut SimKernel,
    goal: Goal,
    scanners: &mut Scanners,
    enough: impl Fn(&Compaction) -> bool,
) -> Compaction {
    let mut done = Compaction::default();
    let low = kernel.zone.border_block();
    let mut targets: Vec<u32> = Vec::new();
    while !enough(&done) {
        if scanners.migrate < low || scanners.migrate >= scanners.free {
            let met = scanners.migrate >= scanners.free && done.scanned_blocks > 0;
            *scanners = Scanners::apart(&kernel.zone);
            if met {
                done.complete = true;
                break;
            }
        }
        let b = scanners.migrate;
        scanners.migrate += 1;
        done.scanned_blocks += 1;
        let marked = goal.heeds_marks() && kernel.skips.passes(b);
        if !marked && is_source(kernel, b, goal) {
            let before = done.moved_pages;
            compact_block(kernel, (b, goal), &mut targets, scanners, &mut done);
            if done.moved_pages == before {
                kernel.skips.mark(b);
            }
            if reached(kernel, goal) {
                done.success = true;
                break;
            }
        }
    }
    for pfn in targets {
        kernel.zone.return_page(pfn);
    }
    done
}

/// As [`compact`], with the scanners that direct compaction and kcompactd share.
pub(crate) fn compact_on(
    kernel: &mut SimKernel,
    goal: Goal,
    enough: impl Fn(&Compaction) -> bool,
) -> Compaction {
    let mut scanners = kernel.scanners;
    let done = compact(kernel, goal, &mut scanners, enough);
    kernel.scanners = scanners;
    done
}

/// `suitable_migration_source`, and asynchronously no point in a block whose pages cannot
/// all leave when a whole block is wanted (`skip_on_failure`).
fn is_source(kernel: &SimKernel, b: u32, goal: Goal) -> bool {
    let block = kernel.zone.block(b);
    let suits = match goal {
        Goal::Block(..) | Goal::Score(_) => true,
        Goal::Alike(order, mt) => block.mt == mt && (order < BLOCK_ORDER || block.fixed == 0),
    };
    suits && !block.giga && block.movable > 0 && u32::from(block.movable) < BLOCK_PAGES
}

/// Moves the single movable pages of block `b` to pages that the free scanner finds.
fn compact_block(
    kernel: &mut SimKernel,
    (b, goal): (u32, Goal),
    targets: &mut Vec<u32>,
    scanners: &mut Scanners,
    done: &mut Compaction,
) {
    let pages = kernel.zone.heads_where(b, |state| {
        state.kind() == FrameKind::Used && state.order() == 0 && is_movable(state.class())
    });
    for (index, &(src, _)) in pages.iter().enumerate() {
        let need = pages.len() - index;
        if targets.is_empty() && !fill_targets(kernel, targets, need, (b, goal), scanners, done) {
            break;
        }
        let state = kernel.zone.state(src);
        if !can_move(kernel, state) || kernel.rng.chance(BUSY) {
            kernel.counters.failed_migrations += 1;
            continue;
        }
        let Some(dst) = targets.pop() else { break };
        kernel.zone.use_isolated_page(dst);
        move_block(kernel, src, dst);
        done.moved_pages += 1;
    }
}

/// Lets the free scanner come down until it has found free pages in a movable block
/// (`suitable_migration_target`) above the migrate scanner, and takes what is needed of them.
fn fill_targets(
    kernel: &mut SimKernel,
    targets: &mut Vec<u32>,
    need: usize,
    (above, goal): (u32, Goal),
    scanners: &mut Scanners,
    done: &mut Compaction,
) -> bool {
    while scanners.free > above + 1 {
        scanners.free -= 1;
        done.scanned_blocks += 1;
        let b = scanners.free;
        let block = kernel.zone.block(b);
        let usable = block.mt == MigrateType::Movable && !block.isolated && !block.giga;
        let marked = goal.heeds_marks() && kernel.skips.passes(b);
        if !usable || block.free == 0 || block.is_free() || marked {
            continue;
        }
        kernel.skips.mark(b);
        for (pfn, order) in kernel.zone.free_in(b) {
            if targets.len() >= need {
                scanners.free = b + 1;
                kernel.skips.unmark(b);
                break;
            }
            let zone = &mut kernel.zone;
            zone.isolate_pages(pfn, order, |page| targets.push(page));
        }
        return true;
    }
    false
}

/// Compaction by an allocating task, which waits for it; if `patient`, until all is tried.
/// Whether it made the block.
pub(crate) fn direct_compact(
    kernel: &mut SimKernel,
    order: u32,
    mt: MigrateType,
    patient: bool,
) -> bool {
    kernel.counters.compact_stalls += 1;
    let done = compact_while_waiting(kernel, order, mt, patient);
    kernel.deferral.note(order, done.success);
    done.success
}

/// What became of a compaction for a costly request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    /// Not tried, since others failed not long ago.
    Deferred,
    /// Not tried for want of free pages to move others to.
    Skipped,
    /// Tried in vain.
    Failed,
    /// There is a block.
    Success,
}

/// As [`direct_compact`], for a costly request (`try_to_compact_pages`): only a `patient` attempt
/// that fails defers others, and any attempt may be deferred.
pub(crate) fn compact_for(
    kernel: &mut SimKernel,
    order: u32,
    mt: MigrateType,
    patient: bool,
) -> Tried {
    let region = kernel.route(mt)[0];
    let room = kernel.watermarks.of(region).low + compact_gap(order);
    if kernel.deferral.defers(order) {
        kernel.counters.compact_stalls += 1;
        return Tried::Deferred;
    }
    if kernel.zone.free_pages(region) < room {
        return Tried::Skipped;
    }
    if kernel.deferral.restarts(order) {
        kernel.skips.forget();
    }
    kernel.counters.compact_stalls += 1;
    if compact_while_waiting(kernel, order, mt, patient).success {
        kernel.deferral.made(order);
        return Tried::Success;
    }
    if patient {
        kernel.deferral.note(order, false);
    }
    Tried::Failed
}

/// Compaction by a task that waits, of the whole region from its ends, past all marks.
pub(crate) fn compact_all(kernel: &mut SimKernel, order: u32, mt: MigrateType) {
    kernel.counters.compact_stalls += 1;
    kernel.skips.forget();
    kernel.scanners = Scanners::apart(&kernel.zone);
    compact_while_waiting(kernel, order, mt, true);
}

fn compact_while_waiting(
    kernel: &mut SimKernel,
    order: u32,
    mt: MigrateType,
    patient: bool,
) -> Compaction {
    kernel.drain_all();
    let goal = if patient {
        Goal::Block(order, mt)
    } else {
        Goal::Alike(order, mt)
    };
    let enough = |done: &Compaction| !patient && done.scanned_blocks >= DIRECT_BLOCKS;
    let done = compact_on(kernel, goal, enough);
    if done.complete {
        kernel.skips.note_met();
    }
    kernel.psi.stall(Stall::of(mt), done.cost_ns());
    kernel.counters.compact_success += u64::from(done.success);
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, PolicyKind};
    use crate::server::ServerModel;

    /// A server full of anonymous pages of which every second one of blocks 8 to 15 is free.
    fn half_empty_blocks() -> ServerModel {
        let mut config = Config::new(PolicyKind::Linux);
        config.memory_bytes = 64 << 20;
        let mut server = ServerModel::new(&config).expect("a valid size");
        let pool = server.new_pool();
        let pages = server.kernel.zone.free_pages(HIGH) as u32;
        server.allocate(
            pool,
            &crate::AllocRequest::new(ample_pfn::PageClass::Anon),
            pages,
            0,
        );
        for pfn in (8 * BLOCK_PAGES..16 * BLOCK_PAGES).step_by(2) {
            let state = server.kernel.zone.state(pfn);
            if state.kind() == FrameKind::Used {
                let (_, index) = state.pool_entry();
                server.free_entry(pool, index, 0);
            }
        }
        server.kernel.drain_all();
        server
    }

    fn movable_pages(server: &ServerModel, b: u32) -> u32 {
        u32::from(server.kernel.zone.block(b).movable)
    }

    #[test]
    fn a_kernel_request_gets_movable_pages_out_of_kernel_blocks_only() {
        let mut server = half_empty_blocks();
        server.kernel.zone.retype_block(9, MigrateType::Unmovable);
        let before: Vec<u32> = (0..32).map(|b| movable_pages(&server, b)).collect();
        let mt = MigrateType::Unmovable;
        assert!(direct_compact(&mut server.kernel, 3, mt, false));
        assert!(movable_pages(&server, 9) < before[9]);
        let others = (0..32).filter(|&b| b != 9);
        for b in others {
            assert!(movable_pages(&server, b) >= before[b as usize], "block {b}");
        }
    }

    #[test]
    fn synchronous_compaction_empties_blocks_that_kernel_pages_share() {
        let mut server = half_empty_blocks();
        let b = 8;
        let kernel = (b * BLOCK_PAGES..)
            .find(|&pfn| server.kernel.zone.state(pfn).kind() == FrameKind::Used)
            .expect("a used page");
        server
            .kernel
            .zone
            .set_class(kernel, ample_pfn::PageClass::Slab);
        let before = movable_pages(&server, b);
        let mut scanners = Scanners::apart(&server.kernel.zone);
        let goal = Goal::Block(MAX_ORDER, MigrateType::Movable);
        let done = compact(&mut server.kernel, goal, &mut scanners, |_| false);
        assert!(done.complete || done.success);
        assert!(movable_pages(&server, b) < before);
        server.check().expect("sound");
    }
}
