// SPDX-License-Identifier: MIT OR Apache-2.0
//! Emptying ranges of pageblocks (`alloc_contig_range` in `mm/page_alloc.c`, 6.12).

use super::migrate::{can_move, migrate_away};
use crate::kernel::SimKernel;
use crate::memory::{BLOCK_ORDER, FrameKind};
use ample_pfn::{MigrateType, is_movable};

/// Why a range could not be emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeError {
    /// A page in it cannot move at all.
    Unmovable,
    /// A page was busy or there was no room to move it to.
    Busy,
}

/// Empties pageblocks `[first, first + count)` and leaves them isolated. With `tolerate`,
/// frames that never were the allocator's may stay. On failure everything is as before but
/// for the pages that did move. Pages moved.
pub(crate) fn isolate_range(
    kernel: &mut SimKernel,
    first: u32,
    count: u32,
    tolerate: bool,
) -> Result<u64, RangeError> {
    let range = first..first + count;
    assert!(range.end <= kernel.zone.block_count(), "beyond memory");
    if !range.clone().all(|b| is_possible(kernel, b, tolerate)) {
        return Err(RangeError::Unmovable);
    }
    kernel.drain_all();
    let types: Vec<MigrateType> = range.clone().map(|b| kernel.zone.block(b).mt).collect();
    for b in range.clone() {
        kernel.zone.isolate_block(b);
    }
    let mut moved = 0;
    for b in range.clone() {
        // Two passes: a page that was busy once may not be the second time.
        if !(empty_block(kernel, b, &mut moved) || empty_block(kernel, b, &mut moved)) {
            for (b, &mt) in range.zip(&types) {
                kernel.zone.unisolate_block(b, mt);
            }
            return Err(RangeError::Busy);
        }
    }
    Ok(moved)
}

/// Migrates every used block of `b` away; whether none is left.
fn empty_block(kernel: &mut SimKernel, b: u32, moved: &mut u64) -> bool {
    let used = (kernel.zone).heads_where(b, |state| state.kind() == FrameKind::Used);
    let mut empty = true;
    for (pfn, order) in used {
        if migrate_away(kernel, pfn) {
            *moved += 1 << order;
        } else {
            empty = false;
        }
    }
    empty
}

/// A look without touching anything (`has_unmovable_pages`).
fn is_possible(kernel: &SimKernel, b: u32, tolerate: bool) -> bool {
    let zone = &kernel.zone;
    let block = zone.block(b);
    if block.giga || block.isolated {
        return false;
    }
    let first = zone.state(zone.cover(b).unwrap_or(b << BLOCK_ORDER));
    if first.kind() == FrameKind::Used && first.order() > BLOCK_ORDER {
        return false;
    }
    if block.fixed == 0 {
        return true;
    }
    let mut possible = true;
    zone.heads(b, |_, state| {
        possible &= match state.kind() {
            FrameKind::Fixed => tolerate,
            FrameKind::Used => is_movable(state.class()) || can_move(kernel, state),
            _ => true,
        };
    });
    possible
}

/// Makes one free 2 MB block in `region` by emptying the movable block with the fewest used
/// pages among a few; its type becomes `mt`. Pages moved, or `None`.
pub(crate) fn evacuate_one(kernel: &mut SimKernel, region: usize, mt: MigrateType) -> Option<u64> {
    let range = kernel.zone.region_blocks(region);
    let span = range.len() as u32;
    let mut best: Option<(u16, u32)> = None;
    for _ in 0..32.min(span) {
        let b = range.start + kernel.rng.below(span);
        let zone = &kernel.zone;
        let block = zone.block(b);
        let usable = block.mt == MigrateType::Movable
            && block.fixed == 0
            && !block.giga
            && zone.cover(b).is_none();
        if usable
            && zone.state(b << BLOCK_ORDER).order() <= BLOCK_ORDER
            && block.free > 0
            && best.is_none_or(|(used, _)| block.movable < used)
        {
            best = Some((block.movable, b));
        }
    }
    let (_, b) = best?;
    let moved = isolate_range(kernel, b, 1, false).ok()?;
    kernel.zone.unisolate_block(b, mt);
    Some(moved)
}
