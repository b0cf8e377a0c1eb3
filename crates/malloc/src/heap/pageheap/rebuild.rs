// SPDX-License-Identifier: MIT OR Apache-2.0
//! Native hugepages of the process's heaps: found and rebuilt in rounds.

use super::{CALLS, heaps};
use crate::heap::{BackOff, LOOKS, PageHeap};
use crate::os::sys;
use core::sync::atomic::{AtomicU64, Ordering};

/// See [`waits`].
static WAITS: AtomicU64 = AtomicU64::new(0);
static CUT_SHORT: AtomicU64 = AtomicU64::new(0);

/// How much the rebuilding of hugepages may take in one round.
#[derive(Clone, Copy, Debug)]
pub struct CollapseBudget {
    /// Hugepages that are tried at most.
    pub hugepages: usize,
    /// Time it may take; a single collapse that takes longer ends the attempts for a while.
    pub slow_ns: u64,
}

/// Rebuilds hugepages that are mapped with native pages, within the budget for each heap and while
/// the back-off allows it.
pub fn collapse(budget: &CollapseBudget, back_off: &mut BackOff) {
    for heap in heaps() {
        let start_ns = sys::now_ns();
        for _ in 0..budget.hugepages {
            let before_ns = sys::now_ns();
            if !back_off.allows(before_ns) || before_ns - start_ns > budget.slow_ns {
                break;
            }
            let step = heap.lock().begin(PageHeap::begin_collapse);
            let Some(step) = step else { break };
            let result = step.run(&CALLS);
            heap.lock()
                .end(|heap| heap.end_collapse(step, result.is_ok()));
            let now_ns = sys::now_ns();
            back_off.note(now_ns, result, now_ns - before_ns > budget.slow_ns);
        }
    }
    WAITS.store(back_off.waits, Ordering::Relaxed);
    CUT_SHORT.store(back_off.cut_short, Ordering::Relaxed);
}

/// Waits for hugepages that the system had none of, and those of them that were cut short.
pub fn waits() -> [u64; 2] {
    [&WAITS, &CUT_SHORT].map(|count| count.load(Ordering::Relaxed))
}

/// Looks how the system maps up to `limit` hugepages of each heap, the next ones in turn.
pub fn look(limit: usize) {
    for heap in heaps() {
        for _ in 0..limit / LOOKS {
            let look = heap.lock().begin(PageHeap::begin_look);
            let Some(look) = look else { break };
            let found = look.run(&CALLS);
            heap.lock().end(|heap| heap.end_look(&look, &found));
        }
    }
}
