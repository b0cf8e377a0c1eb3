// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reserves of the regions, and kswapd, which keeps them filled.

use super::units::{BLOCK_PAGES, HIGH, LOW};
use super::zone::Zone;
use serde::{Deserialize, Serialize};

/// Free-page thresholds of one region, or of a whole machine, in pages (`mm/page_alloc.c`, 6.12:
/// `__setup_per_zone_wmarks`). Those of a region have the invariant `min <= low <= high`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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

    /// Those of a region of `pages` pages that has the share `pages` ÷ `of` of a machine's marks,
    /// with `min_free_factor` times the minimum. The steps between marks are equal in Linux. At
    /// most half of the region is kept free, whatever the machine's are.
    fn part_of(machine: Marks, pages: u64, of: u64, min_free_factor: u64) -> Marks {
        let part =
            |mark: u64| (u128::from(mark) * u128::from(pages) / u128::from(of.max(1))) as u64;
        let min = part(machine.min).saturating_mul(min_free_factor);
        let min = min.min(pages / 4);
        let mut step = part(machine.low.saturating_sub(machine.min));
        if min_free_factor > 1 {
            step = step.max(min / 4);
        }
        let step = step.min(pages / 8);
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
    /// Those of the machine that the server stands for, if they are known.
    machine: Option<Marks>,
    /// The border runs through a zone: what is above it has the marks of the whole machine, and
    /// reclaim keeps no reserve below it for them.
    sides: bool,
    /// Extra pages kswapd frees after a block was claimed (watermark boost).
    boost_pages: u64,
    /// Whether kswapd works for a region.
    awake: [bool; 2],
    /// Pages kswapd frees above its watermark, for a block that was missing.
    gap_pages: u32,
}

impl Watermarks {
    /// Marks of empty regions, until the first update. `sides`: a border that confines runs
    /// through the zone.
    pub(crate) fn new(min_free_factor: u64, machine: Option<Marks>, sides: bool) -> Watermarks {
        Watermarks {
            marks: Default::default(),
            min_free_factor,
            machine,
            sides,
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
            self.marks[region] = match self.machine {
                None => Marks::for_pages(pages, self.min_free_factor),
                Some(machine) if self.sides => match region {
                    LOW => Marks::for_pages(pages, self.min_free_factor),
                    _ => Marks::part_of(machine, pages, pages, self.min_free_factor),
                },
                Some(machine) => {
                    let all = zone.region_pages(LOW) + zone.region_pages(HIGH);
                    Marks::part_of(machine, pages, all, self.min_free_factor)
                }
            };
        }
    }

    /// The low mark of the machine, if its marks are known, in pages.
    pub(crate) fn machine_low_pages(&self) -> Option<u64> {
        self.machine.map(|marks| marks.low)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What `/proc/zoneinfo` of the recorded guests of 1 GB says (`kernel/tests/courses`).
    const GUEST: Marks = Marks {
        min: 5632,
        low: 7040,
        high: 8448,
    };
    const GUEST_PAGES: u64 = 1 << 18;

    fn marks(mut watermarks: Watermarks, border: u32) -> [Marks; 2] {
        let mut zone = Zone::new(GUEST_PAGES as u32, false);
        zone.set_border(border);
        watermarks.update(&zone);
        watermarks.check().expect("sorted");
        [watermarks.of(LOW), watermarks.of(HIGH)]
    }

    #[test]
    fn a_machine_has_its_own_marks_and_zones_share_them() {
        let own = || Watermarks::new(1, Some(GUEST), false);
        assert_eq!(marks(own(), 0), [Marks::default(), GUEST]);
        let half = Marks {
            min: 2816,
            low: 3520,
            high: 4224,
        };
        assert_eq!(marks(own(), 1 << 17), [half, half]);
        let scaled = Marks::for_pages(GUEST_PAGES, 1);
        assert_eq!((scaled.min, scaled.high), (262, 786));
        assert_eq!(marks(Watermarks::new(1, None, false), 0)[HIGH], scaled);
    }

    #[test]
    fn a_border_inside_a_zone_leaves_the_marks_to_what_is_above() {
        let own = Watermarks::new(1, Some(GUEST), true);
        assert_eq!(own.machine_low_pages(), Some(7040));
        let scaled = Marks::for_pages(1 << 16, 1);
        assert_eq!(marks(own, 1 << 16), [scaled, GUEST]);
    }

    #[test]
    fn at_most_half_of_memory_is_kept_free() {
        let tenfold = marks(Watermarks::new(10, Some(GUEST), false), 0)[HIGH];
        assert_eq!((tenfold.min, tenfold.low), (56_320, 56_320 + 14_080));
        let absurd = Marks {
            min: u64::MAX,
            low: 3,
            high: 0,
        };
        let absurd = marks(Watermarks::new(u64::MAX, Some(absurd), false), 0)[HIGH];
        assert!(absurd.high <= GUEST_PAGES / 2);
    }
}
