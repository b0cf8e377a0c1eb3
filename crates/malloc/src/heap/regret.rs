// SPDX-License-Identifier: MIT OR Apache-2.0
//! Releases that turn out to have been wrong: the next one waits, each time twice as long, or is
//! paid for with time in which the process waited of its own accord.

use super::huge_cache::WINDOW_NS;
use crate::os::sys::Idle;

/// The longest wait after a regretted release is 2 s times two to this power: about a minute.
const MOST_DOUBLINGS: u32 = 5;

/// Time that the memory of a page takes when it is touched again, in nanoseconds: 8 KiB at 8 GB/s.
pub(super) const PAGE_NS: i64 = 1_000;
/// Of the time in which the process was idle, page faults may take the half.
const IDLE_PAGE_NS: i64 = 2 * PAGE_NS;
/// Between two looks at the time in which the process was idle.
const LOOK_NS: u64 = 20_000_000;

/// The last release, and whether it was regretted.
#[derive(Clone, Copy)]
pub struct Eager {
    released_at_ns: u64,
    released_pages: usize,
    taken_pages: usize,
    not_before_ns: u64,
    doublings: u32,
    /// Pages whose release may be regretted: what the process was idle for, and nothing has used.
    paid_pages: usize,
    /// The idle time at the last look, and when that was.
    idle: Option<Idle>,
    looked_at_ns: u64,
}

impl Eager {
    /// Nothing was released yet.
    pub(super) const fn new() -> Self {
        Eager {
            released_at_ns: 0,
            released_pages: 0,
            taken_pages: 0,
            not_before_ns: 0,
            doublings: 0,
            paid_pages: 0,
            idle: None,
            looked_at_ns: 0,
        }
    }

    /// Whether the last look at the idle time is so old that [`Eager::note_idle`] is to be called.
    pub(super) const fn asks_idle(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.looked_at_ns) >= LOOK_NS
    }

    /// Takes note of how long the process was idle, if that is known. At most `most_pages` are ever
    /// paid for.
    pub(super) fn note_idle(&mut self, now_ns: u64, idle: Option<Idle>, most_pages: usize) {
        self.looked_at_ns = now_ns;
        if let (Some(now), Some(before)) = (idle, self.idle)
            && now.thread == before.thread
        {
            let pages = now.idle_ns.saturating_sub(before.idle_ns) / IDLE_PAGE_NS;
            self.paid_pages += usize::try_from(pages).unwrap_or(0);
            self.paid_pages = self.paid_pages.min(most_pages);
        }
        self.idle = idle;
    }

    /// Takes what has been paid for, at most `pages`; how many, or 0 if fewer than `least`.
    pub(super) fn take_paid(&mut self, pages: usize, least: usize) -> usize {
        let taken = pages.min(self.paid_pages);
        if taken < pages.min(least) {
            return 0;
        }
        self.paid_pages -= taken;
        taken
    }

    pub(super) fn begin(&mut self, now_ns: u64, pages: usize) {
        if now_ns.saturating_sub(self.released_at_ns) > WINDOW_NS {
            self.released_pages = 0;
            self.taken_pages = 0;
            // The last one was not regretted, or long ago.
            if now_ns.saturating_sub(self.not_before_ns) > WINDOW_NS << MOST_DOUBLINGS {
                self.doublings = 0;
            }
        }
        self.released_at_ns = now_ns;
        self.released_pages += pages;
    }

    /// Whether the last release was regretted so lately that the next one waits.
    pub(super) const fn waits(&self, now_ns: u64) -> bool {
        now_ns < self.not_before_ns
    }

    /// Pages without memory were handed out. When that is a quarter of what was released within the
    /// window before, the release was wrong.
    #[inline]
    pub(super) fn note_taken(&mut self, now_ns: u64, pages: usize) {
        if self.released_pages == 0 || now_ns.saturating_sub(self.released_at_ns) > WINDOW_NS {
            return;
        }
        self.taken_pages += pages;
        if self.taken_pages > self.released_pages / 4 {
            self.not_before_ns = now_ns + (WINDOW_NS << self.doublings);
            self.doublings = (self.doublings + 1).min(MOST_DOUBLINGS);
            self.released_pages = 0;
            self.taken_pages = 0;
        }
    }
}
