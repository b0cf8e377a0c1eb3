// SPDX-License-Identifier: MIT OR Apache-2.0
//! kswapd: reclaim in the background, from the low watermark up to the high one
//! (`mm/vmscan.c`, 6.12: `balance_pgdat`).

use super::shrink::reclaim;
use crate::kernel::SimKernel;
use crate::memory::PCP_BATCH;
use crate::psi::RECLAIM_NS;

/// Pages that one step frees.
const STEP_PAGES: u32 = 2 * PCP_BATCH;

/// A step of kswapd, which runs while the task allocates: frees a few pages when awake, and
/// sleeps again above the high watermark (plus the boost after a block was claimed).
pub(crate) fn step(kernel: &mut SimKernel, region: usize) {
    let free = kernel.zone.free_pages(region);
    if let Some(boosted) = kernel.watermarks.try_sleep(region, free) {
        kernel.kcompactd.wake_after_kswapd(boosted);
        return;
    }
    // Reclaim cannot help the unmovable region except through shrinkers; the resizer, which
    // shares the wake-up, does the rest.
    let gap = kernel.watermarks.take_gap();
    let (_, freed) = reclaim(kernel, region, gap.max(STEP_PAGES));
    kernel.counters.kswapd_reclaimed_pages += u64::from(freed);
}

/// kswapd on its own, between allocations: as far as it gets in `elapsed_ns`.
pub(crate) fn run(kernel: &mut SimKernel, region: usize, elapsed_ns: u64) {
    let steps = elapsed_ns / (u64::from(STEP_PAGES) * RECLAIM_NS) + 1;
    for _ in 0..steps {
        let before = kernel.zone.free_pages(region);
        if !kernel.watermarks.is_awake(region) {
            kernel.skips.forget_if_met();
            return;
        }
        step(kernel, region);
        if kernel.zone.free_pages(region) == before {
            return;
        }
    }
}
