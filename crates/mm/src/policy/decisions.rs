// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a policy decides.

use crate::alloc::fallback::claim_or_steal;
use crate::alloc::request::AllocRequest;
use crate::config::Rules;
use crate::kernel::SimKernel;
use crate::memory::FreeList;

/// The decisions in which memory managers differ. The defaults are those of
/// stock Linux: no border, no background work, pages pinned where they lie.
pub(crate) trait Policy: std::fmt::Debug + Send {
    /// What the shared code must know.
    fn rules(&self) -> Rules {
        Rules::default()
    }

    /// Draws the border and types the blocks of a machine that is empty but for fixed frames,
    /// of which `boot_pages` pages of kernel memory are known to come.
    fn boot(&mut self, kernel: &mut SimKernel, _boot_pages: u64) {
        kernel.watermarks.update(&kernel.zone);
    }

    /// `list` is empty, and those of larger orders: finds a block elsewhere, or not.
    fn fallback(&mut self, kernel: &mut SimKernel, list: FreeList) -> Option<u32> {
        claim_or_steal(kernel, list)
    }

    /// A request found nothing: may make room without reclaim. `round` counts attempts.
    fn relieve(&mut self, _kernel: &mut SimKernel, _request: &AllocRequest, _round: u32) -> bool {
        false
    }

    /// Background work, once every `elapsed_ns` of simulated time.
    fn tick(&mut self, _kernel: &mut SimKernel, _elapsed_ns: u64) {}

    /// Whether a page at `pfn` must move before it may be pinned for long.
    fn must_move_to_pin(&self, _kernel: &SimKernel, _pfn: u32) -> bool {
        false
    }

    /// A block to move a page to that is about to be pinned.
    fn pin_target(&mut self, _kernel: &mut SimKernel) -> Option<u32> {
        None
    }
}
