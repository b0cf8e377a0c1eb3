// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options and sizes of a page heap.

use super::CacheCounters;
use crate::units::{DENSITIES, NATIVES, PAGES_PER_HUGE};

/// Hugepages that the cache may keep whatever the demand does. The reference keeps 10; 4 are
/// enough for a loop that drains a few hugepages, and leave less behind after a burst.
const CACHE_MIN_HUGEPAGES: usize = 4;

/// What can be switched off, to measure its worth.
#[derive(Clone, Copy, Debug)]
pub struct HeapOptions {
    /// Whether regions are used.
    pub regions: bool,
    /// Whether sparse and dense spans are kept on separate hugepages.
    pub split_by_density: bool,
    /// Hugepages that the cache may always keep.
    pub cache_min_hugepages: usize,
    /// Free memory is kept beyond the highest use in so many seconds.
    pub window_s: u32,
}

impl HeapOptions {
    /// What holds without options.
    pub const DEFAULT: HeapOptions = HeapOptions {
        regions: true,
        split_by_density: true,
        cache_min_hugepages: CACHE_MIN_HUGEPAGES,
        window_s: 2,
    };
}

impl Default for HeapOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What adds up over the heaps of all nodes.
pub trait Sum {
    /// Adds what another heap has.
    fn include(&mut self, other: &Self);
}

impl Sum for usize {
    fn include(&mut self, other: &usize) {
        *self += other;
    }
}

impl Sum for u64 {
    fn include(&mut self, other: &u64) {
        *self += other;
    }
}

impl<const N: usize> Sum for [usize; N] {
    fn include(&mut self, other: &[usize; N]) {
        self.iter_mut()
            .zip(other)
            .for_each(|(sum, more)| *sum += more);
    }
}

/// Structures that add up field by field.
macro_rules! sums {
    ($($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$doc:meta])* pub $field:ident: $kind:ty,)*
    })*) => {$(
        $(#[$meta])*
        pub struct $name {
            $($(#[$doc])* pub $field: $kind,)*
        }

        impl Sum for $name {
            fn include(&mut self, other: &$name) {
                $(self.$field.include(&other.$field);)*
            }
        }
    )*};
}

pub(super) use sums;

sums! {
    /// Sizes of the page heap's parts.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct HeapSizes {
        /// Spans smaller than a hugepage.
        pub filler: FillerSizes,
        /// Backed hugepages in the cache.
        pub cache_hugepages: usize,
        /// The most hugepages the cache may hold.
        pub cache_limit_hugepages: usize,
        /// Counters of the cache.
        pub cache: CacheCounters,
        /// Pages in use on whole hugepages of large spans.
        pub large_pages: usize,
        /// Regions, and their pages in use and backed hugepages.
        pub regions: usize,
        /// Pages in use in regions.
        pub region_used_pages: usize,
        /// Hugepages of regions that have memory.
        pub region_backed_hugepages: usize,
        /// Pages of donated tails that the donating spans leave to others: slack.
        pub slack_pages: usize,
        /// Hugepages of address space reserved.
        pub reserved_hugepages: usize,
        /// Hugepages of reserved address space that are free and unbacked.
        pub free_hugepages: usize,
        /// Hugepages lost to a lack of metadata memory.
        pub leaked_hugepages: usize,
        /// Pages in use by spans.
        pub used_pages: usize,
        /// Bytes given back to the system: whole hugepages and parts of hugepages.
        pub released_bytes: u64,
        /// The part of `released_bytes` that broke a hugepage.
        pub subreleased_bytes: u64,
        /// What became of hugepages that were mapped with native pages.
        pub rebuilds: Rebuilds,
    }

    /// What became of hugepages that were mapped with native pages.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct Rebuilds {
        /// Hugepages rebuilt by a collapse.
        pub collapsed: u64,
        /// Collapses that the system refused.
        pub refused: u64,
        /// Hugepages that the system turned out to have mapped with native pages.
        pub found_native: u64,
        /// Hugepages of those that it has rebuilt by itself since.
        pub found_whole: u64,
    }

    /// What the filler holds.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct FillerSizes {
        /// Hugepages held.
        pub hugepages: usize,
        /// Pages in use, by density.
        pub used_pages: [usize; DENSITIES],
        /// Free pages that were given back to the system.
        pub released_pages: usize,
        /// Native pages that were given back inside spans in use.
        pub hole_natives: usize,
        /// Hugepages that the heap has broken.
        pub broken_hugepages: usize,
        /// Pages in use on those.
        pub broken_used_pages: usize,
        /// Hugepages that the system maps with native pages though nothing of them was released.
        pub native_hugepages: usize,
        /// Whole hugepages, by density.
        pub regular: [usize; DENSITIES],
        /// Hugepages with a donated tail.
        pub donated: usize,
        /// Hugepages of which some free pages were released.
        pub partly_released: usize,
        /// Hugepages of which all free pages were released.
        pub released: usize,
    }
}

impl Rebuilds {
    /// A heap without hugepages.
    pub const NONE: Rebuilds = Rebuilds {
        collapsed: 0,
        refused: 0,
        found_native: 0,
        found_whole: 0,
    };
}

impl HeapSizes {
    /// Pages that have memory, in use or not.
    pub const fn backed_pages(&self) -> usize {
        self.filler.hugepages * PAGES_PER_HUGE - self.filler.released_pages
            + self.cache_hugepages * PAGES_PER_HUGE
            + self.region_backed_hugepages * PAGES_PER_HUGE
            + self.large_pages
            - self.filler.hole_pages()
    }

    /// Pages in use by spans that have memory.
    pub const fn in_use_pages(&self) -> usize {
        self.used_pages - self.filler.hole_pages()
    }
}

impl FillerSizes {
    /// The pages that the native pages without memory inside spans add up to.
    pub const fn hole_pages(&self) -> usize {
        self.hole_natives / NATIVES
    }

    /// Pages in use.
    pub const fn used(&self) -> usize {
        let (mut sum, mut index) = (0, 0);
        while index < DENSITIES {
            sum += self.used_pages[index];
            index += 1;
        }
        sum
    }

    /// Free pages that still have memory.
    pub const fn free_backed_pages(&self) -> usize {
        self.hugepages * PAGES_PER_HUGE - self.used() - self.released_pages
    }
}
