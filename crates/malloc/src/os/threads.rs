// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether there may be other threads, and whether one is the allocator's own.

use core::sync::atomic::{AtomicBool, Ordering};

static BACKGROUND: AtomicBool = AtomicBool::new(false);

/// Whether a background thread gives memory back.
pub fn has_background() -> bool {
    BACKGROUND.load(Ordering::Relaxed)
}

/// Notes that a background thread runs, or no longer does.
pub fn note_background(runs: bool) {
    BACKGROUND.store(runs, Ordering::Relaxed);
}

/// Whether the process may have more than one thread: glibc's own note (2.32), else yes.
pub fn may_exist() -> bool {
    super::glibc::single_threaded().is_none_or(|single| single == 0)
}
