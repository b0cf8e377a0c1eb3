// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a word of `/proc/kpageflags` to a page class.
//!
//! Bit numbers: `include/uapi/linux/kernel-page-flags.h` and `include/linux/kernel-page-flags.h`,
//! Linux 6.12. The second file holds bits 32 and up, which most parsers drop.

use ample_pfn::PageClass;

macro_rules! bits {
    ($($name:ident = $bit:literal;)+) => { $(pub(crate) const $name: u64 = 1 << $bit;)+ };
}

bits! {
    REFERENCED = 2;
    UPTODATE = 3;
    DIRTY = 4;
    LRU = 5;
    ACTIVE = 6;
    SLAB = 7;
    BUDDY = 10;
    MMAP = 11;
    ANON = 12;
    SWAPBACKED = 14;
    COMPOUND_HEAD = 15;
    COMPOUND_TAIL = 16;
    HUGE = 17;
    UNEVICTABLE = 18;
    HWPOISON = 19;
    NOPAGE = 20;
    THP = 22;
    OFFLINE = 23;
    ZERO_PAGE = 24;
    PGTABLE = 26;
    RESERVED = 32;
    MLOCKED = 33;
}

/// User memory, whether on an LRU list or on its way there.
const USER: u64 = LRU | HUGE | THP | ANON | MMAP;
/// Marks that page cache and anonymous memory get and driver memory does not.
const CACHE_MARKS: u64 =
    LRU | HUGE | THP | ANON | SWAPBACKED | UPTODATE | REFERENCED | DIRTY | ACTIVE;

/// Class of a page by its flags alone; first rule that fits wins.
///
/// Slab comes before every test of `ANON`: the words of a slab page alias `page->mapping`, so
/// kpageflags reports a false `ANON` for some of them. `NOPAGE` is honoured but never relied on:
/// newer kernels report a hole as 0.
pub fn classify(flags: u64) -> PageClass {
    let any = |mask: u64| flags & mask != 0;
    if flags == 0 {
        PageClass::Bare
    } else if any(NOPAGE) {
        PageClass::Hole
    } else if any(RESERVED) {
        PageClass::Reserved
    } else if any(BUDDY) {
        PageClass::Free
    } else if any(SLAB) {
        PageClass::Slab
    } else if any(PGTABLE) {
        PageClass::PageTable
    } else if any(OFFLINE) {
        PageClass::Offline
    } else if any(HWPOISON) {
        PageClass::HwPoison
    } else if any(ZERO_PAGE) {
        PageClass::KernelOther
    } else if any(USER) {
        classify_user(flags)
    } else if any(COMPOUND_HEAD | COMPOUND_TAIL) {
        PageClass::KernelCompound
    } else {
        PageClass::Bare
    }
}

fn classify_user(flags: u64) -> PageClass {
    let any = |mask: u64| flags & mask != 0;
    if !any(CACHE_MARKS) {
        // Mapped but never cache or anonymous memory: a driver's pages, a BPF or perf ring.
        PageClass::KernelOther
    } else if any(HUGE) {
        PageClass::HugeTlb
    } else if any(UNEVICTABLE | MLOCKED) {
        PageClass::Mlocked
    } else if any(ANON) {
        PageClass::Anon
    } else if any(SWAPBACKED) {
        PageClass::Shmem
    } else {
        PageClass::File
    }
}

/// Whether a tail page's own flags leave open what its head decides: kernels before 6.9 report
/// `ANON` and `SWAPBACKED` of a transparent huge page on its head only.
pub fn follows_head(flags: u64) -> bool {
    flags & COMPOUND_TAIL != 0 && flags & (THP | HUGE) != 0 && flags & (SLAB | RESERVED) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_fire_in_order() {
        let cases = [
            (0, PageClass::Bare),
            (NOPAGE, PageClass::Hole),
            (BUDDY, PageClass::Free),
            // Seen on 6.18: slab words alias page->mapping.
            (SLAB | ANON, PageClass::Slab),
            (SLAB | COMPOUND_TAIL, PageClass::Slab),
            (RESERVED | MMAP, PageClass::Reserved),
            (PGTABLE | ANON, PageClass::PageTable),
            (OFFLINE | MMAP, PageClass::Offline),
            (HWPOISON | LRU, PageClass::HwPoison),
            (COMPOUND_HEAD, PageClass::KernelCompound),
            (COMPOUND_TAIL, PageClass::KernelCompound),
            (COMPOUND_HEAD | HUGE, PageClass::HugeTlb),
            (LRU | ANON | MMAP | SWAPBACKED, PageClass::Anon),
            (LRU | SWAPBACKED, PageClass::Shmem),
            (LRU | UPTODATE, PageClass::File),
            (LRU | UNEVICTABLE | MLOCKED | ANON, PageClass::Mlocked),
            (ANON | MMAP | SWAPBACKED, PageClass::Anon),
            (MMAP, PageClass::KernelOther),
            (MMAP | UPTODATE, PageClass::File),
            (ZERO_PAGE | THP | COMPOUND_HEAD, PageClass::KernelOther),
            (UPTODATE, PageClass::Bare),
        ];
        for (flags, class) in cases {
            assert_eq!(classify(flags), class, "{flags:#x}");
        }
    }

    #[test]
    fn bits_above_31_are_not_dropped() {
        assert_eq!(classify(1 << 32), PageClass::Reserved);
        assert_eq!(classify(LRU | 1 << 33), PageClass::Mlocked);
    }
}
