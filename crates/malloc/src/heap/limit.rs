// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of the memory behind the heap, in pages of all nodes together. What is handed out counts
//! whether the program has touched it or not; what the metadata take does not count.
//!
//! Beyond the soft limit free memory goes back at once; beyond the hard one a request fails after
//! everything free has gone back.

use crate::os::numa;
use crate::units::{PAGE_SHIFT, PAGES_PER_HUGE};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

static SOFT_PAGES: AtomicUsize = AtomicUsize::new(usize::MAX);
static HARD_PAGES: AtomicUsize = AtomicUsize::new(usize::MAX);
static OVER_SOFT: AtomicBool = AtomicBool::new(false);
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// Sets both limits, in bytes; 0 for none.
pub fn set(soft_bytes: usize, hard_bytes: usize) {
    for (limit, bytes) in [(&SOFT_PAGES, soft_bytes), (&HARD_PAGES, hard_bytes)] {
        let pages = match bytes {
            0 => usize::MAX,
            bytes => bytes >> PAGE_SHIFT,
        };
        limit.store(pages, Ordering::Relaxed);
    }
}

/// The soft and the hard limit in bytes; 0 for none.
pub fn bytes() -> [usize; 2] {
    [&SOFT_PAGES, &HARD_PAGES].map(|limit| match limit.load(Ordering::Relaxed) {
        usize::MAX => 0,
        pages => pages << PAGE_SHIFT,
    })
}

/// Whether there is a hard limit.
pub fn is_hard() -> bool {
    HARD_PAGES.load(Ordering::Relaxed) != usize::MAX
}

/// Requests that failed at the hard limit.
pub fn refused() -> u64 {
    REFUSED.load(Ordering::Relaxed)
}

/// Notes that a request failed at the hard limit.
pub fn note_refused() {
    REFUSED.fetch_add(1, Ordering::Relaxed);
}

/// Whether the heap of one node, with so many pages, stays within its part of the hard limit.
pub fn allows(pages: usize) -> bool {
    pages <= HARD_PAGES.load(Ordering::Relaxed) / numa::nodes()
}

/// Notes the size of a heap that has grown: its pages with memory, and those in use.
pub fn note(backed_pages: usize, used_pages: usize) {
    let soft = SOFT_PAGES.load(Ordering::Relaxed) / numa::nodes();
    if backed_pages > soft && backed_pages - used_pages >= PAGES_PER_HUGE {
        OVER_SOFT.store(true, Ordering::Relaxed);
    }
}

/// The soft limit in pages if a heap was beyond it, with free memory, since the last call.
pub fn take_over_soft() -> Option<usize> {
    let over = OVER_SOFT.load(Ordering::Relaxed) && OVER_SOFT.swap(false, Ordering::Relaxed);
    over.then(|| SOFT_PAGES.load(Ordering::Relaxed))
}
