// SPDX-License-Identifier: MIT OR Apache-2.0
//! Orders, sizes and regions that all parts of the memory share.

use ample_pfn::{MAX_PAGE_ORDER, MigrateType, PAGEBLOCK_ORDER};

/// Largest order of the buddy lists.
pub const MAX_ORDER: u32 = MAX_PAGE_ORDER;
/// Order of a pageblock and of a 2 MB page.
pub const BLOCK_ORDER: u32 = PAGEBLOCK_ORDER.0 as u32;
/// Pages in a pageblock.
pub const BLOCK_PAGES: u32 = 1 << BLOCK_ORDER;
/// Order of a 1 GB page.
pub const GIGA_ORDER: u32 = 18;
/// Pageblocks in a 1 GB page.
pub const GIGA_BLOCKS: u32 = 1 << (GIGA_ORDER - BLOCK_ORDER);
/// Migratetypes with free lists of their own: `MigrateType::REQUESTED`.
pub const TYPES: usize = 3;

/// Region below the border: unmovable under Contiguitas, ZONE_NORMAL under a static split.
pub const LOW: usize = 0;
/// Region above the border; the whole memory where there is no border.
pub const HIGH: usize = 1;

/// One buddy list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeList {
    /// [`LOW`] or [`HIGH`].
    pub region: usize,
    /// Its blocks have 2^`order` pages.
    pub order: u32,
    /// Migratetype of the pageblocks that its blocks lie in.
    pub mt: MigrateType,
}

impl FreeList {
    /// The list of single pages.
    pub const fn single(region: usize, mt: MigrateType) -> FreeList {
        let order = 0;
        FreeList { region, order, mt }
    }
}
