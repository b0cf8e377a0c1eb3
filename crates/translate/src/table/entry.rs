// SPDX-License-Identifier: MIT OR Apache-2.0
//! One entry of a page table, and the page sizes that its level stands for.

/// Bits of a page-table entry (x86-64; bits 9 and 10 are free for software, 52 to 59 unused).
pub mod bits {
    /// The entry maps something (P).
    pub const PRESENT: u64 = 1;
    /// Writes are allowed (R/W).
    pub const WRITE: u64 = 1 << 1;
    /// Reachable from user mode.
    pub const USER: u64 = 1 << 2;
    /// Page-level write-through: a memory type, kept and not modelled.
    pub const PWT: u64 = 1 << 3;
    /// Page-level cache disable: a memory type, kept and not modelled.
    pub const PCD: u64 = 1 << 4;
    /// Set by the walker at the first use (A).
    pub const ACCESSED: u64 = 1 << 5;
    /// Set at the first write (D).
    pub const DIRTY: u64 = 1 << 6;
    /// A leaf above level 1.
    pub const LARGE: u64 = 1 << 7;
    /// Kept over a change of address space.
    pub const GLOBAL: u64 = 1 << 8;
    /// Software: shared until written.
    pub const COW: u64 = 1 << 9;
    /// A perforated 2 MB page (Perforated Pages: the PP bit).
    pub const PERFORATED: u64 = 1 << 10;
    /// No instruction fetch.
    pub const NO_EXECUTE: u64 = 1 << 63;
    /// The frame number's place.
    pub const FRAME: u64 = 0x000f_ffff_ffff_f000;
    /// Lowest bit of the 8-bit hole filter of a perforated entry.
    pub const FILTER_SHIFT: u32 = 52;
    /// What hardware reads of an entry. The rest is a guest's own, or the model's.
    pub const HARDWARE: u64 =
        PRESENT | WRITE | USER | PWT | PCD | ACCESSED | DIRTY | LARGE | GLOBAL | FRAME | NO_EXECUTE;
    /// What a TLB entry keeps of a page-table entry besides the frame.
    pub const RIGHTS: u64 = WRITE | USER | DIRTY | GLOBAL | COW | NO_EXECUTE;
}

/// The three page sizes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub enum PageSize {
    /// 4 KB, level 1.
    #[serde(rename = "4k")]
    K4 = 0,
    /// 2 MB, level 2.
    #[serde(rename = "2m")]
    M2 = 1,
    /// 1 GB, level 3.
    #[serde(rename = "1g")]
    G1 = 2,
}

impl PageSize {
    /// All, smallest first.
    pub const ALL: [PageSize; 3] = [PageSize::K4, PageSize::M2, PageSize::G1];

    /// log2 of the bytes.
    #[inline]
    pub const fn shift(self) -> u32 {
        12 + 9 * self as u32
    }

    /// Bytes of one page.
    #[inline]
    pub const fn bytes(self) -> u64 {
        1 << self.shift()
    }

    /// Its name in descriptions of machines.
    pub const fn name(self) -> &'static str {
        ["4k", "2m", "1g"][self as usize]
    }

    /// The page-table level of its leaf.
    #[inline]
    pub const fn level(self) -> u8 {
        self as u8 + 1
    }

    /// Buddy order of its frame.
    #[inline]
    pub const fn order(self) -> u32 {
        9 * self as u32
    }
}

/// Bits of address below an entry of `level`.
#[inline]
pub const fn level_shift(level: u8) -> u32 {
    12 + 9 * (level as u32 - 1)
}

/// The part of a larger entry that maps the `to`-sized page around `va`.
#[inline]
pub fn fragment(entry: u64, va: u64, from: PageSize, to: PageSize) -> u64 {
    let inside = va & (from.bytes() - 1) & !(to.bytes() - 1);
    let base = entry & bits::FRAME & !(from.bytes() - 1);
    (entry & bits::RIGHTS) | (base + inside)
}

/// What a TLB keeps of a leaf entry.
#[inline(always)]
pub fn tlb_entry(entry: u64, level: u8) -> u64 {
    entry & (bits::RIGHTS | (bits::FRAME & !((1 << level_shift(level)) - 1)))
}
