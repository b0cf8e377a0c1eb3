// SPDX-License-Identifier: MIT OR Apache-2.0
//! Units of the page heap.
//!
//! A *page* here is the allocator's own page of 8 KiB (two native pages on x86-64), as in the
//! paper (section 3). A *hugepage* is 2 MiB. Addresses are plain `usize`; page numbers are an
//! address divided by 8 KiB and hugepage numbers an address divided by 2 MiB, so a number of one
//! kind never needs a base to become the other.

/// log2 of the allocator's page size in bytes.
pub const PAGE_SHIFT: u32 = 13;
/// The allocator's page size in bytes.
pub const PAGE_BYTES: usize = 1 << PAGE_SHIFT;
/// log2 of the hugepage size in bytes.
pub const HUGE_SHIFT: u32 = 21;
/// The hugepage size in bytes.
pub const HUGE_BYTES: usize = 1 << HUGE_SHIFT;
/// log2 of the pages in one hugepage.
pub const HUGE_PAGES_SHIFT: u32 = HUGE_SHIFT - PAGE_SHIFT;
/// Pages in one hugepage.
pub const PAGES_PER_HUGE: usize = 1 << HUGE_PAGES_SHIFT;
/// The native page size that memory is counted in, in bytes; that of the kernel may be larger
/// ([`crate::os::sys::native_bytes`]).
pub const NATIVE_BYTES: usize = 4096;
/// Native pages in a page of the allocator.
pub const NATIVES: usize = PAGE_BYTES / NATIVE_BYTES;
/// Bits of a user-space virtual address (x86-64 four-level paging, AArch64 with 48 bits).
pub const ADDRESS_BITS: u32 = 48;
/// Those of addresses that the kernel gives to programs: on x86-64 the upper half of 48 bits is its
/// own, on AArch64 it has as many of its own beside them (Linux 6.12,
/// `Documentation/arch/arm64/memory.rst`).
pub const USER_BITS: u32 = if cfg!(target_arch = "x86_64") {
    ADDRESS_BITS - 1
} else {
    ADDRESS_BITS
};
/// One GiB in bytes.
pub const GIB: usize = 1 << 30;

/// Pages needed for `bytes`, or `None` on overflow of the address space.
pub const fn pages_for(bytes: usize) -> Option<usize> {
    if bytes > 1 << (ADDRESS_BITS - 1) {
        return None;
    }
    Some((bytes + PAGE_BYTES - 1) >> PAGE_SHIFT)
}

/// A run of whole hugepages: `start` is a hugepage number, `len` counts hugepages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugeRange {
    /// First hugepage number.
    pub start: usize,
    /// Number of hugepages.
    pub len: usize,
}

impl HugeRange {
    /// The address of the first byte.
    pub const fn address(self) -> usize {
        self.start << HUGE_SHIFT
    }

    /// The size in bytes.
    pub const fn bytes(self) -> usize {
        self.len << HUGE_SHIFT
    }

    /// The first page number.
    pub const fn first_page(self) -> usize {
        self.start << HUGE_PAGES_SHIFT
    }
}

/// How many objects a span holds, in five steps, so that spans that drain alike lie together; spans
/// of cold objects lie apart from all.
///
/// After nine objects in ten were freed at random, one span in ten of those with one object
/// is left, one in three of those with four, and nearly all of those with thirty. On hugepages of
/// their own the first are cheap to break, and the last stay full enough to be worth a hugepage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Density(u8);

/// The number of densities.
pub const DENSITIES: usize = 6;

impl Density {
    /// Spans of one or two objects.
    pub const SPARSE: Density = Density(0);
    /// Spans of many objects.
    pub const DENSE: Density = Density(4);
    /// Spans of objects that the program calls cold.
    pub const COLD: Density = Density(DENSITIES as u8 - 1);

    /// The density of spans of so many objects.
    pub const fn of(objects: usize) -> Density {
        match objects {
            0..=2 => Density(0),
            3..=4 => Density(1),
            5..=8 => Density(2),
            9..=16 => Density(3),
            _ => Density(4),
        }
    }

    /// The number of the density, from 0 for the one that drains first.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The density of that number.
    pub const fn from_index(index: u8) -> Option<Density> {
        if (index as usize) < DENSITIES {
            Some(Density(index))
        } else {
            None
        }
    }
}
