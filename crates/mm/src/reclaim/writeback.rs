// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dirty page cache: what has been written and is not yet on storage cannot be reclaimed
//! (`mm/page-writeback.c`, 6.12). Which of the cached pages are dirty is left to chance: their
//! number is kept, not their names.

/// Share of the page cache and of free user memory that may be dirty: the writers behind it wait
/// (`vm.dirty_ratio`).
const MOST_DIRTY: f64 = 0.2;
/// Pages under writeback ÷ dirty ones below which storage keeps up.
const IDLE_SHARE: f64 = 0.01;

/// The dirty part of the page cache.
#[derive(Debug, Default)]
pub(crate) struct Writeback {
    dirty_pages: f64,
    /// Whether storage has nothing else to do than to write what reclaim comes upon.
    idle: bool,
}

impl Writeback {
    /// Of `pages` about to be written, those for which the writer need not wait; they are dirty
    /// from now on. `usable_pages`: page cache and free user memory.
    pub(crate) fn write(&mut self, pages: f64, usable_pages: f64) -> f64 {
        let room = (MOST_DIRTY * usable_pages - self.dirty_pages).max(0.0);
        let written = pages.min(room);
        self.dirty_pages += written;
        written
    }

    /// So many pages are dirty, and so many on their way to storage: where those are many, what is
    /// dirty would have to wait for them.
    pub(crate) fn set_dirty(&mut self, pages: f64, on_their_way: f64) {
        self.dirty_pages = pages;
        self.idle = on_their_way < IDLE_SHARE * pages;
    }

    /// Whether storage writes what reclaim comes upon before it looks again. That of a driver does
    /// not: it cleans pages at a pace of its own.
    pub(crate) fn keeps_up(&self) -> bool {
        self.idle
    }

    /// Reclaim has passed over so many dirty pages and wakes the flushers
    /// (`shrink_inactive_list`: `wakeup_flusher_threads`).
    pub(crate) fn flush(&mut self, passed: u32) {
        if self.idle {
            self.clean(f64::from(passed));
        }
    }

    /// So many pages have reached storage.
    pub(crate) fn clean(&mut self, pages: f64) {
        self.dirty_pages = (self.dirty_pages - pages).max(0.0);
    }

    /// Share of `cached` pages that are dirty.
    pub(crate) fn share_of(&self, cached: u32) -> f64 {
        if self.dirty_pages == 0.0 || cached == 0 {
            return 0.0;
        }
        (self.dirty_pages / f64::from(cached)).min(1.0)
    }
}
