// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moving pages: single migrations and the emptying of ranges (`mm/migrate.c`,
//! `alloc_contig_range` in `mm/page_alloc.c`, 6.12).

use crate::core::{BLOCK_ORDER, BLOCK_PAGES, Core, HIGH};
use crate::frame::{Kind, State};
use crate::policy::linux;
use ample_pfn::{MigrateType, PageClass, is_movable};

/// Probability that a migration finds its page busy (locked, under write-back, extra
/// reference) after all retries.
const BUSY: f64 = 0.0005;

/// Why a range could not be emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeError {
    /// A page in it cannot move at all.
    Unmovable,
    /// A page was busy or there was no room to move it to.
    Busy,
}

impl Core {
    /// Whether a used block can be moved by what this machine has.
    pub(crate) fn can_move(&self, state: State) -> bool {
        !state.short_pinned()
            && (is_movable(state.class())
                || self.rules.hw_moves && !matches!(state.class(), PageClass::KernelText))
    }

    /// Moves a used block to `dst`, a taken block of the same order, and frees the source.
    pub(crate) fn move_block(&mut self, src: u32, dst: u32) {
        let state = self.frames.get(src);
        let (order, class) = (state.order(), state.class());
        self.frames.set(dst, state);
        self.account(dst, order, class, true);
        if state.on_lru() {
            let list = usize::from(state.active());
            self.lru[list].replace(state.place(), dst);
        } else {
            let (pool, index) = state.pool_entry();
            self.pools[pool as usize][index as usize] = dst;
        }
        self.account(src, order, class, false);
        self.frames.set(src, State::INTERIOR);
        self.free_block(src, order);
        if is_movable(class) {
            self.counters.migrated_pages += 1 << order;
        } else {
            self.counters.hw_migrated_pages += 1 << order;
        }
    }

    /// A place to migrate a block of this class and order to, outside isolated blocks.
    fn migration_target(&mut self, order: u32, class: PageClass) -> Option<u32> {
        let mt = MigrateType::of(class);
        for &region in self.rules.route[mt as usize] {
            // The reserve below the minimum is not for migrations.
            if self.free_pages(region) < self.watermarks[region].min / 2 + (1 << order) {
                continue;
            }
            let mt = self.type_in(region, mt);
            if let Some(pfn) = self.take(region, order, mt) {
                return Some(pfn);
            }
            let found = if self.rules.mixing {
                linux::claim_or_steal(self, region, order, mt)
            } else {
                linux::claim_whole_block(self, region, order, mt)
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Moves one used block to anywhere else; whether it worked.
    pub(crate) fn migrate_away(&mut self, pfn: u32) -> bool {
        let state = self.frames.get(pfn);
        let busy = self.rng.chance(BUSY);
        if !self.can_move(state) || busy {
            self.counters.failed_migrations += 1;
            return false;
        }
        let Some(dst) = self.migration_target(state.order(), state.class()) else {
            if state.order() == BLOCK_ORDER && state.class() == PageClass::Anon {
                self.split_huge(pfn);
                let mut done = true;
                for page in pfn..pfn + BLOCK_PAGES {
                    done &= self.migrate_away(page);
                }
                return done;
            }
            self.counters.failed_migrations += 1;
            return false;
        };
        self.move_block(pfn, dst);
        true
    }

    /// Splits a 2 MB page of a pool into 512 entries of it.
    pub(crate) fn split_huge(&mut self, pfn: u32) {
        let state = self.frames.get(pfn);
        let (pool, _) = state.pool_entry();
        self.frames.set(pfn, state.with_order(0));
        for page in pfn + 1..pfn + (1 << state.order()) {
            self.frames.set(page, state.with_order(0));
            self.pool_push(pool, page);
        }
        self.counters.thp_splits += 1;
    }

    /// Takes the free pages of block `b` off the lists and keeps later frees off them.
    fn isolate_block(&mut self, b: u32) {
        if let Some(head) = self.cover(b) {
            self.uncover(head);
        }
        let start = b << BLOCK_ORDER;
        let state = self.frames.get(start);
        if state.kind() == Kind::Free && state.order() > BLOCK_ORDER {
            self.uncover(start);
        }
        self.blocks[b as usize].isolated = true;
        let mt = self.blocks[b as usize].mt;
        for (pfn, order) in self.free_in(b) {
            self.remove(pfn);
            self.frames.set(pfn, State::free(Kind::Isolated, order, mt));
            self.isolated_pages += 1 << order;
        }
    }

    /// Splits a free order-10 block into its two pageblocks.
    fn uncover(&mut self, head: u32) {
        let state = self.frames.get(head);
        if state.kind() == Kind::Free {
            let mt = state.mt();
            self.remove(head);
            self.insert(head, BLOCK_ORDER, mt, false);
            self.insert(head + BLOCK_PAGES, BLOCK_ORDER, mt, false);
        }
    }

    /// Ends the isolation of block `b`: its isolated pages become free pages of type `mt`.
    pub(crate) fn unisolate_block(&mut self, b: u32, mt: MigrateType) {
        self.blocks[b as usize].isolated = false;
        self.blocks[b as usize].mt = mt;
        let mut free = Vec::new();
        self.heads(b, |pfn, state| {
            if state.kind() == Kind::Isolated {
                free.push((pfn, state.order()));
            }
        });
        for (pfn, order) in free {
            self.isolated_pages -= 1 << order;
            self.frames.set(pfn, State::INTERIOR);
            self.free_block(pfn, order);
        }
    }

    /// Empties pageblocks `[first, first + count)` and leaves them isolated. With `tolerate`,
    /// frames that never were the allocator's may stay. On failure everything is as before but
    /// for the pages that did move.
    pub(crate) fn isolate_range(
        &mut self,
        first: u32,
        count: u32,
        tolerate: bool,
    ) -> Result<u64, RangeError> {
        for b in first..first + count {
            if !self.range_possible(b, tolerate) {
                return Err(RangeError::Unmovable);
            }
        }
        self.drain_all();
        let types: Vec<MigrateType> = (first..first + count)
            .map(|b| self.blocks[b as usize].mt)
            .collect();
        for b in first..first + count {
            self.isolate_block(b);
        }
        let mut moved = 0;
        for b in first..first + count {
            // Two passes: a page that was busy once may not be the second time.
            if !(self.empty_block(b, &mut moved) || self.empty_block(b, &mut moved)) {
                for (b, &mt) in (first..).zip(&types) {
                    self.unisolate_block(b, mt);
                }
                return Err(RangeError::Busy);
            }
        }
        Ok(moved)
    }

    /// Migrates every used block of `b` away; whether none is left.
    fn empty_block(&mut self, b: u32, moved: &mut u64) -> bool {
        let mut used = Vec::new();
        self.heads(b, |pfn, state| {
            if state.kind() == Kind::Used {
                used.push((pfn, state.order()));
            }
        });
        let mut empty = true;
        for (pfn, order) in used {
            if self.migrate_away(pfn) {
                *moved += 1 << order;
            } else {
                empty = false;
            }
        }
        empty
    }

    /// A look without touching anything (`has_unmovable_pages`).
    fn range_possible(&self, b: u32, tolerate: bool) -> bool {
        let block = self.blocks[b as usize];
        if block.giga || block.isolated {
            return false;
        }
        let larger = |head: u32| {
            let state = self.frames.get(head);
            state.kind() == Kind::Used && state.order() > BLOCK_ORDER
        };
        if larger(self.cover(b).unwrap_or(b << BLOCK_ORDER)) {
            return false;
        }
        if block.fixed == 0 {
            return true;
        }
        let mut possible = true;
        self.heads(b, |_, state| {
            possible &= match state.kind() {
                Kind::Fixed => tolerate,
                Kind::Used => is_movable(state.class()) || self.can_move(state),
                _ => true,
            };
        });
        possible
    }

    /// Makes one free 2 MB block in `region` by emptying the movable block with the fewest used
    /// pages among a few; its type becomes `mt`. Pages moved, or `None`.
    pub(crate) fn evacuate_one(&mut self, region: usize, mt: MigrateType) -> Option<u64> {
        let range = match region {
            HIGH => self.border >> BLOCK_ORDER..self.blocks.len() as u32,
            _ => 0..self.border >> BLOCK_ORDER,
        };
        let span = range.end - range.start;
        let mut best: Option<(u16, u32)> = None;
        for _ in 0..32.min(span) {
            let b = range.start + self.rng.below(span);
            let block = self.blocks[b as usize];
            let usable = block.mt == MigrateType::Movable
                && block.fixed == 0
                && !block.giga
                && self.cover(b).is_none();
            let order = self.frames.get(b << BLOCK_ORDER).order();
            if usable
                && order <= BLOCK_ORDER
                && block.free > 0
                && best.is_none_or(|(used, _)| block.movable < used)
            {
                best = Some((block.movable, b));
            }
        }
        let (_, b) = best?;
        let moved = self.isolate_range(b, 1, false).ok()?;
        self.unisolate_block(b, mt);
        Some(moved)
    }
}
