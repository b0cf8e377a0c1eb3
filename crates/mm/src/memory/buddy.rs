// SPDX-License-Identifier: MIT OR Apache-2.0
//! The physical memory of one simulated server: frames, pageblocks, buddy lists of up to two
//! regions. What every policy shares.

use crate::Rng;
use crate::compact::{Deferral, Scanners};
use crate::config::Rules;
use crate::counters::Counters;
use crate::frame::{Frames, Kind, MAX_POOLS, State, requested_type};
use crate::kcompactd::Kcompactd;
use crate::list::List;
use crate::psi::Psi;
use ample_pfn::{MigrateType, PageClass, is_movable};
use std::collections::VecDeque;

/// Largest order of the buddy lists (`MAX_PAGE_ORDER` of x86-64, 6.12).
pub const MAX_ORDER: u32 = 10;
/// Order of a pageblock and of a 2 MB page.
pub const BLOCK_ORDER: u32 = 9;
/// Pages in a pageblock.
pub const BLOCK_PAGES: u32 = 1 << BLOCK_ORDER;
/// Order of a 1 GB page.
pub const GIGA_ORDER: u32 = 18;
/// Per-CPU lists exist for orders below this (`PAGE_ALLOC_COSTLY_ORDER` + 1).
pub(crate) const PCP_ORDERS: u32 = 4;

/// Region below the border: unmovable under Contiguitas, ZONE_NORMAL under a static split.
pub const LOW: usize = 0;
/// Region above the border; the whole memory where there is no border.
pub const HIGH: usize = 1;

/// One 2 MB pageblock.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub(crate) mt: MigrateType,
    /// Being emptied: frees stay off the lists.
    pub(crate) isolated: bool,
    /// Part of a 1 GB page.
    pub(crate) giga: bool,
    /// Pages on buddy lists.
    pub(crate) free: u16,
    /// Used pages that software can move.
    pub(crate) movable: u16,
    /// Used pages that it cannot, and frames that never were the allocator's.
    pub(crate) fixed: u16,
}

/// The buddy lists of one region. With more than one band, each band of addresses has its own
/// lists, so that the allocator can prefer the end away from the border.
#[derive(Clone, Debug)]
pub struct Area {
    shift: u32,
    lists: Vec<List>,
    mask: Vec<[u16; 3]>,
    /// Pages on the lists.
    pub(crate) free_pages: u64,
}

const ORDERS: usize = MAX_ORDER as usize + 1;
/// Order of a band when placement is biased: 32 MB.
const BAND_SHIFT: u32 = 13;

impl Area {
    fn new(frames: u32, banded: bool) -> Area {
        let shift = if banded { BAND_SHIFT } else { 31 };
        let bands = (frames.saturating_sub(1) >> shift) as usize + 1;
        Area {
            shift,
            lists: vec![List::EMPTY; bands * ORDERS * 3],
            mask: vec![[0; 3]; bands],
            free_pages: 0,
        }
    }

    #[inline]
    fn at(&self, pfn: u32, order: u32, mt: MigrateType) -> (usize, usize) {
        let band = (pfn >> self.shift) as usize;
        (band, (band * ORDERS + order as usize) * 3 + mt as usize)
    }

    /// First band (from the far end, or from the border) with a block of `order` or more.
    #[inline]
    fn find(&self, order: u32, mt: MigrateType, near_border: bool) -> Option<(usize, u32)> {
        let hit = |mask: &[u16; 3]| mask[mt as usize] >> order != 0;
        let band = if near_border {
            self.mask.iter().rposition(hit)?
        } else {
            self.mask.iter().position(hit)?
        };
        let rest = self.mask[band][mt as usize] >> order;
        Some((band, order + rest.trailing_zeros()))
    }

    /// Bit `o` set: a block of exactly order `o` is on a list of `mt`.
    #[inline]
    pub(crate) fn orders(&self, mt: MigrateType) -> u16 {
        self.mask
            .iter()
            .fold(0, |orders, mask| orders | mask[mt as usize])
    }

    /// The first block of exactly `order` on a list of `mt`.
    pub(crate) fn first(&self, order: u32, mt: MigrateType) -> Option<u32> {
        let band = self
            .mask
            .iter()
            .position(|mask| mask[mt as usize] >> order & 1 == 1)?;
        self.lists[(band * ORDERS + order as usize) * 3 + mt as usize].head()
    }

    /// Free blocks of `order` of any type.
    pub(crate) fn count(&self, order: u32) -> u64 {
        let lists = self.lists.chunks(3).skip(order as usize).step_by(ORDERS);
        lists.flatten().map(|list| u64::from(list.len())).sum()
    }

    /// The blocks that [`Core::take`] would hand out next, up to `count` of each order, gaps left
    /// in.
    #[inline]
    pub(crate) fn next_blocks(
        &self,
        order: u32,
        mt: MigrateType,
        count: u32,
    ) -> impl Iterator<Item = u32> + '_ {
        let found = self.find(order, mt, false);
        found.into_iter().flat_map(move |(band, _)| {
            let lists = (order..=MAX_ORDER).map(move |o| (band * ORDERS + o as usize) * 3);
            lists.flat_map(move |list| self.lists[list + mt as usize].near_head(count))
        })
    }

    pub(crate) fn all_lists(&self) -> impl Iterator<Item = (u32, MigrateType, &List)> + '_ {
        self.lists.iter().enumerate().map(|(index, list)| {
            let order = (index / 3 % ORDERS) as u32;
            (order, requested_type((index % 3) as u32), list)
        })
    }
}

/// Free-page thresholds of one region, in pages (`mm/page_alloc.c: __setup_per_zone_wmarks`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Watermarks {
    /// Below it only atomic requests are served; others reclaim.
    pub min: u64,
    /// Below it kswapd (and the resizer) wakes.
    pub low: u64,
    /// kswapd sleeps again above it.
    pub high: u64,
}

impl Watermarks {
    /// For a region of `pages`: 0.1 % each step (`watermark_scale_factor` 10), and a minimum
    /// like the one khugepaged recommends for huge pages.
    pub(crate) fn for_pages(pages: u64) -> Watermarks {
        let step = (pages / 1000).max(64);
        Watermarks {
            min: step,
            low: 2 * step,
            high: 3 * step,
        }
    }
}

/// Free pages of one CPU, by region, order and type.
#[derive(Clone, Debug)]
pub(crate) struct Cpu {
    pub(crate) lists: Vec<VecDeque<u32>>,
}

/// The memory itself. Public operations are on [`crate::Server`]; policies work on this.
#[derive(Debug)]
pub struct Core {
    pub(crate) frames: Frames,
    pub(crate) blocks: Vec<Block>,
    pub(crate) areas: [Area; 2],
    /// First frame above the border; 0 without one.
    pub(crate) border: u32,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) pcp_pages: [u64; 2],
    /// Pages that owners hold, by pool: first frames of their blocks.
    pub(crate) pools: Vec<Vec<u32>>,
    /// Inactive and active page cache.
    pub(crate) lru: [List; 2],
    pub(crate) isolated_pages: u64,
    pub(crate) watermarks: [Watermarks; 2],
    /// Extra pages kswapd frees after a block was claimed (watermark boost).
    pub(crate) boost_pages: u64,
    pub(crate) kswapd_awake: [bool; 2],
    /// Pages kswapd frees above its watermark, for a block that was not to be had.
    pub(crate) kswapd_gap: u32,
    /// The scanners of direct compaction and of kcompactd's requests.
    pub(crate) scanners: Scanners,
    /// When compaction may be tried again.
    pub(crate) deferral: Deferral,
    pub(crate) kcompactd: Kcompactd,
    /// Pools whose pages a shrinker may free.
    pub(crate) shrinkable: Vec<u32>,
    pub(crate) rules: Rules,
    pub(crate) counters: Counters,
    pub(crate) psi: Psi,
    pub(crate) rng: Rng,
    pub(crate) now_ns: u64,
}

impl Core {
    /// Memory of `count` frames, all still `Fixed` holes; [`Core::release`] hands them over.
    pub(crate) fn new(count: u32, cpus: usize, rules: Rules, seed: u64) -> Core {
        let block_count = count.div_ceil(BLOCK_PAGES);
        let block = Block {
            mt: MigrateType::Movable,
            isolated: false,
            giga: false,
            free: 0,
            movable: 0,
            fixed: 0,
        };
        let cpu = Cpu {
            lists: vec![VecDeque::new(); 2 * PCP_ORDERS as usize * 3],
        };
        Core {
            frames: Frames::new(count),
            blocks: vec![block; block_count as usize],
            areas: [Area::new(count, rules.banded), Area::new(count, false)],
            border: 0,
            cpus: vec![cpu; cpus.max(1)],
            pcp_pages: [0; 2],
            pools: Vec::new(),
            lru: [List::EMPTY; 2],
            isolated_pages: 0,
            watermarks: [Watermarks::default(); 2],
            boost_pages: 0,
            kswapd_awake: [false; 2],
            kswapd_gap: 0,
            scanners: Scanners {
                migrate: 0,
                free: block_count,
            },
            deferral: Deferral::default(),
            kcompactd: Kcompactd::default(),
            shrinkable: Vec::new(),
            rules,
            counters: Counters::default(),
            psi: Psi::default(),
            rng: Rng::new(seed),
            now_ns: 0,
        }
    }

    /// The region of a frame.
    #[inline]
    pub fn region(&self, pfn: u32) -> usize {
        usize::from(pfn >= self.border)
    }

    /// Frames of a region.
    pub fn region_pages(&self, region: usize) -> u64 {
        let border = u64::from(self.border);
        [border, u64::from(self.frames.len()) - border][region]
    }

    /// Free pages of a region, per-CPU lists left out.
    #[inline]
    pub fn free_pages(&self, region: usize) -> u64 {
        self.areas[region].free_pages
    }

    /// Free pages of the regions that movable pages may go to, per-CPU lists left out.
    pub(crate) fn free_user_pages(&self) -> u64 {
        let regions = self.rules.route[MigrateType::Movable as usize];
        regions.iter().map(|&region| self.free_pages(region)).sum()
    }

    /// Recomputes the watermarks after the border moved.
    pub(crate) fn set_watermarks(&mut self) {
        for region in [LOW, HIGH] {
            let pages = self.region_pages(region);
            self.watermarks[region] = match pages {
                0 => Watermarks::default(),
                pages => Watermarks::for_pages(pages),
            };
        }
    }

    /// Visits the pageblocks of a block with the pages it has in each.
    #[inline]
    fn in_blocks(&mut self, pfn: u32, order: u32, mut visit: impl FnMut(&mut Block, u16)) {
        let first = (pfn >> BLOCK_ORDER) as usize;
        if order <= BLOCK_ORDER {
            visit(&mut self.blocks[first], 1 << order);
            return;
        }
        for block in &mut self.blocks[first..first + (1 << (order - BLOCK_ORDER))] {
            visit(block, BLOCK_PAGES as u16);
        }
    }

    #[inline]
    fn count_free(&mut self, pfn: u32, order: u32, add: bool) {
        self.in_blocks(pfn, order, |block, pages| {
            block.free = if add {
                block.free + pages
            } else {
                block.free - pages
            };
        });
    }

    /// Puts a free block on its list.
    #[inline]
    pub(crate) fn insert(&mut self, pfn: u32, order: u32, mt: MigrateType, tail: bool) {
        let area = &mut self.areas[usize::from(pfn >= self.border)];
        let (band, index) = area.at(pfn, order, mt);
        let list = &mut area.lists[index];
        let place = if tail {
            list.push_tail(&mut self.frames, pfn)
        } else {
            list.push_head(&mut self.frames, pfn)
        };
        area.mask[band][mt as usize] |= 1 << order;
        area.free_pages += 1 << order;
        let state = State::free(Kind::Free, order, mt);
        self.frames.set(pfn, state.at(place));
        self.count_free(pfn, order, true);
    }

    /// Takes a given free block off its list.
    #[inline]
    pub(crate) fn remove(&mut self, pfn: u32) {
        let state = self.frames.get(pfn);
        let (order, mt) = (state.order(), state.mt());
        let area = &mut self.areas[usize::from(pfn >= self.border)];
        let (band, index) = area.at(pfn, order, mt);
        let list = &mut area.lists[index];
        list.remove(state.place());
        if list.len() == 0 {
            area.mask[band][mt as usize] &= !(1 << order);
        }
        area.free_pages -= 1 << order;
        self.frames.set(pfn, State::INTERIOR);
        self.count_free(pfn, order, false);
    }

    /// Frees a block into the buddy lists, merging as far as it goes.
    pub(crate) fn free_block(&mut self, mut pfn: u32, mut order: u32) {
        let block = self.blocks[(pfn >> BLOCK_ORDER) as usize];
        if block.isolated {
            self.isolated_pages += 1 << order;
            self.frames
                .set(pfn, State::free(Kind::Isolated, order, block.mt));
            return;
        }
        let mt = block.mt;
        let region = self.region(pfn);
        while order < MAX_ORDER {
            let buddy = pfn ^ 1 << order;
            if buddy >= self.frames.len() || !self.frames.get(buddy).is_free_of(order) {
                break;
            }
            // A buddy never reaches over the border.
            if order >= BLOCK_ORDER && self.region(buddy) != region {
                break;
            }
            self.remove(buddy);
            self.frames.set(pfn, State::INTERIOR);
            pfn &= !(1 << order);
            order += 1;
        }
        if order > BLOCK_ORDER {
            let first = (pfn >> BLOCK_ORDER) as usize;
            self.blocks[first].mt = mt;
            self.blocks[first + 1].mt = mt;
        }
        // A block whose neighbour may soon be free too goes to the tail, to be taken late.
        let tail = order + 1 < MAX_ORDER && {
            let above = (pfn & !(1 << order)) ^ 1 << (order + 1);
            above < self.frames.len() && self.frames.get(above).is_free_of(order + 1)
        };
        self.insert(pfn, order, mt, tail);
    }

    /// Takes a block of `order` from the smallest list of `mt` that has one; the frame is left
    /// as the interior of nothing, the caller gives it a state.
    #[inline]
    pub(crate) fn take(&mut self, region: usize, order: u32, mt: MigrateType) -> Option<u32> {
        self.take_from(region, order, mt, false)
    }

    /// As [`Core::take`], from the band nearest to the border if `near_border`.
    pub(crate) fn take_from(
        &mut self,
        region: usize,
        order: u32,
        mt: MigrateType,
        near_border: bool,
    ) -> Option<u32> {
        let area = &self.areas[region];
        let (band, found) = area.find(order, mt, near_border)?;
        let pfn = area.lists[(band * ORDERS + found as usize) * 3 + mt as usize].head()?;
        self.remove(pfn);
        self.split(pfn, found, order, mt);
        Some(pfn)
    }

    /// Takes up to `most` neighbouring blocks of `order`: all from the smallest block of `mt` that
    /// holds one, as that many calls of [`Core::take`] would. The first of them and how many.
    #[inline]
    pub(crate) fn take_run(
        &mut self,
        region: usize,
        order: u32,
        mt: MigrateType,
        most: u32,
    ) -> Option<(u32, u32)> {
        let area = &self.areas[region];
        let (band, found) = area.find(order, mt, false)?;
        let pfn = area.lists[(band * ORDERS + found as usize) * 3 + mt as usize].head()?;
        self.remove(pfn);
        let count = most.min(1 << (found - order));
        let end = pfn + (1 << found);
        let mut rest = pfn + (count << order);
        while rest < end {
            let order = rest.trailing_zeros();
            self.insert(rest, order, mt, false);
            rest += 1 << order;
        }
        Some((pfn, count))
    }

    /// Returns the upper halves of a block of order `from` until `to` is left at `pfn`.
    pub(crate) fn split(&mut self, pfn: u32, from: u32, to: u32, mt: MigrateType) {
        for order in (to..from).rev() {
            self.insert(pfn + (1 << order), order, mt, false);
        }
    }

    /// Books `pages` used (or no longer used) pages of a class in their blocks.
    #[inline]
    pub(crate) fn account(&mut self, pfn: u32, order: u32, class: PageClass, add: bool) {
        let movable = is_movable(class);
        self.in_blocks(pfn, order, |block, pages| {
            let count = if movable {
                &mut block.movable
            } else {
                &mut block.fixed
            };
            *count = if add { *count + pages } else { *count - pages };
        });
    }

    /// Makes a taken block a used one.
    #[inline]
    pub(crate) fn set_used(&mut self, pfn: u32, order: u32, class: PageClass) {
        self.frames.set(pfn, State::used(order, class));
        self.account(pfn, order, class, true);
    }

    /// Hands frames `[from, to)` that are in no block yet to the buddy lists.
    pub(crate) fn release(&mut self, mut from: u32, to: u32) {
        while from < to {
            let fit = (to - from).ilog2().min(MAX_ORDER);
            let order = from.trailing_zeros().min(fit);
            self.free_block(from, order);
            from += 1 << order;
        }
    }

    /// First block head at or after the start of block `b` that lies in it; `None` if the block
    /// is inside a larger one. Returns the head and the frames of it that lie in the block.
    pub(crate) fn cover(&self, b: u32) -> Option<u32> {
        if b & 1 == 1 {
            let below = self.frames.get((b - 1) << BLOCK_ORDER);
            let whole = below.kind() != Kind::Interior && below.order() == MAX_ORDER;
            if whole && !self.blocks[b as usize - 1].giga {
                return Some((b - 1) << BLOCK_ORDER);
            }
        }
        None
    }

    /// Calls `visit` with each block head of pageblock `b` (an order-10 block is visited from
    /// its first pageblock only; pageblocks of a 1 GB page are skipped).
    pub(crate) fn heads(&self, b: u32, mut visit: impl FnMut(u32, State)) {
        if self.blocks[b as usize].giga || self.cover(b).is_some() {
            return;
        }
        let start = b << BLOCK_ORDER;
        let end = (start + BLOCK_PAGES).min(self.frames.len());
        let mut pfn = start;
        while pfn < end {
            let state = self.frames.get(pfn);
            visit(pfn, state);
            pfn = state.next_head(pfn);
        }
    }

    /// The free blocks that begin in pageblock `b`, with their orders. Stops where the count of
    /// the pageblock says that no more follow.
    pub(crate) fn free_in(&self, b: u32) -> Vec<(u32, u32)> {
        let mut found = Vec::new();
        let mut left = u32::from(self.blocks[b as usize].free);
        if self.cover(b).is_some() {
            return found;
        }
        let mut pfn = b << BLOCK_ORDER;
        while left > 0 {
            pfn = self.frames.skip_to_free(pfn);
            let state = self.frames.get(pfn);
            if state.kind() == Kind::Free {
                found.push((pfn, state.order()));
                left -= state.pages().min(left);
            }
            pfn = state.next_head(pfn);
        }
        found
    }

    /// Moves the free pages of block `b` to the lists of `mt` and retypes it
    /// (`move_freepages_block`).
    pub(crate) fn retype_block(&mut self, b: u32, mt: MigrateType) {
        for (pfn, order) in self.free_in(b) {
            if self.frames.get(pfn).mt() == mt {
                continue;
            }
            self.remove(pfn);
            self.insert(pfn, order, mt, false);
            if order > BLOCK_ORDER {
                self.blocks[b as usize + 1].mt = mt;
            }
        }
        self.blocks[b as usize].mt = mt;
    }

    /// Returns all per-CPU pages to the buddy lists.
    pub(crate) fn drain_all(&mut self) {
        for cpu in 0..self.cpus.len() {
            for index in 0..self.cpus[cpu].lists.len() {
                let mut list = std::mem::take(&mut self.cpus[cpu].lists[index]);
                let orders = PCP_ORDERS as usize;
                let (region, order) = (index / (3 * orders), index / 3 % orders);
                self.pcp_pages[region] -= (list.len() << order) as u64;
                for pfn in list.drain(..) {
                    self.free_block(pfn, order as u32);
                }
                self.cpus[cpu].lists[index] = list;
            }
        }
    }

    /// Whether there can be another pool.
    pub(crate) fn pools_left(&self) -> bool {
        self.pools.len() < MAX_POOLS
    }

    /// A new, empty pool of owned pages; its number.
    pub(crate) fn new_pool(&mut self) -> u32 {
        assert!(self.pools_left(), "more pools than a frame can name");
        self.pools.push(Vec::new());
        self.pools.len() as u32 - 1
    }

    /// Adds a used block to a pool.
    #[inline]
    pub(crate) fn pool_push(&mut self, pool: u32, pfn: u32) {
        let pages = &mut self.pools[pool as usize];
        let state = self.frames.get(pfn);
        self.frames
            .set(pfn, state.in_pool(pool, pages.len() as u32));
        pages.push(pfn);
    }

    /// Takes the entry at `index` out of a pool; the last entry fills the gap.
    #[inline]
    pub(crate) fn pool_take(&mut self, pool: u32, index: u32) -> u32 {
        let pages = &mut self.pools[pool as usize];
        let pfn = pages.swap_remove(index as usize);
        if let Some(&moved) = pages.get(index as usize) {
            let state = self.frames.get(moved);
            self.frames.set(moved, state.in_pool(pool, index));
        }
        pfn
    }
}
