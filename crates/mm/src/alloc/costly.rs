// SPDX-License-Identifier: MIT OR Apache-2.0
//! The slow path of requests above `PAGE_ALLOC_COSTLY_ORDER` as Linux 6.12 has it
//! (`mm/page_alloc.c`: `__alloc_pages_slowpath`, `should_compact_retry`). One asynchronous and one
//! synchronous compaction are all that such a request gets, and neither while compaction is
//! deferred: `MIN_COMPACT_COSTLY_PRIORITY` keeps it from the priority that no deferral holds back.

use super::page::get_page;
use super::request::AllocRequest;
use crate::compact::scan::{Tried, compact_all, compact_for};
use crate::kernel::SimKernel;
use crate::policy::Policy;
use crate::psi::{RECLAIM_NS, Stall};
use crate::reclaim::shrink;
use ample_pfn::MigrateType;

/// Rounds after compactions that made a block which somebody else took
/// (`MAX_COMPACT_RETRIES` / 4).
const RETRIES: u32 = 4;
/// Rounds of reclaim that may follow each other while compaction lacks room.
const RECLAIMS: u32 = 16;
/// Times that direct reclaim goes over the lists, each time over more of them, while what it comes
/// upon has to be written first (`DEF_PRIORITY` and below, `do_try_to_free_pages`).
const PRIORITIES: u32 = 13;

/// Pages that compaction for a block needs free beside the watermark (`compact_gap`).
pub(crate) fn compact_gap(order: u32) -> u64 {
    2 << order
}

/// A block for a costly request, which has found none on the lists. One that does not retry
/// (without `__GFP_RETRY_MAYFAIL`) reclaims once.
pub(crate) fn alloc_costly(
    kernel: &mut SimKernel,
    policy: &mut dyn Policy,
    request: &AllocRequest,
    cpu: usize,
    retries: bool,
) -> Option<u32> {
    // kswapd, which the request before has woken, sleeps again; it does not get as far between
    // two attempts of one request.
    kernel.skips.forget_if_met();
    if policy.relieve(kernel, request, 0)
        && let Some(pfn) = get_page(kernel, policy, request, cpu)
    {
        return Some(pfn);
    }
    if let Some(pfn) = compacted(kernel, policy, request, cpu, false).0 {
        return Some(pfn);
    }
    let (mut successes, mut reclaims) = (0, 0);
    loop {
        let progress = reclaimed(kernel, request);
        if let Some(pfn) = get_page(kernel, policy, request, cpu) {
            return Some(pfn);
        }
        let (found, tried) = compacted(kernel, policy, request, cpu, true);
        if found.is_some() {
            return found;
        }
        let again = match tried {
            Tried::Skipped => {
                reclaims += 1;
                reclaims <= RECLAIMS
            }
            Tried::Success => {
                successes += 1;
                successes <= RETRIES
            }
            Tried::Deferred | Tried::Failed => false,
        };
        if !retries || !progress {
            return None;
        }
        if !again {
            let all = kernel.rules.compacts_all && request.migratetype() == MigrateType::Movable;
            return all.then(|| compacted_all(kernel, policy, request, cpu))?;
        }
    }
}

/// Compacts for the request; the block, and what became of the attempt.
fn compacted(
    kernel: &mut SimKernel,
    policy: &mut dyn Policy,
    request: &AllocRequest,
    cpu: usize,
    patient: bool,
) -> (Option<u32>, Tried) {
    let tried = compact_for(kernel, request.order, request.migratetype(), patient);
    let found = match tried {
        Tried::Skipped | Tried::Deferred => None,
        Tried::Success | Tried::Failed => get_page(kernel, policy, request, cpu),
    };
    if found.is_some() {
        kernel.deferral.note(request.order, true);
    }
    (found, tried)
}

/// Compacts the whole region for the request, whatever failed before and wherever compaction has
/// been (`COMPACT_PRIO_SYNC_FULL`), which the series adds for the movable region.
fn compacted_all(
    kernel: &mut SimKernel,
    policy: &mut dyn Policy,
    request: &AllocRequest,
    cpu: usize,
) -> Option<u32> {
    reclaimed(kernel, request);
    compact_all(kernel, request.order, request.migratetype());
    let found = get_page(kernel, policy, request, cpu);
    kernel.deferral.note(request.order, found.is_some());
    found
}

/// Direct reclaim: none while there is room for compaction above the high watermark
/// (`compaction_ready`), else until there is above the low one (`should_continue_reclaim`).
/// Whether that is progress.
fn reclaimed(kernel: &mut SimKernel, request: &AllocRequest) -> bool {
    let mt = request.migratetype();
    let region = kernel.route(mt)[0];
    let (marks, gap) = (kernel.watermarks.of(region), compact_gap(request.order));
    if kernel.zone.free_pages(region) >= marks.high + gap {
        return true;
    }
    let missing = (marks.low + gap).saturating_sub(kernel.zone.free_pages(region));
    let goal = missing.clamp(32, gap) as u32;
    let mut freed = 0;
    for _ in 0..PRIORITIES {
        let before = kernel.counters.dirty_passed_pages;
        let (scanned, more) = shrink::reclaim_directly(kernel, region, goal - freed);
        freed += more;
        let stall = u64::from(scanned) * RECLAIM_NS;
        kernel.psi.stall(Stall::of(mt), stall);
        let waits = kernel.writeback.keeps_up() && kernel.counters.dirty_passed_pages > before;
        if freed >= goal || !waits {
            break;
        }
    }
    kernel.counters.direct_reclaimed_pages += u64::from(freed);
    if freed == 0 {
        kernel.drain_all();
    }
    freed > 0
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, CostlyRequests, PolicyKind};
    use crate::server::{CompactionState, ServerModel};
    use ample_pfn::PageClass;

    /// A server of 64 MB, half of which is free, page by page.
    fn half_free(costly: CostlyRequests) -> ServerModel {
        let mut config = Config::new(PolicyKind::Linux);
        config.costly = costly;
        half_free_of(config)
    }

    fn half_free_of(mut config: Config) -> ServerModel {
        config.memory_bytes = 64 << 20;
        let mut server = ServerModel::new(&config).expect("a valid size");
        let pool = server.new_pool();
        let pages = server.free_user_pages() as u32;
        let user = crate::AllocRequest::new(PageClass::Anon);
        server.allocate(pool, &user, pages, 0);
        server.release(pool, pages / 2, 0);
        server
    }

    fn deferred(shift: u32) -> CompactionState {
        CompactionState {
            order_failed: 9,
            considered: 0,
            defer_shift: shift,
            migrate_pfn: 0,
            free_pfn: 1 << 14,
            skip_pfn: 0,
            skipped: String::new(),
        }
    }

    #[test]
    fn half_of_memory_free_makes_no_huge_page_while_compaction_is_deferred() {
        let got = |costly, state: Option<CompactionState>| {
            let mut server = half_free(costly);
            if let Some(state) = state {
                server.set_compaction(&state);
            }
            let pool = server.new_pool();
            let got = server.hugetlb_2m(pool, 4);
            server.check().expect("sound");
            got
        };
        assert_eq!(got(CostlyRequests::Kernel, Some(deferred(6))), 0);
        assert_eq!(got(CostlyRequests::Kernel, None), 4);
        assert_eq!(got(CostlyRequests::Patient, Some(deferred(6))), 4);
    }

    #[test]
    fn who_asks_again_and_again_has_memory_compacted() {
        let mut server = half_free(CostlyRequests::Kernel);
        server.set_compaction(&deferred(6));
        let pool = server.new_pool();
        let asks = (1..).find(|_| server.hugetlb_2m(pool, 1) == 1);
        // Two attempts each; the last of 64 compacts.
        assert_eq!(asks, Some(32));
    }

    #[test]
    fn blocks_that_compaction_has_seen_leave_one_request_nothing_but_not_the_next() {
        let mut server = half_free(CostlyRequests::Kernel);
        let state = CompactionState {
            skipped: "f".repeat(8),
            ..deferred(0)
        };
        server.set_compaction(&state);
        let pool = server.new_pool();
        assert_eq!(server.hugetlb_2m(pool, 4), 0);
        // The scanners have met: kswapd forgets the marks when it sleeps. The failure defers the
        // first attempt of the next request, not its second.
        assert_eq!(server.hugetlb_2m(pool, 4), 4);
    }

    #[test]
    fn above_a_border_all_memory_is_compacted_before_a_request_that_retries_fails() {
        let mut server = half_free_of(Config::new(PolicyKind::Contiguitas));
        server.set_compaction(&CompactionState {
            skipped: "f".repeat(8),
            ..deferred(6)
        });
        let pool = server.new_pool();
        assert_eq!(server.hugetlb_2m(pool, 4), 4);
        server.check().expect("sound");
    }

    #[test]
    fn khugepaged_does_without_compaction_while_that_is_deferred() {
        let collapses = |state| {
            let mut server = half_free(CostlyRequests::Kernel);
            let pool = server.new_pool();
            let user = crate::AllocRequest::new(PageClass::Anon);
            server.allocate(pool, &user, 1024, 0);
            server.set_compaction(&state);
            server.collapse(pool, 0)
        };
        assert!(!collapses(deferred(6)));
        assert!(collapses(deferred(0)));
    }
}
