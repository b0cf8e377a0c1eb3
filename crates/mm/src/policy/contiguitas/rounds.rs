// SPDX-License-Identifier: MIT OR Apache-2.0
//! The resizer of the kernel series (`kernel/src/mm/contiguitas_resizer.c`): what it remembers
//! from one round to the next. Each decision is a function of the shared header, and a test puts
//! those that a kernel has recorded through the same methods.

use super::super::policy_ffi::{self, KernelTimes, ResizeParams, ResizeState};
use super::Contiguitas;
use crate::config::Mechanisms;
use crate::kernel::SimKernel;
use crate::memory::{BLOCK_PAGES, HIGH, LOW};

/// Blocks that a round for a waiting request moves the border by: a step of the kernel, 16 MB.
pub(super) const URGENT_BLOCKS: u32 = 8;
/// Pages of the largest buddy block, which the kernel adds to the low mark.
const CHUNK_PAGES: u64 = 1024;

/// Where a round wants the border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    /// Size of the region, in pages.
    pub(super) target_pages: u64,
    /// Size it may have for who waits, in pages; 0 if nobody does.
    pub(super) limit_pages: u64,
}

/// Parameters of the kernel's resizer, and its memory.
#[derive(Debug)]
pub(super) struct Rounds {
    params: ResizeParams,
    /// The kernel's own rules hold beside Algorithm 1 (`ctg_review_pages`).
    reviews: bool,
    times: KernelTimes,
    initial_pages: u64,
    max_pages: u64,
    /// The last growth had to gain room at once.
    hard: bool,
    expand_failures: u32,
    shrink_failures: u32,
    expand_after_ns: u64,
    shrink_after_ns: u64,
    beyond_after_ns: u64,
    review_at_ns: u64,
}

fn ns(ms: u32) -> u64 {
    u64::from(ms) * 1_000_000
}

/// Weights and thresholds under which Algorithm 1 asks for nothing: what is left of
/// `ctg_target_pages` is the low watermark.
fn watermark_alone() -> ResizeParams {
    ResizeParams {
        threshold_unmov_bp: u32::MAX,
        threshold_mov_bp: u32::MAX,
        c_ue_milli: 0,
        c_me_milli: 0,
        c_us_milli: 0,
        c_ms_milli: 0,
    }
}

impl Rounds {
    pub(super) fn new(on: &Mechanisms) -> Rounds {
        Rounds {
            params: match on.algorithm1 {
                true => ResizeParams::kernel(),
                false => watermark_alone(),
            },
            reviews: on.review,
            times: KernelTimes::get(),
            initial_pages: 0,
            max_pages: 0,
            hard: false,
            expand_failures: 0,
            shrink_failures: 0,
            expand_after_ns: 0,
            shrink_after_ns: 0,
            beyond_after_ns: 0,
            review_at_ns: 0,
        }
    }

    /// A region of `initial_pages` on a node of `node_pages`.
    pub(super) fn begin(&mut self, node_pages: u64, initial_pages: u64) {
        self.initial_pages = initial_pages;
        self.max_pages = policy_ffi::max_pages(node_pages, initial_pages, u64::from(BLOCK_PAGES));
    }

    /// What the kernel takes for bounds and low mark: half of what the region was at boot, a
    /// quarter of the node, and as much free
    /// memory below the border as stock Linux keeps in the whole node.
    pub(super) fn put_bounds(&self, kernel: &SimKernel, state: &mut ResizeState) {
        state.min_pages = (self.initial_pages / 2).next_multiple_of(state.block_pages);
        state.max_pages = self.max_pages;
        state.unmov_low_wmark_pages =
            CHUNK_PAGES + kernel.watermarks.of(LOW).low + kernel.watermarks.of(HIGH).low;
    }

    /// Is there a reason for a round that nobody waits for?
    fn is_due(&self, kernel: &SimKernel, state: &ResizeState) -> bool {
        let woken = [LOW, HIGH]
            .iter()
            .any(|&side| kernel.watermarks.is_awake(side));
        let larger = state.unmov_pages > self.initial_pages;
        woken
            || state.unmov_free_pages < state.unmov_low_wmark_pages
            || larger && kernel.now_ns >= self.review_at_ns
    }

    fn decide(&mut self, state: &ResizeState, urgent: bool, now_ns: u64) -> Decision {
        let limit_pages = match urgent {
            true => policy_ffi::limit_pages(state, now_ns >= self.beyond_after_ns),
            false => 0,
        };
        if limit_pages > state.unmov_pages.max(state.max_pages) {
            self.beyond_after_ns = now_ns + ns(self.times.beyond_ms);
        }
        self.review_at_ns = now_ns + ns(self.times.review_ms);
        let target_pages = match self.reviews {
            true => policy_ffi::round_pages(&self.params, state, urgent, limit_pages),
            false => self.unreviewed_pages(state, limit_pages),
        };
        Decision {
            target_pages,
            limit_pages,
        }
    }

    /// What Algorithm 1 gives, and a block up to `limit_pages` for who waits.
    fn unreviewed_pages(&self, state: &ResizeState, limit_pages: u64) -> u64 {
        let next = (state.unmov_pages + state.block_pages).min(limit_pages);
        policy_ffi::target_pages(&self.params, state).max(next)
    }

    /// Does the back-off after a failed growth hold this one?
    fn is_held(&self, state: &ResizeState, urgent: bool, now_ns: u64) -> bool {
        let waits = now_ns < self.expand_after_ns;
        policy_ffi::backed_off(policy_ffi::must(state, urgent), self.hard, waits)
    }

    /// Pages of the next step of a growth; 0 ends it. Without the review all is one step.
    fn step(&mut self, state: &ResizeState, urgent: bool, target: u64, wanted: u64) -> u64 {
        self.hard = policy_ffi::must(state, urgent);
        if !self.reviews {
            return target.saturating_sub(state.unmov_pages);
        }
        policy_ffi::step_pages(state, target, wanted, self.hard)
    }

    fn back_off_ns(&self, failures: u32) -> u64 {
        let times = &self.times;
        ns(policy_ffi::backoff_ms(
            failures,
            times.backoff_ms,
            times.backoff_cap_ms,
        ))
    }

    fn grew(&mut self, done: bool, now_ns: u64) {
        self.expand_failures = if done { 0 } else { self.expand_failures + 1 };
        self.expand_after_ns = now_ns + self.back_off_ns(self.expand_failures);
    }

    fn shrank(&mut self, done: bool, now_ns: u64) {
        self.shrink_failures = if done { 0 } else { self.shrink_failures + 1 };
        self.shrink_after_ns = now_ns + self.back_off_ns(self.shrink_failures);
    }
}

impl Contiguitas {
    /// The kernel's resizer when nobody waits for it; `most` blocks.
    pub(super) fn review_round(&mut self, kernel: &mut SimKernel, most: u32) {
        let state = self.state(kernel);
        if self.rounds.is_due(kernel, &state) {
            self.round(kernel, false, most);
        }
    }

    /// A round of the kernel's resizer that moves the border by `most` blocks, for who waits if
    /// `urgent`. Blocks it went up by and pages moved for that.
    pub(super) fn round(&mut self, kernel: &mut SimKernel, urgent: bool, most: u32) -> (u32, u64) {
        let (state, now_ns) = (self.state(kernel), kernel.now_ns);
        let decision = self.rounds.decide(&state, urgent, now_ns);
        let (now, target) = (state.unmov_pages, decision.target_pages);
        if target > now {
            if !self.rounds.is_held(&state, urgent, now_ns) {
                let (done, taken, moved) = self.grow_in_steps(kernel, urgent, target, most);
                self.rounds.grew(done, now_ns);
                return (taken, moved);
            }
        } else if target < now && now_ns >= self.rounds.shrink_after_ns {
            let count = ((now - target) / u64::from(BLOCK_PAGES)).min(most.into()) as u32;
            let given = self.shrink(kernel, count);
            self.rounds.shrank(given == count, now_ns);
        }
        (0, 0)
    }

    /// Grows to `target` pages by `most` blocks, with a look after each step. Whether that went
    /// well, blocks taken and pages moved.
    fn grow_in_steps(
        &mut self,
        kernel: &mut SimKernel,
        mut urgent: bool,
        target: u64,
        most: u32,
    ) -> (bool, u32, u64) {
        let wanted = target - kernel.zone.region_pages(LOW);
        let (mut taken, mut moved) = (0, 0);
        while taken < most {
            let state = self.state(kernel);
            let pages = self.rounds.step(&state, urgent, target, wanted);
            let step = ((pages / u64::from(BLOCK_PAGES)) as u32).min(most - taken);
            if step == 0 {
                let reached = state.unmov_pages >= target;
                let enough = state.unmov_free_pages >= policy_ffi::enough_pages(&state);
                return (reached || enough, taken, moved);
            }
            let (gained, carried) = self.expand(kernel, step);
            taken += gained;
            moved += carried;
            if gained < step {
                return (false, taken, moved);
            }
            // Who waited is served by the first step.
            urgent = false;
        }
        (true, taken, moved)
    }
}

#[cfg(test)]
mod tests;
