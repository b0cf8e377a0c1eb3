// SPDX-License-Identifier: MIT OR Apache-2.0
//! One 2 MB pageblock: its type and the counts of its pages.

use super::units::BLOCK_PAGES;
use ample_pfn::MigrateType;

/// A pageblock. Invariant: the counts are those of its pages, and their sum, with the pages on
/// per-CPU lists and those isolated, is [`BLOCK_PAGES`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// Type of the free lists that its pages go to.
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

impl Block {
    /// A movable block none of whose frames is in use or on a list yet.
    pub(crate) const EMPTY: Block = Block {
        mt: MigrateType::Movable,
        isolated: false,
        giga: false,
        free: 0,
        movable: 0,
        fixed: 0,
    };

    /// Whether all its pages are on buddy lists.
    pub(crate) fn is_free(&self) -> bool {
        u32::from(self.free) == BLOCK_PAGES
    }

    /// Counts `pages` more (or fewer) pages on buddy lists.
    #[inline]
    pub(crate) fn count_free(&mut self, pages: u16, add: bool) {
        add_or_subtract(&mut self.free, pages, add);
    }

    /// Counts `pages` more (or fewer) pages in use.
    #[inline]
    pub(crate) fn count_used(&mut self, pages: u16, movable: bool, add: bool) {
        let count = if movable {
            &mut self.movable
        } else {
            &mut self.fixed
        };
        add_or_subtract(count, pages, add);
    }
}

#[inline]
fn add_or_subtract(count: &mut u16, pages: u16, add: bool) {
    debug_assert!(
        if add {
            u32::from(*count) + u32::from(pages) <= BLOCK_PAGES
        } else {
            *count >= pages
        },
        "a count leaves its pageblock: {count} and {pages} pages"
    );
    *count = if add { *count + pages } else { *count - pages };
}
