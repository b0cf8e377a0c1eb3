// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys of the entries of all arrays: page number, address space and kind.

/// Kinds of entries in a key; pages have the kinds 0 to 2, those of their sizes.
pub mod kind {
    /// A perforated 2 MB entry.
    pub const PERFORATED: u8 = 3;
    /// Eight bytes of a hole bitmap.
    pub const BITMAP: u8 = 4;
    /// A run of 4 KB pages inside a group of eight that begins with the first of them; those that
    /// begin with the others follow. The kind is part of the tag and not of the set.
    pub const COALESCED: u8 = 5;
    /// How many kinds of runs there are.
    pub const RUNS: u8 = 8;
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

#[cfg(test)]
mod tests {
    use super::*;
    use ample_kit::random::SplitMix64;

    /// Kinds of entries of any array: pages, perforated pages, bitmaps, coalesced pages, and the
    /// levels of a page-walk cache; with the bits of address below each.
    const KINDS: [(u8, u32); 7] = [
        (0, 12),
        (1, 21),
        (2, 30),
        (kind::PERFORATED, 21),
        (kind::BITMAP, 18),
        (kind::COALESCED, 15),
        (kind::COALESCED + kind::RUNS - 1, 15),
    ];

    #[test]
    fn keys_hold_all_57_bits_of_an_address() {
        let mut random = SplitMix64::new(57);
        for _ in 0..20_000 {
            // Sign-extended from bit 56, as five levels have them.
            let va = ((random.next_u64() << 7) as i64 >> 7) as u64;
            let asid = random.next_u64() as u16 & 0xfff;
            for (kind, shift) in KINDS {
                let index = index_of(va, shift);
                let key = key_of(index, asid, kind);
                let fields = (number_of(key), asid_of(key), kind_of(key));
                assert_eq!(fields, (index, asid, kind), "{va:#x}");
                for bit in 0..64 {
                    let other = va ^ 1 << bit;
                    let same = key_of(index_of(other, shift), asid, kind) == key;
                    assert_eq!(same, bit < shift || bit >= 57, "bit {bit} of {va:#x}");
                }
            }
        }
    }
}
