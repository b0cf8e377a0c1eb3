// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reserves of the regions, and kswapd, which keeps them filled.

use super::units::{BLOCK_PAGES, HIGH, LOW};
use super::zone::Zone;

/// Free-page thresholds of one region, in pages (`mm/page_alloc.c: __setup_per_zone_wmarks`).
/// Invariant: `min <= low <= high`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marks {
    /// Below it only atomic requests are served; others reclaim.
    pub min: u64,
    /// Below it kswapd (and the resizer) wakes.
    pub low: u64,
    /// kswapd sleeps again above it.
    pub high: u64,
}

impl Marks {
    /// For a region of `pages`: 0.1 % each step (`watermark_scale_factor` 10), and a minimum
    /// like the one khugepaged recommends for huge pages, `min_free_factor` times.
    fn for_pages(pages: u64, min_free_factor: u64) -> Marks {
        if pages == 0 {
            return Marks::default();
        }
        let step = (pages / 1000).max(64);
        let min = (step * min_free_factor).min(pages / 4);
        let step = step.max(min / 4);
        Marks {
            min,
            low: min + step,
            high: min + 2 * step,
        }
    }
}

/// The marks of both regions, and what kswapd was asked for.
#[derive(Debug)]
pub(crate) struct Watermarks {
    marks: [Marks; 2],
    /// `vm.min_free_kbytes` over its default.
    min_free_factor: u64,
    /// Extra pages kswapd frees after a block was claimed (watermark boost).
    boost_pages: u64,
    /// Whether kswapd works for a region.
    awake: [bool; 2],
    /// Pages kswapd frees above its watermark, for a block that was missing.
    gap_pages: u32,
}

impl Watermarks {
    /// Marks of empty regions, until the first update.
    pub(crate) fn new(min_free_factor: u64) -> Watermarks {
        Watermarks {
            marks: Default::default(),
            min_free_factor,
            boost_pages: 0,
            awake: [false; 2],
            gap_pages: 0,
        }
    }

    /// The marks of a region.
    #[inline]
    pub(crate) fn of(&self, region: usize) -> Marks {
        self.marks[region]
    }

    /// Computes the marks again after the border moved.
    pub(crate) fn update(&mut self, zone: &Zone) {
        for region in [LOW, HIGH] {
            let pages = zone.region_pages(region);
            self.marks[region] = Marks::for_pages(pages, self.min_free_factor);
        }
    }

    /// A block of another type was claimed: kswapd frees a block's worth more, so that the next
    /// request finds a whole one (`boost_watermark`).
    pub(crate) fn boost(&mut self, region: usize) {
        let most = self.marks[region].high * 3 / 2;
        self.boost_pages = (self.boost_pages + u64::from(BLOCK_PAGES)).min(most);
    }

    /// Wakes kswapd for a region.
    #[inline]
    pub(crate) fn wake(&mut self, region: usize) {
        self.awake[region] = true;
    }

    /// Wakes kswapd for a request of `order` that went into the slow path: twice its size is
    /// freed whatever is free (`compact_gap`).
    pub(crate) fn wake_for(&mut self, region: usize, order: u32) {
        self.wake(region);
        if order > 0 {
            self.gap_pages = self.gap_pages.max(2 << order);
        }
    }

    /// Whether kswapd works for a region.
    #[inline]
    pub(crate) fn is_awake(&self, region: usize) -> bool {
        self.awake[region]
    }

    /// Puts kswapd to sleep if it has nothing left to do in a region with `free` free pages;
    /// whether the watermark was boosted, which ends with it. `None` if it must go on.
    pub(crate) fn try_sleep(&mut self, region: usize, free: u64) -> Option<bool> {
        let goal = self.marks[region].high + self.boost_pages;
        if free < goal || self.gap_pages > 0 {
            return None;
        }
        self.awake[region] = false;
        Some(std::mem::take(&mut self.boost_pages) > 0)
    }

    /// The pages for a missing block, which are asked for once.
    pub(crate) fn take_gap(&mut self) -> u32 {
        std::mem::take(&mut self.gap_pages)
    }

    /// Verifies the order of the marks.
    ///
    /// # Errors
    /// A sentence about the first violation.
    pub(crate) fn check(&self) -> Result<(), String> {
        let sorted = |marks: &Marks| marks.min <= marks.low && marks.low <= marks.high;
        if self.marks.iter().all(sorted) {
            return Ok(());
        }
        Err(format!("watermarks out of order: {:?}", self.marks))
    }
}
