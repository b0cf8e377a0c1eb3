// SPDX-License-Identifier: MIT OR Apache-2.0
//! Releases that turn out to have been wrong: the next one waits, each time twice as long.

use super::huge_cache::WINDOW_NS;

/// The longest wait after a regretted release is 2 s times two to this power: about a minute.
const MOST_DOUBLINGS: u32 = 5;

/// The last release, and whether it was regretted.
#[derive(Clone, Copy)]
pub struct Eager {
    released_at_ns: u64,
    released_pages: usize,
    taken_pages: usize,
    not_before_ns: u64,
    doublings: u32,
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
        }
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
