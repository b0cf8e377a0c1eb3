// SPDX-License-Identifier: MIT OR Apache-2.0
//! Huge pages: THP at fault, khugepaged, and HugeTLB pages of 2 MB and 1 GB made at run time.

use super::model::ServerModel;
use crate::alloc::costly::alloc_costly;
use crate::alloc::request::AllocRequest;
use crate::compact::range::isolate_range;
use crate::compact::scan::{Compaction, Goal, compact_on};
use crate::config::CostlyRequests;
use crate::memory::{BLOCK_ORDER, BLOCK_PAGES, FrameKind, FrameState, GIGA_BLOCKS, HIGH, PoolId};
use crate::reclaim::shrink::reclaim;
use ample_pfn::{MigrateType, PageClass};

/// Blocks that khugepaged looks at for one huge page.
const COLLAPSE_BLOCKS: u64 = 64;
/// Rounds of reclaim for one 1 GB page.
const GIGA_RECLAIMS: u32 = 512;

impl ServerModel {
    /// A page fault in a huge-page-aligned anonymous range: one 2 MB page, or 512 small ones
    /// (`do_huge_pmd_anonymous_page` with `defrag=madvise`: no compaction at fault). Pages
    /// added to the pool.
    pub(crate) fn fault_huge(&mut self, pool: PoolId, cpu: usize) -> u32 {
        let request = AllocRequest::new(PageClass::Anon)
            .order(BLOCK_ORDER)
            .light();
        if let Some(pfn) = self.alloc(&request, cpu) {
            self.kernel.counters.thp_faults += 1;
            self.kernel.give(pool, pfn);
            return BLOCK_PAGES;
        }
        self.kernel.counters.thp_fallbacks += 1;
        self.allocate(pool, &AllocRequest::new(PageClass::Anon), BLOCK_PAGES, cpu)
    }

    /// khugepaged: replaces 512 small pages of a pool by one 2 MB page, compacting for it.
    /// Whether it did.
    pub(crate) fn collapse(&mut self, pool: PoolId, cpu: usize) -> bool {
        let zone = &self.kernel.zone;
        let small = |state: FrameState| state.order() == 0 && state.class() == PageClass::Anon;
        let picked: Vec<u32> = (self.kernel.pools.entries(pool).iter().rev())
            .take(2 * BLOCK_PAGES as usize)
            .filter(|&&pfn| small(zone.state(pfn)) && !zone.state(pfn).short_pinned())
            .take(BLOCK_PAGES as usize)
            .copied()
            .collect();
        if picked.len() < BLOCK_PAGES as usize {
            return false;
        }
        let request = AllocRequest::new(PageClass::Anon)
            .order(BLOCK_ORDER)
            .light();
        let found = self.alloc(&request, cpu).or_else(|| {
            if self.kernel.rules.costly == CostlyRequests::Kernel {
                return self.alloc_advised(cpu);
            }
            let enough = |done: &Compaction| done.scanned_blocks >= COLLAPSE_BLOCKS;
            let goal = Goal::Alike(BLOCK_ORDER, MigrateType::Movable);
            compact_on(&mut self.kernel, goal, enough);
            self.alloc(&request, cpu)
        });
        let Some(huge) = found else {
            return false;
        };
        let kernel = &mut self.kernel;
        for pfn in picked {
            // Compaction may have moved the page: it is freed only if it is still there.
            let state = kernel.zone.state(pfn);
            let index = kernel.pools.find(kernel.zone.frames(), pool, pfn);
            if let Some(index) = index
                && state.kind() == FrameKind::Used
                && state.order() == 0
            {
                kernel.take_from(pool, index);
                kernel.free(pfn, cpu);
            }
        }
        kernel.give(pool, huge);
        kernel.counters.thp_collapses += 1;
        true
    }

    /// A page fault where huge pages are advised (`defrag=madvise`: reclaims and compacts once);
    /// whether there was one.
    pub(super) fn fault_advised(&mut self, pool: PoolId, cpu: usize) -> bool {
        let request = AllocRequest::new(PageClass::Anon).order(BLOCK_ORDER);
        let found = self.alloc(&request.light(), cpu);
        let found = found.or_else(|| self.alloc_advised(cpu));
        if let Some(huge) = found {
            self.kernel.give(pool, huge);
        }
        found.is_some()
    }

    /// As khugepaged and faults in advised memory ask (`GFP_TRANSHUGE`), where there is no free
    /// block: reclaims and compacts once, and wakes nobody.
    fn alloc_advised(&mut self, cpu: usize) -> Option<u32> {
        let request = AllocRequest::new(PageClass::Anon).order(BLOCK_ORDER);
        let kernel = &mut self.kernel;
        let huge = alloc_costly(kernel, &mut *self.policy, &request, cpu, false)?;
        kernel.counters.allocs += 1;
        kernel.zone.set_used(huge, BLOCK_ORDER, request.class);
        Some(huge)
    }

    /// `echo N > nr_hugepages` for 2 MB pages: one after the other through the allocator, which
    /// may compact the whole zone for each, until there is none (`set_max_huge_pages`).
    /// Pages obtained, kept in `pool`.
    pub fn hugetlb_2m(&mut self, pool: PoolId, wanted: u32) -> u32 {
        let request = AllocRequest::new(PageClass::HugeTlb).order(BLOCK_ORDER);
        self.allocate(pool, &request, wanted, 0)
    }

    /// The same for 1 GB pages (`alloc_contig_pages`): tries every aligned range that has no
    /// unmovable page in it, in the region where the policy allows them; upwards as Linux does, or
    /// from its end, where they do not stand in the way of a border. Pages obtained, kept in
    /// `pool`.
    pub fn hugetlb_1g(&mut self, pool: PoolId, wanted: u32) -> u32 {
        let mut got = 0;
        let blocks = self
            .kernel
            .zone
            .region_blocks(self.kernel.rules.giga_region);
        let ranges = blocks.start.div_ceil(GIGA_BLOCKS)..blocks.end / GIGA_BLOCKS;
        for nth in 0..ranges.len() as u32 {
            let range = match self.kernel.rules.giga_from_top {
                true => ranges.end - 1 - nth,
                false => ranges.start + nth,
            };
            let first = range * GIGA_BLOCKS;
            if got == wanted {
                break;
            }
            self.make_room_for_giga();
            let kernel = &mut self.kernel;
            if isolate_range(kernel, first, GIGA_BLOCKS, false).is_err() {
                continue;
            }
            kernel.zone.make_giga(first);
            kernel.give(pool, first << BLOCK_ORDER);
            kernel.counters.allocs += 1;
            got += 1;
        }
        got
    }

    /// Migration out of a range needs room elsewhere: reclaims page cache for it.
    fn make_room_for_giga(&mut self) {
        let kernel = &mut self.kernel;
        let room = u64::from(GIGA_BLOCKS * BLOCK_PAGES) + 2 * kernel.watermarks.of(HIGH).high;
        for _ in 0..GIGA_RECLAIMS {
            if kernel.free_user_pages() >= room {
                return;
            }
            let (_, freed) = reclaim(kernel, HIGH, 8 * BLOCK_PAGES);
            if freed == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, PolicyKind};

    #[test]
    fn page_cache_makes_room_for_hugetlb_pages() {
        let mut config = Config::new(PolicyKind::Linux);
        config.memory_bytes = 256 << 20;
        let mut server = ServerModel::new(&config).expect("a valid size");
        let pages = server.free_pages() as u32;
        server.read_cache(PageClass::File, pages, 0);
        let pool = server.new_pool();
        assert_eq!(server.hugetlb_2m(pool, 32), 32);
    }

    /// All of memory is clean, and the kernel's part has room for one: Linux makes no more.
    #[test]
    fn a_fixed_split_gives_no_1g_page_out_of_zone_movable() {
        let mut config = Config::new(PolicyKind::Static);
        config.memory_bytes = 4 << 30;
        config.policy.low_region_ratio = 0.375;
        let mut server = ServerModel::new(&config).expect("a valid size");
        let pool = server.new_pool();
        assert_eq!(server.hugetlb_1g(pool, 4), 1);
    }

    /// What is free below the border of Contiguitas is no room for the pages of the range.
    #[test]
    fn page_cache_makes_room_for_a_1g_page_above_a_border() {
        let mut config = Config::new(PolicyKind::Contiguitas);
        config.memory_bytes = 4 << 30;
        config.policy.low_region_ratio = 0.25;
        let mut server = ServerModel::new(&config).expect("a valid size");
        let (small, pool) = (server.new_pool(), server.new_pool());
        // The highest gigabyte is in 2 MB pages, the lowest of user memory is page cache.
        assert_eq!(server.hugetlb_2m(small, 1500), 1500);
        (900..1500)
            .rev()
            .for_each(|lowest| server.free_entry(small, lowest, 0));
        let pages = server.free_user_pages() as u32;
        server.read_cache(PageClass::File, pages, 0);
        assert_eq!(server.hugetlb_1g(pool, 1), 1);
        assert!(
            server.kernel.zone.block(3 * GIGA_BLOCKS).giga,
            "the highest"
        );
    }
}
