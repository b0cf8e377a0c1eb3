// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happened during a run, as plain counts.

use serde::{Deserialize, Serialize};

/// Event counts since the server started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Allocations that succeeded (of any order).
    pub allocs: u64,
    /// Blocks freed, of any order.
    pub frees: u64,
    /// Allocations that failed for good: kernel memory.
    pub failed_unmovable: u64,
    /// Allocations that failed for good: user memory and page cache.
    pub failed_movable: u64,
    /// Whole pageblocks that changed owner in a fallback.
    pub blocks_claimed: u64,
    /// Pages taken out of a block of another type without claiming it.
    pub pages_stolen: u64,
    /// Pages reclaimed by kswapd.
    pub kswapd_reclaimed_pages: u64,
    /// Pages reclaimed by allocating tasks.
    pub direct_reclaimed_pages: u64,
    /// Slab pages freed by shrinkers.
    pub slab_shrunk_pages: u64,
    /// Pages of user memory that reclaim wrote to swap.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub swapped_pages: u64,
    /// Pages of swap read back.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub swapped_in_pages: u64,
    /// Dirty pages that reclaim passed by.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dirty_passed_pages: u64,
    /// Reads of page cache that had been evicted.
    pub refaults: u64,
    /// Pages migrated by software.
    pub migrated_pages: u64,
    /// Pages migrated by the hardware of Contiguitas-HW.
    pub hw_migrated_pages: u64,
    /// Migrations that failed (pinned, busy, no room).
    pub failed_migrations: u64,
    /// Direct compactions.
    pub compact_stalls: u64,
    /// Direct compactions that made the page.
    pub compact_success: u64,
    /// 2 MB pages given to page faults.
    pub thp_faults: u64,
    /// Page faults that fell back to 4 KB.
    pub thp_fallbacks: u64,
    /// 2 MB pages made by khugepaged.
    pub thp_collapses: u64,
    /// 2 MB pages split.
    pub thp_splits: u64,
    /// Long-term pins taken.
    pub long_pins: u64,
    /// Long-term pins for which the page was migrated first.
    pub pin_migrations: u64,
    /// Long-term pins refused for want of a place to migrate to.
    pub failed_pins: u64,
    /// Pageblocks the border moved up by.
    pub border_expanded_blocks: u64,
    /// Pageblocks the border moved down by.
    pub border_shrunk_blocks: u64,
    /// Attempts to move the border that failed.
    pub failed_resizes: u64,
    /// Blocks claimed at the border on behalf of an atomic request.
    pub emergency_claims: u64,
    /// Processes killed for want of memory.
    pub oom_kills: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}
