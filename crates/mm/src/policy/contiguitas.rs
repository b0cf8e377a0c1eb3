// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contiguitas (ISCA 2023, §3.2): unmovable pages below a border, movable ones above it, and a
//! resizer that moves the border. With hardware support (§3.3) the region below is itself
//! defragmented.

mod rounds;

use self::rounds::{Rounds, URGENT_BLOCKS};
use super::decisions::Policy;
use super::policy_ffi::{self, ResizeState};
use crate::alloc::fallback::claim_whole_block;
use crate::alloc::request::AllocRequest;
use crate::compact::range::{RangeError, isolate_range};
use crate::config::{Mechanisms, PolicyConfig, PolicyKind, Resizer, Rules};
use crate::kernel::SimKernel;
use crate::memory::{BLOCK_ORDER, BLOCK_PAGES, FrameKind, FreeList, HIGH, LOW, Zone};
use crate::psi::{MIGRATE_NS, SCAN_BLOCK_NS, Stall};
use crate::reclaim::shrink;
use ample_pfn::{MigrateType, is_movable};

/// Blocks that one expansion on behalf of a waiting request moves the border by.
const RELIEF_BLOCKS: u32 = 4;
/// Blocks the resizer moves the border by in a second at most: 512 MB.
const BLOCKS_PER_SECOND: u32 = 256;
/// Back-off of the resizer after failures, in milliseconds.
const BACKOFF_BASE_MS: u32 = 500;
const BACKOFF_CAP_MS: u32 = 60_000;
/// Time between two decisions to shrink, in ns: PSI averages over ten seconds.
const SHRINK_PERIOD_NS: u64 = 10_000_000_000;
/// Pages the hardware migrates in a second (§5.3 "Regular" and "Very High": 100 and 1000).
const HW_PAGES_PER_SECOND: u64 = 1000;

#[derive(Debug)]
pub(crate) struct Contiguitas {
    config: PolicyConfig,
    hw: bool,
    failures: u32,
    not_before_ns: u64,
    next_shrink_ns: u64,
    rounds: Rounds,
}

impl Contiguitas {
    pub(crate) fn new(config: &PolicyConfig) -> Contiguitas {
        Contiguitas {
            hw: config.kind == PolicyKind::ContiguitasHw,
            config: config.clone(),
            failures: 0,
            not_before_ns: 0,
            next_shrink_ns: 0,
            rounds: Rounds::new(&config.mechanisms),
        }
    }

    fn on(&self) -> &Mechanisms {
        &self.config.mechanisms
    }

    /// Whether the kernel's resizer moves the border.
    fn by_rounds(&self) -> bool {
        self.config.resizer == Resizer::Kernel
    }

    /// What the resizer knows when it decides.
    fn state(&self, kernel: &SimKernel) -> ResizeState {
        let merged = !self.on().per_region_pressure;
        let mut state = ResizeState {
            node_pages: u64::from(kernel.zone.frames().len()),
            unmov_pages: kernel.zone.region_pages(LOW),
            unmov_free_pages: kernel.zone.free_pages(LOW) + kernel.cpus.pages(LOW),
            mov_free_pages: kernel.zone.free_pages(HIGH),
            unmov_low_wmark_pages: self.low_mark(kernel),
            mov_low_wmark_pages: kernel.watermarks.of(HIGH).low,
            min_pages: u64::from(BLOCK_PAGES),
            max_pages: u64::from(kernel.zone.frames().len()) / 2,
            block_pages: u64::from(BLOCK_PAGES),
            pressure_unmov_bp: kernel.psi.pressure_bp(Stall::Unmovable, merged),
            pressure_mov_bp: kernel.psi.pressure_bp(Stall::Movable, merged),
        };
        if self.by_rounds() {
            self.rounds.put_bounds(kernel, &mut state);
        }
        state
    }

    fn decide(&self, state: &ResizeState) -> u64 {
        match (self.on().algorithm1, self.on().review) {
            (true, true) => policy_ffi::review_pages(&self.config.resize, state),
            (true, false) => policy_ffi::target_pages(&self.config.resize, state),
            (false, _) => watermark_target(state),
        }
    }

    /// Grows to `target` pages by `count` blocks at most, and looks again after each step, as the
    /// kernel does.
    fn grow(&mut self, kernel: &mut SimKernel, target: u64, mut count: u32) {
        let wanted = target - kernel.zone.region_pages(LOW);
        if !self.on().review {
            self.expand(kernel, count.min((wanted / u64::from(BLOCK_PAGES)) as u32));
            return;
        }
        while count > 0 {
            let state = self.state(kernel);
            let must = policy_ffi::must(&state, false);
            let pages = policy_ffi::step_pages(&state, target, wanted, must);
            let step = count.min((pages / u64::from(BLOCK_PAGES)) as u32);
            if step == 0 || self.expand(kernel, step).0 < step {
                break;
            }
            count -= step;
        }
    }

    /// The resizer's own low watermark: 3 % of the region, so that a burst of atomic requests
    /// meets free pages until the resizer has run. On a machine whose watermarks are known, at
    /// least a block more than the low one of its zones, as in the kernel (`ctg_read_state`).
    fn low_mark(&self, kernel: &SimKernel) -> u64 {
        let most = u64::from(kernel.zone.frames().len()) / 4;
        let machine = kernel.watermarks.machine_low_pages();
        let least = machine.map_or(0, |low| low.min(most) + u64::from(BLOCK_PAGES));
        let own = kernel.watermarks.of(LOW).low;
        (kernel.zone.region_pages(LOW) / 32).max(own).max(least)
    }

    /// Moves the border up by `count` blocks at most. Blocks taken and pages moved.
    fn expand(&mut self, kernel: &mut SimKernel, count: u32) -> (u32, u64) {
        let (mut taken, mut moved) = (0, 0);
        // Half of memory at most, as in `max_pages`; the kernel has its bounds in its decisions.
        let top = kernel.zone.block_count() / if self.by_rounds() { 1 } else { 2 };
        for _ in 0..count {
            let b = kernel.zone.border_block();
            if b + 1 >= top {
                break;
            }
            make_places(kernel, b);
            match isolate_range(kernel, b, 1, true) {
                Ok(pages) => moved += pages,
                Err(_) => {
                    kernel.counters.failed_resizes += 1;
                    self.failures += 1;
                    break;
                }
            }
            kernel.zone.set_border(kernel.zone.border() + BLOCK_PAGES);
            kernel.zone.unisolate_block(b, MigrateType::Unmovable);
            kernel.counters.border_expanded_blocks += 1;
            taken += 1;
        }
        if taken > 0 {
            self.failures = 0;
            kernel.watermarks.update(&kernel.zone);
        }
        (taken, moved)
    }

    /// Moves the border down by up to `count` blocks, as far as they are empty or, with
    /// hardware, can be emptied.
    fn shrink(&mut self, kernel: &mut SimKernel, count: u32) -> u32 {
        let mut given = 0;
        kernel.drain_all();
        for _ in 0..count {
            if kernel.zone.border() <= BLOCK_PAGES {
                break;
            }
            let b = kernel.zone.border_block() - 1;
            let block = kernel.zone.block(b);
            let empty = block.fixed == 0 && block.movable == 0;
            if !(empty || self.hw) || isolate_range(kernel, b, 1, false).is_err() {
                kernel.counters.failed_resizes += 1;
                self.failures += 1;
                break;
            }
            kernel.zone.set_border(kernel.zone.border() - BLOCK_PAGES);
            kernel.zone.unisolate_block(b, MigrateType::Movable);
            kernel.counters.border_shrunk_blocks += 1;
            given += 1;
        }
        if given > 0 {
            self.failures = 0;
            kernel.watermarks.update(&kernel.zone);
        }
        given
    }

    /// Moves the border up for a request that waits. Blocks taken and pages moved.
    fn make_room(&mut self, kernel: &mut SimKernel) -> (u32, u64) {
        if self.by_rounds() {
            self.round(kernel, true, URGENT_BLOCKS)
        } else {
            self.expand(kernel, RELIEF_BLOCKS)
        }
    }

    fn back_off(&mut self, kernel: &SimKernel) {
        let wait = policy_ffi::backoff_ms(self.failures, BACKOFF_BASE_MS, BACKOFF_CAP_MS);
        self.not_before_ns = kernel.now_ns + u64::from(wait) * 1_000_000;
    }

    /// §3.3: the hardware moves pages from sparse blocks near the border into the free pages of
    /// blocks further away, so that the border can come down.
    fn defragment(&mut self, kernel: &mut SimKernel, elapsed_ns: u64) {
        let mut budget = HW_PAGES_PER_SECOND * elapsed_ns / 1_000_000_000;
        let mut b = kernel.zone.border_block();
        // Only while the free pages of the region exceed what it must keep.
        let keep = 2 * self.low_mark(kernel) + u64::from(BLOCK_PAGES);
        while b > 1 && budget > 0 && kernel.zone.free_pages(LOW) > keep {
            b -= 1;
            let used = u64::from(kernel.zone.block(b).fixed);
            if used == 0 {
                continue;
            }
            if used > budget {
                break;
            }
            match isolate_range(kernel, b, 1, false) {
                Ok(moved) => {
                    kernel.zone.unisolate_block(b, MigrateType::Unmovable);
                    budget -= moved.min(budget);
                }
                // It holds a page that the hardware does not move: the blocks behind it may not.
                Err(RangeError::Unmovable) => {}
                Err(RangeError::Busy) => break,
            }
        }
    }
}

/// Reclaims user memory until the movable pages of block `b` have places elsewhere, as migrations
/// on behalf of `alloc_contig_range(GFP_KERNEL)` do.
fn make_places(kernel: &mut SimKernel, b: u32) {
    let block = kernel.zone.block(b);
    if block.movable == 0 {
        return;
    }
    let needed = u64::from(block.movable) + u64::from(block.free) + kernel.watermarks.of(HIGH).min;
    let missing = needed.saturating_sub(kernel.zone.free_pages(HIGH));
    if missing > 0 {
        shrink::reclaim_directly(kernel, HIGH, missing as u32);
    }
}

/// What resizing by watermarks alone would do: a sixteenth up when low, a sixteenth down when
/// a quarter is free.
fn watermark_target(s: &ResizeState) -> u64 {
    let step = (s.unmov_pages / 16).next_multiple_of(s.block_pages);
    if s.unmov_free_pages < s.unmov_low_wmark_pages {
        (s.unmov_pages + step).min(s.max_pages)
    } else if s.unmov_free_pages > s.unmov_pages / 4 {
        s.unmov_pages.saturating_sub(step).max(s.min_pages)
    } else {
        s.unmov_pages
    }
}

impl Policy for Contiguitas {
    fn rules(&self) -> Rules {
        Rules {
            route: [&[LOW], &[HIGH], &[LOW]],
            one_type_low: true,
            banded: self.on().placement_bias,
            mixing: false,
            giga_from_top: true,
            compacts_all: true,
            hw_moves: self.hw.then_some(self.config.hw_classes),
            reclaims_node: !self.on().expand_before_reclaim,
            ..Rules::default()
        }
    }

    fn boot(&mut self, kernel: &mut SimKernel, boot_pages: u64) {
        let all = u64::from(kernel.zone.frames().len());
        let block = u64::from(BLOCK_PAGES);
        let initial = policy_ffi::initial_pages(all, boot_pages, block);
        let configured = (all as f64 * self.config.low_region_ratio) as u64 / block * block;
        let border = initial.max(configured).min(all / 2 / block * block);
        self.rounds.begin(all, border);
        kernel.set_border(border as u32);
        for b in 0..kernel.zone.border_block() {
            kernel.zone.set_type(b, MigrateType::Unmovable);
        }
    }

    fn fallback(&mut self, kernel: &mut SimKernel, list: FreeList) -> Option<u32> {
        // Blocks above the border are all movable, those below all unmovable: there is no
        // other list to take from.
        debug_assert!(list.region == LOW || list.mt == MigrateType::Movable);
        claim_whole_block(kernel, list)
    }

    fn relieve(&mut self, kernel: &mut SimKernel, request: &AllocRequest, round: u32) -> bool {
        if MigrateType::of(request.class) == MigrateType::Movable || !self.on().resize {
            return false;
        }
        if request.atomic {
            if !self.on().emergency_claim {
                return false;
            }
            let b = kernel.zone.border_block();
            let free = b < kernel.zone.block_count() && kernel.zone.block(b).is_free();
            if !free || self.expand(kernel, 1).0 == 0 {
                return false;
            }
            kernel.counters.emergency_claims += 1;
            return true;
        }
        if request.light || !self.on().expand_before_reclaim && round < 3 {
            return false;
        }
        let (taken, moved) = self.make_room(kernel);
        let ns = u64::from(taken) * SCAN_BLOCK_NS + moved * MIGRATE_NS;
        kernel.psi.stall(Stall::Unmovable, ns);
        taken > 0
    }

    fn tick(&mut self, kernel: &mut SimKernel, elapsed_ns: u64) {
        if self.hw {
            self.defragment(kernel, elapsed_ns);
        }
        if !self.on().resize || kernel.now_ns < self.not_before_ns {
            return;
        }
        let cap = u64::from(BLOCKS_PER_SECOND) * elapsed_ns.max(1) / 1_000_000_000;
        if self.by_rounds() {
            self.review_round(kernel, cap.max(1) as u32);
            return;
        }
        let state = self.state(kernel);
        let (now, target) = (state.unmov_pages, self.decide(&state));
        if target > now {
            self.grow(kernel, target, cap.max(1) as u32);
            self.back_off(kernel);
        } else if target < now && kernel.now_ns >= self.next_shrink_ns {
            self.next_shrink_ns = kernel.now_ns + SHRINK_PERIOD_NS;
            let count = (now - target) / u64::from(BLOCK_PAGES);
            self.shrink(kernel, count.min(cap.max(1)) as u32);
            self.failures = self.failures.min(1);
        }
    }

    fn must_move_to_pin(&self, kernel: &SimKernel, pfn: u32) -> bool {
        self.on().migrate_before_pin && kernel.zone.region(pfn) == HIGH
    }

    fn pin_target(&mut self, kernel: &mut SimKernel) -> Option<u32> {
        // Pages that come from the movable region are short-lived: nearest to the border.
        let list = FreeList::single(LOW, MigrateType::Unmovable);
        for _ in 0..2 {
            if let Some(pfn) = kernel.zone.take_from(list, true) {
                return Some(pfn);
            }
            if !self.on().resize || self.make_room(kernel).0 == 0 {
                break;
            }
        }
        None
    }
}

/// Whether every block respects the border: nothing unmovable above, nothing movable below.
/// Frames that never were the allocator's are exempt. The first offending frame, if any.
pub(crate) fn border_violation(zone: &Zone) -> Option<u32> {
    (0..zone.block_count()).find_map(|b| {
        let low = b < zone.border_block();
        let wrong = zone.heads_where(b, |state| {
            state.kind() == FrameKind::Used && is_movable(state.class()) == low
        });
        let wrong_type = (zone.block(b).mt == MigrateType::Movable) == low;
        let first = wrong.first().map(|&(pfn, _)| pfn);
        first.or(wrong_type.then_some(b << BLOCK_ORDER))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::server::ServerModel;
    use ample_pfn::PageClass;

    #[test]
    fn a_growth_is_looked_at_again_after_16_mb() {
        let mut state = ResizeState {
            block_pages: 512,
            unmov_pages: 8192,
            ..Default::default()
        };
        state.mov_free_pages = 1 << 16;
        state.unmov_low_wmark_pages = 1024;
        let step = |state: &ResizeState| {
            let must = policy_ffi::must(state, false);
            policy_ffi::step_pages(state, 8192 + 16384, 16384, must)
        };
        assert_eq!(step(&state), 4096);
        state.unmov_free_pages = 16384 + 1536;
        assert_eq!(step(&state), 0);
    }

    /// Page cache fills all that is above the border, and goes where the region needs its place.
    #[test]
    fn the_border_moves_into_full_memory() {
        let mut config = Config::new(PolicyKind::Contiguitas);
        config.memory_bytes = 256 << 20;
        let mut server = ServerModel::new(&config).expect("a size");
        let pages = server.free_user_pages() as u32;
        server.read_cache(PageClass::File, pages + 4096, 0);
        let pool = server.new_pool();
        let wanted = server.kernel.zone.free_pages(LOW) as u32 + 8192;
        let request = AllocRequest::new(PageClass::Network);
        assert_eq!(server.allocate(pool, &request, wanted, 0), wanted);
        server.check().expect("confined");
    }
}
