// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a workload does with the page cache and with swap.

use super::Driver;
use crate::alloc::request::AllocRequest;
use crate::memory::begins_group;
use crate::psi::{REFAULT_NS, Stall};
use crate::server::ServerModel;
use ample_pfn::PageClass;

/// Files are dropped in runs of so many pages.
const FILE_PAGES: u32 = 64;
/// Memory counts as full once this share of it or less is free for users.
const FULL_RATIO: f64 = 0.04;
/// Pages that are read at a time: readahead, and tasks that wait side by side.
const READS_AT_ONCE: u64 = 64;

/// Books the wait for pages that are read from storage.
fn wait_for_reads(server: &mut ServerModel, pages: u64) {
    let ns = pages * REFAULT_NS / READS_AT_ONCE;
    server.kernel.psi.stall(Stall::Movable, ns);
}

impl Driver {
    pub(super) fn cache_turn(&mut self, server: &mut ServerModel, turn: f64) {
        let cache = &self.workload.cache;
        // While memory is being filled nothing is thinned: the level counts, not the rate.
        let filling = server.free_user_pages() as f64 > FULL_RATIO * self.pages;
        let ratio = if filling { 1.0 } else { self.event_ratio };
        let mut reads = cache.read_per_hour * self.pages / 3600.0 * turn * ratio;
        let deploy = self.deploy_left.min(self.pages / 600.0 * turn);
        self.deploy_left -= deploy;
        let reuse = cache.reuse_ratio;
        let touched = self.rng.round(reads * reuse);
        reads *= 1.0 - reuse;
        let fresh = self.written_or_read(server, reads + deploy, turn);
        let fresh = self.rng.round(fresh);
        let drops = cache.drop_per_hour * self.pages / 3600.0 * turn / f64::from(FILE_PAGES);
        let drops = self.rng.round(drops * ratio);
        self.refault(server, reads, turn, ratio);
        server.read_cache(PageClass::File, fresh, self.rng.below(64) as usize);
        for done in 0..touched {
            if begins_group(2 * done) {
                server.kernel.zone.frames().touch_anywhere(&self.rng);
            }
            if let Some(pfn) = server.random_cached(&mut self.rng) {
                server.reread(pfn);
            }
        }
        for _ in 0..drops {
            if let Some(pfn) = server.random_cached(&mut self.rng) {
                server.drop_file(pfn, FILE_PAGES);
            }
        }
    }

    /// Books the waits for pages that `reads` of this turn found evicted, whichever region was
    /// short. Reclaim runs in batches: a page evicted counts for the reads of the next minute.
    /// Where reads are thinned to `ratio`, each stands for more of them.
    fn refault(&mut self, server: &mut ServerModel, reads: f64, turn: f64, ratio: f64) {
        let counters = server.counters();
        let evicted = counters.kswapd_reclaimed_pages + counters.direct_reclaimed_pages;
        let fresh = (evicted - self.evicted) as f64;
        self.evicted = evicted;
        self.evicted_unread = (self.evicted_unread + fresh).min(reads * 60.0 / turn);
        let followed = reads.min(self.evicted_unread);
        self.evicted_unread -= followed;
        let refaults = followed / ratio * self.workload.cache.refault_ratio;
        let refaults = u64::from(self.rng.round(refaults));
        server.kernel.counters.refaults += refaults;
        wait_for_reads(server, refaults);
    }

    /// Of `pages` new pages of cache for this turn, those that come: the reads, and the writes that
    /// need not wait for storage.
    fn written_or_read(&self, server: &mut ServerModel, pages: f64, turn: f64) -> f64 {
        let cache = &self.workload.cache;
        if cache.write_ratio == 0.0 {
            return pages;
        }
        let kernel = &mut server.kernel;
        let cleaned = cache.written_back_per_hour * self.pages / 3600.0 * turn;
        kernel.writeback.clean(cleaned);
        let usable = f64::from(kernel.lru.len()) + kernel.free_user_pages() as f64;
        let writes = pages * cache.write_ratio;
        pages - writes + kernel.writeback.write(writes, usable)
    }

    /// Processes want back some of what reclaim has put into swap.
    pub(super) fn swap_in(&mut self, server: &mut ServerModel) {
        let spec = &self.workload.swap;
        if spec.size_ratio == 0.0 {
            return;
        }
        let wanted_ratio = spec.wanted_per_hour / 3600.0;
        let request = AllocRequest::new(PageClass::Anon);
        for process in &self.processes {
            let held = server.kernel.swap.pages_of(process.pool);
            let wanted = self.rng.round(held as f64 * wanted_ratio);
            let got = server.allocate(process.pool, &request, wanted, process.cpu);
            let read = server.kernel.swap.take_back(process.pool, u64::from(got));
            server.kernel.counters.swapped_in_pages += read;
            wait_for_reads(server, read);
        }
    }
}
