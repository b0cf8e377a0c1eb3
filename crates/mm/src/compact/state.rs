// SPDX-License-Identifier: MIT OR Apache-2.0
//! What compaction remembers from one attempt to the next (`mm/compaction.c`, 6.12).

use crate::memory::{BLOCK_ORDER, HIGH, Zone};

/// Where the migrate and the free scanner stopped, in blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanners {
    pub(crate) migrate: u32,
    pub(crate) free: u32,
}

impl Scanners {
    /// The scanners at the two ends of the upper region.
    pub(crate) fn apart(zone: &Zone) -> Scanners {
        let blocks = zone.region_blocks(HIGH);
        Scanners {
            migrate: blocks.start,
            free: blocks.end,
        }
    }
}

/// Compaction that failed for an order is not tried again for it, or for a larger one, until a
/// number of requests has passed that doubles with each failure (`defer_compaction`,
/// `compaction_deferred`). Direct and background compaction share it, as they share the zone's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deferral {
    order_failed: u32,
    considered: u32,
    shift: u32,
}

/// Requests that pass at most: 2^6 (`COMPACT_MAX_DEFER_SHIFT`).
const MAX_DEFER_SHIFT: u32 = 6;

impl Default for Deferral {
    fn default() -> Deferral {
        Deferral {
            order_failed: u32::MAX,
            considered: 0,
            shift: 0,
        }
    }
}

impl Deferral {
    /// Whether a request of this order is to do without compaction; counts the request.
    pub(crate) fn defers(&mut self, order: u32) -> bool {
        if order < self.order_failed {
            return false;
        }
        self.considered = (self.considered + 1).min(1 << self.shift);
        self.considered < 1 << self.shift
    }

    /// As a kernel had it.
    pub(crate) fn of(order_failed: u32, considered: u32, shift: u32) -> Deferral {
        Deferral {
            order_failed,
            considered: considered.min(1 << MAX_DEFER_SHIFT),
            shift: shift.min(MAX_DEFER_SHIFT),
        }
    }

    /// Whether an attempt that is not deferred is the first after the longest time without
    /// (`compaction_restarting`).
    pub(crate) fn restarts(&self, order: u32) -> bool {
        let longest = 1 << MAX_DEFER_SHIFT;
        order >= self.order_failed && self.shift == MAX_DEFER_SHIFT && self.considered >= longest
    }

    /// A block was made, and nobody has been served with it yet (`compaction_defer_reset` without
    /// `alloc_success`): how long failures defer is not forgotten.
    pub(crate) fn made(&mut self, order: u32) {
        if order >= self.order_failed {
            self.order_failed = order + 1;
        }
    }

    pub(crate) fn note(&mut self, order: u32, success: bool) {
        self.considered = 0;
        if success {
            self.shift = 0;
            self.made(order);
        } else {
            self.shift = (self.shift + 1).min(MAX_DEFER_SHIFT);
            self.order_failed = self.order_failed.min(order);
        }
    }
}

/// A round of compaction ahead of requests that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) scanners: Scanners,
    /// Fragmentation score at its start.
    pub(crate) score: u64,
}

/// The state of the thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kcompactd {
    /// Largest order that a request failed to get since kswapd last slept.
    pub(crate) requested: u32,
    /// Order that it works for; 0 when it sleeps.
    pub(crate) order: u32,
    pub(crate) round: Option<Round>,
    /// No compaction ahead of requests until then.
    pub(crate) not_before_ns: u64,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests until one is not deferred, that one included.
    fn wait(deferral: &mut Deferral, order: u32) -> u32 {
        (1..).find(|_| !deferral.defers(order)).expect("an end")
    }

    #[test]
    fn failures_double_the_wait_up_to_64_and_success_ends_it() {
        let mut deferral = Deferral::default();
        assert_eq!(wait(&mut deferral, 3), 1);
        for expected in [2, 4, 8, 16, 32, 64, 64] {
            deferral.note(3, false);
            assert_eq!(wait(&mut deferral, 3), expected);
        }
        deferral.note(3, true);
        assert_eq!(wait(&mut deferral, 3), 1);
    }

    #[test]
    fn a_block_that_serves_nobody_ends_the_wait_until_the_next_failure() {
        let mut deferral = Deferral::of(9, 0, 6);
        deferral.made(9);
        assert_eq!(wait(&mut deferral, 9), 1);
        deferral.note(9, false);
        assert_eq!(wait(&mut deferral, 9), 64);
    }

    #[test]
    fn smaller_orders_than_the_failed_one_are_not_deferred() {
        let mut deferral = Deferral::default();
        deferral.note(9, false);
        assert!(!deferral.defers(3));
        assert!(deferral.defers(9));
        deferral.note(3, false);
        assert!(deferral.defers(4));
    }
}
