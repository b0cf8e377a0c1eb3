// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page frame numbers, orders and half-open ranges of frames.

use serde::{Deserialize, Serialize};

/// Bytes of a base page. Ample models x86-64, where this is not configurable.
pub const BASE_PAGE_BYTES: u64 = 4096;
/// Order of a pageblock, the unit in which Linux tracks migratetypes on x86-64 with huge pages
/// (`pageblock_order` = `HUGETLB_PAGE_ORDER` = 9 in `include/linux/pageblock-flags.h`, 6.12).
pub const PAGEBLOCK_ORDER: Order = Order(9);
/// Largest order of the buddy allocator's blocks (`MAX_PAGE_ORDER` of x86-64, 6.12): 4 MB.
pub const MAX_PAGE_ORDER: u32 = 10;
/// 4 KB pages in a pageblock.
pub const PAGES_PER_PAGEBLOCK: u64 = 1 << 9;

/// A page frame number: physical address divided by 4096.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Pfn(pub u64);

impl Pfn {
    /// First frame of the aligned block of `order` that contains this frame.
    pub fn align_down(self, order: Order) -> Pfn {
        Pfn(self.0 & !(order.pages() - 1))
    }

    /// First aligned block boundary of `order` at or above this frame; saturates at the top.
    pub fn align_up(self, order: Order) -> Pfn {
        Pfn(self.0.saturating_add(order.pages() - 1)).align_down(order)
    }
}

impl std::fmt::Display for Pfn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "pfn {:#x}", self.0)
    }
}

/// A power-of-two block size: `2^order` base pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Order(pub u8);

impl Order {
    /// Largest order the metrics accept: 2^28 pages = 1 TB blocks.
    pub const MAX: Order = Order(28);

    /// Number of 4 KB pages in a block of this order.
    pub const fn pages(self) -> u64 {
        1 << self.0
    }

    /// Bytes in a block of this order.
    pub const fn bytes(self) -> u64 {
        BASE_PAGE_BYTES << self.0
    }
}

/// A half-open range of frames `[start, end)`, which does not end before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "Ends")]
pub struct PfnRange {
    /// First frame.
    pub start: Pfn,
    /// One past the last frame.
    pub end: Pfn,
}

/// A range as it is written.
#[derive(Deserialize)]
struct Ends {
    start: Pfn,
    end: Pfn,
}

impl TryFrom<Ends> for PfnRange {
    type Error = String;

    fn try_from(Ends { start, end }: Ends) -> Result<PfnRange, String> {
        if end < start {
            return Err(format!(
                "a range of frames ends at {}, before its start at {}",
                end.0, start.0
            ));
        }
        Ok(PfnRange { start, end })
    }
}

impl PfnRange {
    /// The range `[start, end)`; an end before the start gives the empty range at `start`.
    #[inline]
    pub fn new(start: Pfn, end: Pfn) -> PfnRange {
        PfnRange {
            start,
            end: end.max(start),
        }
    }

    /// Number of frames.
    #[inline]
    pub fn pages(self) -> u64 {
        self.end.0 - self.start.0
    }

    /// Whether no frame is in the range.
    pub fn is_empty(self) -> bool {
        self.pages() == 0
    }

    /// Whether `pfn` lies in the range.
    pub fn contains(self, pfn: Pfn) -> bool {
        self.start <= pfn && pfn < self.end
    }

    /// Frames that both ranges contain (possibly none).
    #[inline]
    pub fn intersect(self, other: PfnRange) -> PfnRange {
        PfnRange::new(self.start.max(other.start), self.end.min(other.end))
    }

    /// Aligned blocks of `order` that lie wholly inside, as a range of frames (possibly empty).
    pub fn inner_blocks(self, order: Order) -> PfnRange {
        PfnRange::new(self.start.align_up(order), self.end.align_down(order))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alignment_rounds_towards_the_block() {
        let order = Order(9);
        assert_eq!(Pfn(513).align_down(order), Pfn(512));
        assert_eq!(Pfn(513).align_up(order), Pfn(1024));
        assert_eq!(
            Pfn(u64::MAX).align_up(order),
            Pfn(u64::MAX).align_down(order)
        );
    }

    #[test]
    fn inner_blocks_of_a_short_range_are_empty() {
        let range = PfnRange::new(Pfn(1), Pfn(1023));
        assert!(range.inner_blocks(Order(9)).is_empty());
        assert_eq!(PfnRange::new(Pfn(5), Pfn(2)).pages(), 0);
    }
}
