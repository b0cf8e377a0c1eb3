// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what the BPF program found in the kernel's type information to a page format.

use super::kernel::types::layout as Found;
use crate::structpage::{FlagMasks, Half, PAGE_WORDS, PageFormat};
use ample_pfn::PageClass;

/// What the BPF program writes for a field, flag or type that this kernel lacks.
const ABSENT: u32 = u32::MAX;

/// The page format, or what is missing for it.
pub fn page_format(found: &Found) -> Result<PageFormat, String> {
    if found.page_bytes as usize != 8 * PAGE_WORDS {
        let bytes = found.page_bytes;
        return Err(format!(
            "struct page has {bytes} bytes, this version knows 64"
        ));
    }
    let word = |offset: u32, name: &str| {
        let inside = offset.is_multiple_of(8) && ((offset / 8) as usize) < PAGE_WORDS;
        if inside {
            Ok((offset / 8) as usize)
        } else {
            Err(missing(name))
        }
    };
    let half = |offset: u32, name: &str| Half::at(offset).ok_or_else(|| missing(name));
    let flag = |bit: u32, name: &str| 1u64.checked_shl(bit).ok_or_else(|| missing(name));
    let optional = |bit: u32| 1u64.checked_shl(bit).unwrap_or(0);
    Ok(PageFormat {
        compound_head: word(found.compound_head, "page.compound_head")?,
        mapping: word(found.mapping, "page.mapping")?,
        private: word(found.private, "page.private")?,
        page_type: half(found.page_type, "page.page_type")?,
        mapcount: half(found.mapcount, "page._mapcount")?,
        refcount: half(found.refcount, "page._refcount")?,
        pincount: pincount(found.pincount),
        slab_cache: word(found.slab_cache, "slab.slab_cache")
            .ok()
            .filter(|_| found.cache_flags != ABSENT && found.slab_reclaim_bit < 32),
        flags: FlagMasks {
            lru: flag(found.lru_bit, "PG_lru")?,
            head: flag(found.head_bit, "PG_head")?,
            reserved: flag(found.reserved_bit, "PG_reserved")?,
            swapbacked: flag(found.swapbacked_bit, "PG_swapbacked")?,
            unevictable: flag(found.unevictable_bit, "PG_unevictable")?
                | optional(found.mlocked_bit),
            hwpoison: optional(found.hwpoison_bit),
        },
        types: page_types(found)?,
    })
}

fn missing(name: &str) -> String {
    format!("{name} is not where this version of ample looks for it in the kernel's BTF")
}

/// `_pincount` lies beyond the first `struct page` of the folio.
fn pincount(offset: u32) -> Option<(usize, Half)> {
    let page_bytes = 8 * PAGE_WORDS as u32;
    let page = (offset / page_bytes) as usize;
    (offset != ABSENT && (1..4).contains(&page))
        .then(|| Half::at(offset % page_bytes).map(|field| (page, field)))
        .flatten()
}

/// Values of the highest byte of `page_type`. Linux before 6.12 kept inverted bits instead and
/// has none of these names.
fn page_types(found: &Found) -> Result<Box<[Option<PageClass>; 256]>, String> {
    const FIRST: usize = 0xf0;
    let mut types = Box::new([None; 256]);
    // 0xff is the top of a negative map count; a type that has no row here is a kernel's own.
    types[FIRST..0xff].fill(Some(PageClass::KernelOther));
    let rows = [
        (found.type_buddy, PageClass::Free),
        (found.type_offline, PageClass::Offline),
        (found.type_table, PageClass::PageTable),
        (found.type_hugetlb, PageClass::HugeTlb),
        (found.type_slab, PageClass::Slab),
        (found.type_zsmalloc, PageClass::MovableOps),
        (found.type_unaccepted, PageClass::Uninitialised),
        (found.type_large_kmalloc, PageClass::KernelCompound),
    ];
    if !(FIRST..0xff).contains(&(found.type_buddy as usize))
        || !(FIRST..0xff).contains(&(found.type_slab as usize))
    {
        return Err("the kernel encodes page types otherwise than Linux 6.12 and later".into());
    }
    for (value, class) in rows {
        if let Some(slot) = types
            .get_mut(value as usize)
            .filter(|_| value as usize >= FIRST)
        {
            *slot = Some(class);
        }
    }
    Ok(types)
}
