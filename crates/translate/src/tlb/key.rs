// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys of the entries of all arrays: page number, address space and kind.

/// Kinds of entries in a key; pages have the kinds 0 to 2, those of their sizes.
pub mod kind {
    /// A perforated 2 MB entry.
    pub const PERFORATED: u8 = 3;
    /// Eight bytes of a hole bitmap.
    pub const BITMAP: u8 = 4;
    /// A coalesced group of 4 KB pages.
    pub const COALESCED: u8 = 5;
}

/// Page number of `va` for pages of `1 << shift` bytes, in the 57 bits an address can have.
#[inline(always)]
pub(crate) fn index_of(va: u64, shift: u32) -> u64 {
    (va & ((1 << 57) - 1)) >> shift
}

/// A key of any of the arrays: number, address space, and what kind of entry it is.
#[inline(always)]
pub(crate) fn key_of(index: u64, asid: u16, kind: u8) -> u64 {
    debug_assert!(asid <= 0xfff && kind <= 0xf && index < 1 << 48);
    index << 16 | u64::from(asid) << 4 | u64::from(kind)
}

/// The address space in a key.
#[inline]
pub(crate) fn asid_of(key: u64) -> u16 {
    (key >> 4 & 0xfff) as u16
}

/// The page number in a key.
#[inline]
pub(crate) fn number_of(key: u64) -> u64 {
    key >> 16
}

/// The kind of entry in a key.
#[inline]
pub(crate) fn kind_of(key: u64) -> u8 {
    (key & 15) as u8
}
