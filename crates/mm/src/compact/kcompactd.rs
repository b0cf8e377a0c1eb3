// SPDX-License-Identifier: MIT OR Apache-2.0
//! kcompactd: compaction in the background, on request and ahead of it (`mm/compaction.c`,
//! 6.12: `kcompactd_do_work`, `proactive_compact_node`).

use super::scan::{Compaction, Goal, compact, compact_on, fragmentation_score};
use super::state::{Round, Scanners};
use crate::config::CostlyRequests;
use crate::kernel::SimKernel;
use crate::memory::HIGH;
use ample_pfn::MigrateType;

/// Scores at which compaction ahead of requests ends and begins, in per cent
/// (`fragmentation_score_wmark`): 80 and 90 by default.
fn score_marks(kernel: &SimKernel) -> (u64, u64) {
    let proactiveness = kernel.rules.tuning.compaction_proactiveness;
    let low = 100u64.saturating_sub(proactiveness).max(5);
    (low, (low + 10).min(100))
}
/// Pause after a round that did not lower the score: 500 ms, 2^6 times.
const PROACTIVE_PAUSE_NS: u64 = 500_000_000 << 6;

/// kcompactd for `elapsed_ns`, of which it uses one processor's time at most.
pub(crate) fn run(kernel: &mut SimKernel, elapsed_ns: u64) {
    let spent = compact_on_request(kernel, elapsed_ns);
    compact_ahead(kernel, elapsed_ns.saturating_sub(spent));
}

/// Works for the order it was woken with, unless that is deferred; time spent.
fn compact_on_request(kernel: &mut SimKernel, budget_ns: u64) -> u64 {
    let order = kernel.kcompactd.order;
    // It compacts for GFP_KERNEL.
    let mt = MigrateType::Unmovable;
    if order == 0 {
        return 0;
    }
    let there = kernel.zone.area(HIGH).orders(mt) >> order != 0;
    if there || kernel.deferral.defers(order) {
        kernel.kcompactd.order = 0;
        return 0;
    }
    let enough = |done: &Compaction| done.cost_ns() >= budget_ns;
    let done = compact_on(kernel, Goal::Block(order, mt), enough);
    if done.success || done.complete {
        match done.success && kernel.rules.costly == CostlyRequests::Kernel {
            true => kernel.deferral.made(order),
            false => kernel.deferral.note(order, done.success),
        }
        kernel.kcompactd.order = 0;
    }
    done.cost_ns()
}

/// Works ahead of requests while too little of the free memory is in whole blocks.
fn compact_ahead(kernel: &mut SimKernel, budget_ns: u64) {
    if kernel.now_ns < kernel.kcompactd.not_before_ns || budget_ns == 0 {
        return;
    }
    let (score, (low, high)) = (fragmentation_score(kernel), score_marks(kernel));
    let mut round = match kernel.kcompactd.round {
        Some(round) => round,
        None if score <= high => return,
        None => Round {
            scanners: Scanners::apart(&kernel.zone),
            score,
        },
    };
    let enough = |done: &Compaction| done.cost_ns() >= budget_ns;
    let goal = Goal::Score(low);
    let done = compact(kernel, goal, &mut round.scanners, enough);
    kernel.kcompactd.round = Some(round);
    if done.success || done.complete {
        kernel.kcompactd.round = None;
        if fragmentation_score(kernel) >= round.score {
            kernel.kcompactd.not_before_ns = kernel.now_ns + PROACTIVE_PAUSE_NS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, PolicyKind};
    use crate::{AllocRequest, ServerModel};
    use ample_pfn::PageClass;

    fn server() -> ServerModel {
        let mut config = Config::new(PolicyKind::Linux);
        config.memory_bytes = 64 << 20;
        ServerModel::new(&config).expect("a valid size")
    }

    #[test]
    fn scattered_free_memory_is_gathered_without_a_request() {
        let mut server = server();
        let pool = server.new_pool();
        let pages = server.kernel.zone.free_pages(HIGH) as u32;
        server.allocate(pool, &AllocRequest::new(PageClass::Anon), pages, 0);
        server.release(pool, pages / 8, 0);
        server.kernel.drain_all();
        assert!(fragmentation_score(&server.kernel) > 90);
        server.tick(1_000_000_000);
        assert!(fragmentation_score(&server.kernel) <= 80);
        server.check().expect("sound");
    }

    #[test]
    fn more_proactiveness_gathers_more() {
        let score = |compaction_proactiveness| {
            let mut config = Config::new(PolicyKind::Linux);
            config.memory_bytes = 64 << 20;
            config.tuning.compaction_proactiveness = compaction_proactiveness;
            let mut server = ServerModel::new(&config).expect("a valid size");
            let pool = server.new_pool();
            let pages = server.kernel.zone.free_pages(HIGH) as u32;
            server.allocate(pool, &AllocRequest::new(PageClass::Anon), pages, 0);
            server.release(pool, pages / 2, 0);
            server.kernel.drain_all();
            server.tick(1_000_000_000);
            fragmentation_score(&server.kernel)
        };
        assert!(score(100) < score(20), "{} and {}", score(100), score(20));
    }

    #[test]
    fn a_round_that_gains_nothing_is_followed_by_a_pause() {
        let mut server = server();
        let pool = server.new_pool();
        let pages = server.kernel.zone.free_pages(HIGH) as u32;
        server.allocate(pool, &AllocRequest::new(PageClass::Slab), pages, 0);
        server.release(pool, pages / 8, 0);
        server.kernel.drain_all();
        let second = 1_000_000_000;
        server.tick(second);
        assert_eq!(
            server.kernel.kcompactd.not_before_ns,
            second + PROACTIVE_PAUSE_NS
        );
    }

    #[test]
    fn kswapd_once_awake_frees_up_to_the_high_watermark_and_wakes_kcompactd() {
        let mut server = server();
        let marks = server.kernel.watermarks.of(HIGH);
        let pages = server.kernel.zone.free_pages(HIGH) - marks.low + 1;
        server.read_cache(PageClass::File, pages as u32, 0);
        server.kernel.watermarks.wake(HIGH);
        server.kernel.kcompactd.note_request(3);
        server.tick(1_000_000_000);
        assert!(server.kernel.zone.free_pages(HIGH) >= marks.high);
        assert!(!server.kernel.watermarks.is_awake(HIGH));
        assert_eq!(server.kernel.kcompactd.requested, 0);
    }
}
