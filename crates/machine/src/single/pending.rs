// SPDX-License-Identifier: MIT OR Apache-2.0
//! Walks under way where accesses come in the order of the program: their entries are in the first
//! level at once, and a hit waits.

use ample_translate::Mmu;

/// Pages whose walk may still be under way.
const PENDING: usize = 32;

/// Pages with the times at which their entries are there.
pub(super) struct PendingWalks {
    pages: [(u64, u64); PENDING],
    until: u64,
}

impl PendingWalks {
    pub(super) fn new() -> Self {
        PendingWalks {
            pages: [(u64::MAX, 0); PENDING],
            until: 0,
        }
    }

    /// Notes that the page of a data address just translated is there at `done`.
    #[inline(always)]
    pub(super) fn note(&mut self, mmu: &Mmu, va: u64, done: u64) {
        let (page, at) = page_of(mmu, va);
        self.pages[at] = (page, done);
        self.until = self.until.max(done);
    }

    /// When a hit on a data address at `now` has its entry.
    #[inline(always)]
    pub(super) fn wait(&self, mmu: &Mmu, va: u64, now: u64, done: u64) -> u64 {
        if now >= self.until {
            return done;
        }
        let (page, at) = page_of(mmu, va);
        match self.pages[at] {
            (walking, ready) if walking == page => done.max(ready),
            _ => done,
        }
    }
}

/// The page of an address just translated, and where its walk is remembered.
#[inline(always)]
fn page_of(mmu: &Mmu, va: u64) -> (u64, usize) {
    let (base, bits) = mmu.page_of(va);
    (base | u64::from(bits), (base >> bits) as usize % PENDING)
}
