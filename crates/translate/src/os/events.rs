// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an operating system does to an address space while a program runs, with its price: ranges
//! unmapped and protected, huge pages made and split, and the shootdowns that follow.

use super::space::Inval;
use crate::engine::Engine;
use crate::error::MapError;
use crate::table::entry::PageSize;
use std::ops::Range;

/// Ranges longer than this are matched against the leaves of the page table, shorter ones are
/// looked up page by page.
const LONG_RANGE_BYTES: u64 = 1 << 30;

impl Engine {
    /// Applies the invalidations that changes of address spaces have left; returns their cycles.
    /// Few pages are invalidated one by one, more by a flush, here and by interrupt on each of
    /// the other cores that run the program (`remote_cores`), all of one call together.
    pub fn sync(&mut self) -> u64 {
        let mut cycles = 0;
        for at in 0..self.spaces.len() {
            if self.spaces[at].pending.is_empty() {
                continue;
            }
            let asid = self.spaces[at].asid;
            let pending = std::mem::take(&mut self.spaces[at].pending);
            let single = |inval: &Inval| !matches!(inval, Inval::Space | Inval::Segment);
            let pages = pending.len() as u64;
            let config = self.mmu.config();
            let flush = config.flushes(pages) || !pending.iter().all(single);
            cycles += if flush {
                config.shootdown_cycles(u64::MAX, self.remote_cores)
            } else {
                config.shootdown_cycles(pages, self.remote_cores)
            };
            if flush {
                self.mmu.invalidate(&Inval::Space, asid);
                self.scheme.invalidate(&Inval::Space, asid);
                continue;
            }
            for inval in pending {
                self.mmu.invalidate(&inval, asid);
                self.scheme.invalidate(&inval, asid);
            }
        }
        cycles += self.sync_host();
        self.os_cycles += cycles;
        cycles
    }

    /// A change of the host's table may have touched any combined translation (INVEPT).
    fn sync_host(&mut self) -> u64 {
        let Some(host) = self.host.as_mut().filter(|h| !h.space.pending.is_empty()) else {
            return 0;
        };
        host.space.pending.clear();
        host.flush();
        self.mmu.flush(None);
        for space in &self.spaces {
            self.scheme.invalidate(&Inval::Space, space.asid);
        }
        u64::from(self.mmu.config().flush_cycles)
    }

    /// First addresses and sizes of the pages that reach into a range of one half of addresses.
    fn pages_in(&mut self, range: &Range<u64>) -> Vec<(u64, PageSize)> {
        let table = &self.space_of(range.start).table;
        let mut found = Vec::new();
        if range.end.saturating_sub(range.start) > LONG_RANGE_BYTES {
            table.for_each_leaf(|va, leaf| {
                if va < range.end && va + leaf.size.bytes() > range.start {
                    found.push((va, leaf.size));
                }
            });
            return found;
        }
        let mut va = range.start & !0xfff;
        while va < range.end {
            let Some(leaf) = table.find(va) else {
                va += 4096;
                continue;
            };
            let start = va & !(leaf.size.bytes() - 1);
            found.push((start, leaf.size));
            va = start + leaf.size.bytes();
        }
        found
    }

    /// Bytes of a range that pages map.
    pub(crate) fn bytes_mapped_in(&mut self, range: &Range<u64>) -> u64 {
        let pages = self.pages_in(range);
        pages.iter().map(|(_, size)| size.bytes()).sum()
    }

    /// Unmaps what lies in a range, as munmap does: a 2 MB page across a border is split first.
    /// Returns the pages that went.
    ///
    /// # Errors
    /// If a page across a border cannot be split (a 1 GB or a perforated page).
    pub fn unmap_range(&mut self, range: &Range<u64>) -> Result<u64, MapError> {
        for border in [range.start, range.end] {
            let leaf = self.space_of(range.start).table.find(border);
            if leaf.is_some_and(|l| l.size != PageSize::K4 && border & (l.size.bytes() - 1) != 0) {
                self.split(border)?;
            }
        }
        let pages = self.pages_in(range);
        let (space, frames) = self.space_and_frames_of(range.start);
        for &(va, _) in &pages {
            space.unmap(va, true, frames)?;
        }
        self.sync();
        Ok(pages.len() as u64)
    }

    /// Changes the rights of what lies in a range, as mprotect does; returns the pages changed.
    /// A 2 MB page that reaches into the range changes as a whole.
    ///
    /// # Errors
    /// If a hole of a perforated page in the range is not mapped.
    pub fn protect_range(
        &mut self,
        range: &Range<u64>,
        clear: u64,
        set: u64,
    ) -> Result<u64, MapError> {
        let pages = self.pages_in(range);
        for &(va, _) in &pages {
            let (space, _) = self.space_and_frames_of(va);
            space.protect(va, clear, set)?;
        }
        self.sync();
        Ok(pages.len() as u64)
    }

    /// Makes one 2 MB page of the 4 KB pages around `va`, as khugepaged does; false if they are
    /// not all there with equal rights, or no block is free.
    ///
    /// # Errors
    /// If the page table runs out of frames.
    pub fn promote(&mut self, va: u64) -> Result<bool, MapError> {
        let (space, frames) = self.space_and_frames_of(va);
        let done = space.promote(va, frames)?;
        if done {
            self.os_cycles += u64::from(self.costs.promote_cycles);
        }
        self.sync();
        Ok(done)
    }

    /// Splits the 2 MB page at `va` into 4 KB pages on the same frames.
    ///
    /// # Errors
    /// If no plain 2 MB page maps `va`.
    pub fn split(&mut self, va: u64) -> Result<(), MapError> {
        let (space, frames) = self.space_and_frames_of(va);
        space.split(va, frames)?;
        self.os_cycles += u64::from(self.costs.split_cycles);
        self.sync();
        Ok(())
    }
}
