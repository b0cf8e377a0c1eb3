// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the running kernel keeps what in `struct page`.

use ample_pfn::PageClass;

/// 8-byte words of one `struct page`.
pub const PAGE_WORDS: usize = 8;

/// A 32-bit field: word and shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Half {
    pub(super) word: usize,
    pub(super) shift: u32,
}

impl Half {
    /// The field at a byte offset, if it is aligned and inside.
    pub fn at(offset: u32) -> Option<Half> {
        let (word, rest) = ((offset / 8) as usize, offset % 8);
        (word < PAGE_WORDS && rest.is_multiple_of(4)).then_some(Half {
            word,
            shift: rest * 8,
        })
    }

    pub(super) fn get(self, page: &[u64; PAGE_WORDS]) -> u32 {
        (page[self.word & (PAGE_WORDS - 1)] >> self.shift) as u32
    }
}

/// Masks of flag bits in the first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlagMasks {
    /// On an LRU list.
    pub lru: u64,
    /// Head of a compound page.
    pub head: u64,
    /// Never handed to the page allocator.
    pub reserved: u64,
    /// Anonymous or shmem.
    pub swapbacked: u64,
    /// Unevictable or mlocked.
    pub unevictable: u64,
    /// Taken out of use after a memory error.
    pub hwpoison: u64,
}

/// Where the running kernel keeps what in `struct page`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageFormat {
    /// Word of `compound_head`: odd in tails.
    pub compound_head: usize,
    /// Word of `mapping`.
    pub mapping: usize,
    /// Word of `private`: the order of a free block.
    pub private: usize,
    /// `page_type`, highest byte since 6.12.
    pub page_type: Half,
    /// `_mapcount`: -1 when not mapped.
    pub mapcount: Half,
    /// `_refcount`: 0 when free, or a tail.
    pub refcount: Half,
    /// Page index and field of a large folio's count of pins, if this kernel has it.
    pub pincount: Option<(usize, Half)>,
    /// Word of `slab.slab_cache`, if known.
    pub slab_cache: Option<usize>,
    /// Flag bits.
    pub flags: FlagMasks,
    /// Class of each value of the type byte; `None` where it is no type.
    pub types: Box<[Option<PageClass>; 256]>,
}
