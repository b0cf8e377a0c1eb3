// SPDX-License-Identifier: MIT OR Apache-2.0
//! Huge pages: THP at fault, khugepaged, and HugeTLB pages of 2 MB and 1 GB made at run time.

use crate::alloc::Request;
use crate::compact::{Compaction, Goal};
use crate::core::{BLOCK_ORDER, BLOCK_PAGES, GIGA_ORDER, HIGH};
use crate::frame::{Kind, State};
use crate::server::Server;
use ample_pfn::{MigrateType, PageClass};

/// Blocks that khugepaged looks at for one huge page.
const COLLAPSE_BLOCKS: u64 = 64;
/// Pageblocks in a 1 GB page.
const GIGA_BLOCKS: u32 = 1 << (GIGA_ORDER - BLOCK_ORDER);

impl Server {
    /// A page fault in a huge-page-aligned anonymous range: one 2 MB page, or 512 small ones
    /// (`do_huge_pmd_anonymous_page` with `defrag=madvise`: no compaction at fault). Pages
    /// added to the pool.
    pub(crate) fn fault_huge(&mut self, pool: u32, cpu: usize) -> u32 {
        let request = Request::new(PageClass::Anon).order(BLOCK_ORDER).light();
        if let Some(pfn) = self.alloc(&request, cpu) {
            self.core.counters.thp_faults += 1;
            self.core.pool_push(pool, pfn);
            return BLOCK_PAGES;
        }
        self.core.counters.thp_fallbacks += 1;
        self.grow(pool, &Request::new(PageClass::Anon), BLOCK_PAGES, cpu)
    }

    /// khugepaged: replaces up to 512 small pages of a pool by one 2 MB page, compacting for it.
    pub(crate) fn collapse(&mut self, pool: u32, cpu: usize) -> bool {
        let pages = &self.core.pools[pool as usize];
        let small = |&&pfn: &&u32| {
            let state = self.core.frames.get(pfn);
            state.order() == 0 && state.class() == PageClass::Anon && !state.short_pinned()
        };
        let picked: Vec<u32> = pages
            .iter()
            .rev()
            .take(2 * BLOCK_PAGES as usize)
            .filter(small)
            .take(BLOCK_PAGES as usize)
            .copied()
            .collect();
        if picked.len() < BLOCK_PAGES as usize {
            return false;
        }
        let request = Request::new(PageClass::Anon).order(BLOCK_ORDER).light();
        let found = self.alloc(&request, cpu).or_else(|| {
            let mt = MigrateType::Movable;
            let mut scanners = self.core.scanners;
            let enough = |done: &Compaction| done.scanned_blocks >= COLLAPSE_BLOCKS;
            let goal = Goal::Alike(BLOCK_ORDER, mt);
            (self.core).compact(goal, &mut scanners, enough);
            self.core.scanners = scanners;
            self.alloc(&request, cpu)
        });
        let Some(huge) = found else {
            return false;
        };
        for pfn in picked {
            // Compaction may have moved the page: its pool entry tells where it is now only
            // before the move, so look again through the frame.
            let state = self.core.frames.get(pfn);
            let (owner, index) = state.pool_entry();
            let same = self.core.pools[pool as usize].get(index as usize) == Some(&pfn);
            if state.kind() == Kind::Used && state.order() == 0 && owner == pool && same {
                self.core.pool_take(pool, index);
                self.free(pfn, cpu);
            }
        }
        self.core.pool_push(pool, huge);
        self.core.counters.thp_collapses += 1;
        true
    }

    /// `echo N > nr_hugepages` for 2 MB pages: one after the other through the allocator, which
    /// may compact the whole zone for each, until one cannot be had (`set_max_huge_pages`).
    /// Pages obtained, kept in `pool`.
    pub fn hugetlb_2m(&mut self, pool: PoolId, wanted: u32) -> u32 {
        let request = Request::new(PageClass::HugeTlb).order(BLOCK_ORDER);
        self.grow(pool.0, &request, wanted, 0)
    }

    /// The same for 1 GB pages (`alloc_contig_pages`): tries every aligned range that has no
    /// unmovable page in it. Pages obtained, kept in `pool`.
    pub fn hugetlb_1g(&mut self, pool: PoolId, wanted: u32) -> u32 {
        let mut got = 0;
        let last = self.core.blocks.len() as u32 / GIGA_BLOCKS;
        // Ranges that need the fewest migrations first would be kinder; Linux goes upwards.
        for range in 0..last {
            if got == wanted {
                break;
            }
            let first = range * GIGA_BLOCKS;
            if first << BLOCK_ORDER < self.core.border {
                continue;
            }
            // Migration needs room elsewhere: reclaim page cache first, as the caller would.
            let used: u64 = self.core.blocks[first as usize..(first + GIGA_BLOCKS) as usize]
                .iter()
                .map(|block| u64::from(block.movable))
                .sum();
            let inside: u64 = u64::from(GIGA_BLOCKS * BLOCK_PAGES) - used;
            let mut rounds = 0;
            let room = used + inside + 2 * self.core.watermarks[HIGH].high;
            while self.core.free_user_pages() < room && rounds < 512 {
                let (_, freed) = self.core.reclaim(HIGH, 8 * BLOCK_PAGES);
                rounds += 1;
                if freed == 0 {
                    break;
                }
            }
            if self.core.isolate_range(first, GIGA_BLOCKS, false).is_err() {
                continue;
            }
            self.make_giga(first);
            let pfn = first << BLOCK_ORDER;
            self.core.pool_push(pool.0, pfn);
            self.core.counters.allocs += 1;
            got += 1;
        }
        got
    }

    /// Turns an emptied, isolated range into one used 1 GB page.
    fn make_giga(&mut self, first: u32) {
        for b in first..first + GIGA_BLOCKS {
            let block = &mut self.core.blocks[b as usize];
            block.isolated = false;
            block.giga = true;
            block.movable = BLOCK_PAGES as u16;
            self.core.isolated_pages -= u64::from(BLOCK_PAGES);
        }
        let state = State::used(GIGA_ORDER, PageClass::HugeTlb);
        self.core.frames.set(first << BLOCK_ORDER, state);
    }

    /// Gives a 1 GB page back.
    pub(crate) fn free_giga(&mut self, pfn: u32) {
        let first = pfn >> BLOCK_ORDER;
        self.core.counters.frees += 1;
        for b in first..first + GIGA_BLOCKS {
            let block = &mut self.core.blocks[b as usize];
            block.giga = false;
            block.movable = 0;
            self.core.frames.set(b << BLOCK_ORDER, State::INTERIOR);
        }
        for b in first..first + GIGA_BLOCKS {
            self.core.free_block(b << BLOCK_ORDER, BLOCK_ORDER);
        }
    }
}

/// A set of pages with one owner: a process, a cache, a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolId(pub(crate) u32);

#[cfg(test)]
mod tests {
    use super::GIGA_BLOCKS;
    use crate::Server;
    use crate::config::{Config, PolicyKind};
    use ample_pfn::PageClass;

    #[test]
    fn page_cache_makes_room_for_hugetlb_pages() {
        let mut config = Config::new(PolicyKind::Linux);
        config.memory_bytes = 256 << 20;
        let mut server = Server::new(&config).expect("a valid size");
        let pages = server.free_pages() as u32;
        server.read_cache(PageClass::File, pages, 0);
        let pool = server.new_pool();
        assert_eq!(server.hugetlb_2m(pool, 32), 32);
    }

    /// What is free below the border of Contiguitas is no room for the pages of the range.
    #[test]
    fn page_cache_makes_room_for_a_1g_page_above_a_border() {
        let mut config = Config::new(PolicyKind::Contiguitas);
        config.memory_bytes = 4 << 30;
        config.policy.low_region_ratio = 0.25;
        let mut server = Server::new(&config).expect("a valid size");
        let (small, pool) = (server.new_pool(), server.new_pool());
        // The lowest whole gigabyte of user memory is in 2 MB pages, the highest is page cache.
        assert_eq!(server.hugetlb_2m(small, 1500), 1500);
        (0..600).for_each(|highest| server.free_entry(small.0, highest, 0));
        let pages = server.free_user_pages() as u32;
        server.read_cache(PageClass::File, pages, 0);
        assert_eq!(server.hugetlb_1g(pool, 1), 1);
        assert!(server.core.blocks[GIGA_BLOCKS as usize].giga, "the lowest");
    }
}
