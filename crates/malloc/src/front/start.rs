// SPDX-License-Identifier: MIT OR Apache-2.0
//! The start of the allocator: on the first slow call, whoever makes it, possibly long before any
//! constructor runs. Everything before it works on constant-initialised statics.

use crate::cache;
use crate::heap::pageheap;
use crate::os::numa;
use crate::watch::options::Options;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

const NOT_STARTED: u32 = 0;
const STARTING: u32 = 1;
const STARTED: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(NOT_STARTED);
static MODES: AtomicU8 = AtomicU8::new(0);
const CHECKED: u8 = 1;
const GUARDED: u8 = 2;

/// Starts the allocator if that has not happened.
#[inline]
pub fn ensure() {
    if STATE.load(Ordering::Acquire) != STARTED {
        start();
    }
}

/// Whether some objects are guarded.
#[inline]
pub fn guarded() -> bool {
    MODES.load(Ordering::Relaxed) & GUARDED != 0
}

/// Whether every free is checked in full.
#[inline]
pub fn checked() -> bool {
    MODES.load(Ordering::Relaxed) & CHECKED != 0
}

#[cold]
fn start() {
    if STATE
        .compare_exchange(NOT_STARTED, STARTING, Ordering::AcqRel, Ordering::Acquire)
        .is_err()
    {
        // Another thread starts the allocator. (The starting thread itself does not come here: the
        // start does not allocate.)
        while STATE.load(Ordering::Acquire) != STARTED {
            crate::os::lock::pause();
        }
        return;
    }
    #[cfg(all(feature = "preload", not(any(test, miri, feature = "models"))))]
    crate::os::panics::catch();
    let options = Options::from_environment();
    numa::start(options.numa);
    pageheap::configure(options.huge, options.hugetlb_shift, options.heap);
    let mut modes = 0;
    if options.check {
        modes |= CHECKED;
    }
    crate::central::freed::start();
    cache::start(options.cpu_cache_bytes, options.rseq, !options.check);
    if options.guard > 0 {
        // Without restartable sequences every call is a slow one.
        let calls = if cache::uses_rseq() { 1 } else { 32 };
        crate::watch::guarded::start(options.guard.saturating_mul(calls));
        modes |= GUARDED;
    }
    MODES.store(modes, Ordering::Relaxed);
    crate::watch::upkeep::configure(&options);
    crate::watch::limits::configure(options.soft_limit, options.limit);
    crate::watch::observe::configure(&options);
    crate::watch::threads::configure(options.background);
    STATE.store(STARTED, Ordering::Release);
    crate::watch::dump::configure(&options);
    super::fork::register();
}
