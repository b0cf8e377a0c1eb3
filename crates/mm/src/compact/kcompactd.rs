// SPDX-License-Identifier: MIT OR Apache-2.0
//! kcompactd: compaction in the background, on request and ahead of it (`mm/compaction.c`,
//! 6.12: `kcompactd_do_work`, `proactive_compact_node`).

use crate::compact::{Compaction, Goal, Scanners};
use crate::core::{BLOCK_ORDER, Core, HIGH};
use ample_pfn::MigrateType;

/// Scores at which compaction ahead of requests begins and ends, in per cent, with
/// `compaction_proactiveness` at its default of 20 (`fragmentation_score_wmark`).
const SCORE_HIGH: u64 = 90;
const SCORE_LOW: u64 = 80;
/// Pause after a round that did not lower the score: 500 ms, 2^6 times.
const PROACTIVE_PAUSE_NS: u64 = 500_000_000 << 6;

/// A round of compaction ahead of requests that is under way.
#[derive(Clone, Copy, Debug)]
struct Round {
    scanners: Scanners,
    score: u64,
}

/// The state of the thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kcompactd {
    /// Largest order that a request failed to get since kswapd last slept.
    requested: u32,
    /// Order that it works for; 0 when it sleeps.
    order: u32,
    round: Option<Round>,
    not_before_ns: u64,
}

impl Kcompactd {
    /// A request of this order went into the slow path, which wakes kswapd with it.
    #[inline]
    pub(crate) fn note_request(&mut self, order: u32) {
        self.requested = self.requested.max(order);
    }

    /// kswapd falls asleep and wakes kcompactd: for whole blocks after a boost, else for what was
    /// asked of kswapd (`balance_pgdat`, `kswapd_try_to_sleep`).
    pub(crate) fn wake_after_kswapd(&mut self, boosted: bool) {
        let order = if boosted { BLOCK_ORDER } else { self.requested };
        self.order = self.order.max(order);
        self.requested = 0;
    }
}

impl Core {
    /// kcompactd for `elapsed_ns`, of which it uses one processor's time at most.
    pub(crate) fn kcompactd_run(&mut self, elapsed_ns: u64) {
        let spent = self.compact_on_request(elapsed_ns);
        self.compact_ahead(elapsed_ns.saturating_sub(spent));
    }

    /// Works for the order it was woken with, unless that is deferred; time spent.
    fn compact_on_request(&mut self, budget_ns: u64) -> u64 {
        let order = self.kcompactd.order;
        // It compacts for GFP_KERNEL.
        let mt = MigrateType::Unmovable;
        if order == 0 {
            return 0;
        }
        if self.areas[HIGH].orders(mt) >> order != 0 || self.deferral.defers(order) {
            self.kcompactd.order = 0;
            return 0;
        }
        let mut scanners = self.scanners;
        let enough = |done: &Compaction| done.cost_ns() >= budget_ns;
        let done = self.compact(Goal::Block(order, mt), &mut scanners, enough);
        self.scanners = scanners;
        if done.success || done.complete {
            self.deferral.note(order, done.success);
            self.kcompactd.order = 0;
        }
        done.cost_ns()
    }

    /// Works ahead of requests while too little of the free memory is in whole blocks.
    fn compact_ahead(&mut self, budget_ns: u64) {
        if self.now_ns < self.kcompactd.not_before_ns || budget_ns == 0 {
            return;
        }
        let score = self.fragmentation_score();
        let mut round = match self.kcompactd.round {
            Some(round) => round,
            None if score <= SCORE_HIGH => return,
            None => Round {
                scanners: self.scanners_apart(),
                score,
            },
        };
        let enough = |done: &Compaction| done.cost_ns() >= budget_ns;
        let goal = Goal::Score(SCORE_LOW);
        let done = self.compact(goal, &mut round.scanners, enough);
        self.kcompactd.round = Some(round);
        if done.success || done.complete {
            self.kcompactd.round = None;
            if self.fragmentation_score() >= round.score {
                self.kcompactd.not_before_ns = self.now_ns + PROACTIVE_PAUSE_NS;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, PolicyKind};
    use crate::{Request, Server};
    use ample_pfn::PageClass;

    fn server() -> Server {
        let mut config = Config::new(PolicyKind::Linux);
        config.memory_bytes = 64 << 20;
        Server::new(&config).expect("a valid size")
    }

    #[test]
    fn scattered_free_memory_is_gathered_without_a_request() {
        let mut server = server();
        let pool = server.new_pool();
        let pages = server.core.free_pages(HIGH) as u32;
        server.allocate(pool, &Request::new(PageClass::Anon), pages, 0);
        server.release(pool, pages / 8, 0);
        server.core.drain_all();
        assert!(server.core.fragmentation_score() > SCORE_HIGH);
        server.tick(1_000_000_000);
        assert!(server.core.fragmentation_score() <= SCORE_LOW);
        server.check().expect("sound");
    }

    #[test]
    fn a_round_that_gains_nothing_is_followed_by_a_pause() {
        let mut server = server();
        let pool = server.new_pool();
        let pages = server.core.free_pages(HIGH) as u32;
        server.allocate(pool, &Request::new(PageClass::Slab), pages, 0);
        server.release(pool, pages / 8, 0);
        server.core.drain_all();
        let second = 1_000_000_000;
        server.tick(second);
        assert_eq!(
            server.core.kcompactd.not_before_ns,
            second + PROACTIVE_PAUSE_NS
        );
    }

    #[test]
    fn kswapd_once_awake_frees_up_to_the_high_watermark_and_wakes_kcompactd() {
        let mut server = server();
        let marks = server.core.watermarks[HIGH];
        let pages = server.core.free_pages(HIGH) - marks.low + 1;
        server.read_cache(PageClass::File, pages as u32, 0);
        server.core.kswapd_awake[HIGH] = true;
        server.core.kcompactd.note_request(3);
        server.tick(1_000_000_000);
        assert!(server.core.free_pages(HIGH) >= marks.high);
        assert!(!server.core.kswapd_awake[HIGH]);
        assert_eq!(server.core.kcompactd.requested, 0);
    }
}
