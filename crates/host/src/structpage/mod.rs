// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the bytes of `struct page` to page classes.
//!
//! Offsets and numbers come from the running kernel (BTF) in a [`PageFormat`]; the meaning of the
//! fields is that of Linux 6.12 to 6.18: `include/linux/mm_types.h`, `page-flags.h`.

mod format;

pub use format::{FlagMasks, Half, PAGE_WORDS, PageFormat};

use ample_pfn::PageClass;
use std::collections::HashMap;

/// Largest order of a free block that is believed; the kernel's own limit is 10.
const MAX_FREE_ORDER: u64 = 20;
/// References that one `FOLL_PIN` adds to a small folio: `GUP_PIN_COUNTING_BIAS`, `linux/mm.h`.
const PIN_BIAS: i64 = 1024;
/// Bits of `page->mapping` that say what it points to: `PAGE_MAPPING_FLAGS`.
const MAPPING_KIND: u64 = 3;
const MAPPING_MOVABLE_OPS: u64 = 2;

/// Decodes consecutive `struct page`s; remembers what began before a chunk.
#[derive(Clone, Debug)]
pub struct PageDecoder {
    format: PageFormat,
    /// Kernel address of the `struct page` of frame 0.
    base: u64,
    /// Frames below this belong to a free block that was seen to begin.
    free_until: u64,
    /// Last compound head: frame and class.
    head: (u64, PageClass),
    /// Slab caches, by address: whether their pages are reclaimable.
    caches: HashMap<u64, bool>,
    /// Slab caches met that `caches` lacks.
    pub unknown_caches: Vec<u64>,
}

impl PageDecoder {
    /// A decoder for pages described by `format`, with frame 0 described at `base`.
    pub fn new(format: PageFormat, base: u64) -> PageDecoder {
        PageDecoder {
            format,
            base,
            free_until: 0,
            head: (u64::MAX, PageClass::KernelCompound),
            caches: HashMap::new(),
            unknown_caches: Vec::new(),
        }
    }

    /// Where the kernel keeps what.
    pub fn format(&self) -> &PageFormat {
        &self.format
    }

    /// Says whether the pages of the slab cache at `address` are reclaimable.
    pub fn learn_cache(&mut self, address: u64, reclaimable: bool) {
        self.caches.insert(address, reclaimable);
    }

    /// State to go back to with [`PageDecoder::rewind`].
    pub fn mark(&self) -> (u64, (u64, PageClass)) {
        (self.free_until, self.head)
    }

    /// Goes back to a state, to decode a chunk again.
    pub fn rewind(&mut self, mark: (u64, (u64, PageClass))) {
        (self.free_until, self.head) = mark;
    }

    /// Decodes the pages in `words`, the first of which describes frame `start`, into `classes`.
    /// A chunk should begin at a multiple of 64 frames or at the start of memory.
    pub fn decode(&mut self, start: u64, words: &[u64], classes: &mut [PageClass]) {
        let (pages, _) = words.as_chunks::<PAGE_WORDS>();
        for (index, slot) in classes.iter_mut().enumerate().take(pages.len()) {
            *slot = self.class_of(start + index as u64, index, pages);
        }
    }

    fn class_of(&mut self, pfn: u64, index: usize, pages: &[[u64; PAGE_WORDS]]) -> PageClass {
        let page = &pages[index];
        let format = &self.format;
        let refcount = format.refcount.get(page);
        if pfn < self.free_until {
            if refcount == 0 {
                return PageClass::Free;
            }
            // Split and handed out while we were reading.
            self.free_until = 0;
        }
        if page[0] & format.flags.reserved != 0 {
            return PageClass::Reserved;
        }
        let link = page[format.compound_head];
        if link & 1 == 1 {
            return self.class_of_tail(link - 1, pfn, index, pages);
        }
        let page_type = format.page_type.get(page);
        if refcount == 0 && page_type == 0 {
            // An initialised page without a type has -1 here.
            return PageClass::Uninitialised;
        }
        let class = match format.types[(page_type >> 24) as usize] {
            Some(PageClass::Free) => {
                let order = page[format.private];
                if order <= MAX_FREE_ORDER && pfn.is_multiple_of(1 << order) {
                    self.free_until = pfn + (1 << order);
                }
                return PageClass::Free;
            }
            Some(PageClass::Slab) => self.slab_class(page),
            Some(class) => class,
            None if refcount == 0 => PageClass::FreePcp,
            None => self.untyped(page, &pages[index..]),
        };
        if page[0] & self.format.flags.head != 0 {
            // With HugeTLB vmemmap optimisation the memory map of a tail can be an alias of the
            // head's: the next entry then names the real head.
            let next = pages
                .get(index + 1)
                .map_or(0, |next| next[self.format.compound_head]);
            if next & 1 == 0 || next - 1 == self.address(pfn) {
                self.head = (pfn, class);
            }
        }
        class
    }

    fn address(&self, pfn: u64) -> u64 {
        self.base
            .wrapping_add(pfn.wrapping_mul(8 * PAGE_WORDS as u64))
    }

    fn class_of_tail(
        &mut self,
        head_address: u64,
        pfn: u64,
        index: usize,
        pages: &[[u64; PAGE_WORDS]],
    ) -> PageClass {
        let head = head_address.wrapping_sub(self.base) / (8 * PAGE_WORDS as u64);
        if head == self.head.0 {
            return self.head.1;
        }
        // A head that was no head when we came by: look at it again, if it is at hand.
        let behind = pfn.wrapping_sub(head) as usize;
        let again = index.checked_sub(behind).filter(|_| head < pfn);
        match again {
            Some(at) if pages[at][self.format.compound_head] & 1 == 0 => {
                let class = self.class_of(head, at, pages);
                self.head = (head, class);
                class
            }
            _ => PageClass::KernelCompound,
        }
    }

    fn slab_class(&mut self, page: &[u64; PAGE_WORDS]) -> PageClass {
        let Some(word) = self.format.slab_cache else {
            return PageClass::Slab;
        };
        match self.caches.get(&page[word]) {
            Some(true) => PageClass::SlabReclaimable,
            Some(false) => PageClass::Slab,
            None => {
                self.unknown_caches.push(page[word]);
                PageClass::Slab
            }
        }
    }

    /// A page in use that has no type.
    fn untyped(&self, page: &[u64; PAGE_WORDS], rest: &[[u64; PAGE_WORDS]]) -> PageClass {
        let format = &self.format;
        let flags = page[0];
        let mapping = page[format.mapping];
        let has = |mask: u64| flags & mask != 0;
        if has(format.flags.hwpoison) {
            return PageClass::HwPoison;
        }
        if is_page_pool(page[format.compound_head]) {
            return PageClass::Network;
        }
        let anon = mapping & 1 == 1;
        if !has(format.flags.lru) && !anon {
            return match mapping & MAPPING_KIND {
                MAPPING_MOVABLE_OPS => PageClass::MovableOps,
                _ if is_kernel_pointer(mapping) && has(format.flags.swapbacked) => PageClass::Shmem,
                _ if is_kernel_pointer(mapping) => PageClass::File,
                _ if has(format.flags.head) => PageClass::KernelCompound,
                _ => PageClass::KernelOther,
            };
        }
        if self.is_pinned(page, rest) {
            PageClass::Pinned
        } else if has(format.flags.unevictable) {
            PageClass::Mlocked
        } else if anon {
            PageClass::Anon
        } else if has(format.flags.swapbacked) {
            PageClass::Shmem
        } else {
            PageClass::File
        }
    }

    /// Whether `FOLL_PIN` holds the folio; a plain `get_page` does not count.
    fn is_pinned(&self, page: &[u64; PAGE_WORDS], rest: &[[u64; PAGE_WORDS]]) -> bool {
        let format = &self.format;
        if page[0] & format.flags.head != 0 {
            let pins = format
                .pincount
                .and_then(|(at, field)| Some(field.get(rest.get(at)?)));
            return pins.is_some_and(|pins| pins as i32 > 0);
        }
        let mapped = i64::from(format.mapcount.get(page) as i32) + 1;
        i64::from(format.refcount.get(page)) - mapped >= PIN_BIAS
    }
}

/// `PP_SIGNATURE` (`linux/poison.h`): 0x40 above the poison base of x86-64; newer kernels keep an
/// index in the bits between, older ones 2 flag bits below.
fn is_page_pool(magic: u64) -> bool {
    magic >> 48 == 0xdead && magic & 0x7c == 0x40
}

/// Whether a word can be the address of an `address_space`: upper half, and no list poison.
fn is_kernel_pointer(word: u64) -> bool {
    word >> 47 == 0x1_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0xffff_ea00_0000_0000;
    const LRU: u64 = 1 << 5;
    const HEAD: u64 = 1 << 6;
    const SWAPBACKED: u64 = 1 << 17;
    const UNTYPED: u64 = 0xffff_ffff;

    fn format() -> PageFormat {
        let mut types = Box::new([None; 256]);
        types[0xf0] = Some(PageClass::Free);
        types[0xf2] = Some(PageClass::PageTable);
        types[0xf5] = Some(PageClass::Slab);
        PageFormat {
            compound_head: 1,
            mapping: 3,
            private: 5,
            page_type: Half::at(48).unwrap(),
            mapcount: Half::at(48).unwrap(),
            refcount: Half::at(52).unwrap(),
            pincount: Some((1, Half::at(40).unwrap())),
            slab_cache: Some(1),
            flags: FlagMasks {
                lru: LRU,
                head: HEAD,
                reserved: 1 << 13,
                swapbacked: SWAPBACKED,
                unevictable: 1 << 18,
                hwpoison: 1 << 21,
            },
            types,
        }
    }

    fn page(flags: u64, link: u64, mapping: u64, low: u64, refs: u64) -> [u64; 8] {
        [flags, link, 0, mapping, 0, 0, low | refs << 32, 0]
    }

    fn tail(head: u64) -> [u64; 8] {
        page(0, BASE + head * 64 + 1, 0, UNTYPED, 0)
    }

    fn decode(start: u64, pages: &[[u64; 8]]) -> Vec<PageClass> {
        let mut decoder = PageDecoder::new(format(), BASE);
        let mut classes = vec![PageClass::Hole; pages.len()];
        decoder.decode(start, pages.as_flattened(), &mut classes);
        classes
    }

    fn one(page: [u64; 8]) -> PageClass {
        decode(64, &[page])[0]
    }

    #[test]
    fn single_pages_are_told_apart() {
        let anon = BASE | 1;
        assert_eq!(one([0; 8]), PageClass::Uninitialised);
        assert_eq!(one(page(0, BASE, 0, UNTYPED, 0)), PageClass::FreePcp);
        assert_eq!(one(page(0, 0, 0, UNTYPED, 1)), PageClass::KernelOther);
        assert_eq!(one(page(1 << 13, 0, 0, UNTYPED, 1)), PageClass::Reserved);
        assert_eq!(one(page(LRU, 0, anon, 0, 1)), PageClass::Anon);
        assert_eq!(one(page(LRU, 0, BASE, UNTYPED, 2)), PageClass::File);
        assert_eq!(
            one(page(LRU | SWAPBACKED, 0, BASE, UNTYPED, 2)),
            PageClass::Shmem
        );
        assert_eq!(one(page(SWAPBACKED, 0, anon, 0, 1)), PageClass::Anon);
        assert_eq!(one(page(LRU | 1 << 18, 0, anon, 0, 1)), PageClass::Mlocked);
        assert_eq!(one(page(0, 0, 0, 0xf2ff_ffff, 1)), PageClass::PageTable);
        assert_eq!(one(page(0, 0, 2, UNTYPED, 1)), PageClass::MovableOps);
        assert_eq!(one(page(LRU | 1 << 21, 0, anon, 0, 1)), PageClass::HwPoison);
    }

    #[test]
    fn a_pin_is_1024_references_beyond_the_mappings() {
        assert_eq!(one(page(LRU, 0, BASE, 0, 2 + 1024)), PageClass::Pinned);
        // A popular shared library is mapped often and not pinned.
        assert_eq!(one(page(LRU, 0, BASE, 1999, 2001)), PageClass::File);
        let mut pinned_tail = tail(64);
        pinned_tail[5] = 1;
        let pages = [page(LRU | HEAD, 0, BASE | 1, UNTYPED, 2), pinned_tail];
        assert_eq!(decode(64, &pages), [PageClass::Pinned; 2]);
    }

    #[test]
    fn page_pool_memory_is_networking() {
        let (old, new) = (0xdead_0000_0000_0040, 0xdead_0000_0000_1fc0);
        assert_eq!(one(page(0, old, 0, UNTYPED, 1)), PageClass::Network);
        assert_eq!(one(page(0, new, 0, UNTYPED, 1)), PageClass::Network);
        let poison = 0xdead_0000_0000_0100;
        assert_eq!(one(page(0, poison, 0, UNTYPED, 1)), PageClass::KernelOther);
    }

    #[test]
    fn a_free_block_covers_its_pages_over_chunks() {
        let mut buddy = page(0, BASE, 0, 0xf0ff_ffff, 0);
        buddy[5] = 2;
        let rest = page(0, BASE, 0, UNTYPED, 0);
        let mut decoder = PageDecoder::new(format(), BASE);
        let mut classes = [PageClass::Hole; 2];
        decoder.decode(64, [buddy, rest].as_flattened(), &mut classes);
        assert_eq!(classes, [PageClass::Free; 2]);
        decoder.decode(
            66,
            [rest, page(0, 0, 0, UNTYPED, 1)].as_flattened(),
            &mut classes,
        );
        assert_eq!(classes, [PageClass::Free, PageClass::KernelOther]);
        decoder.decode(68, [rest, rest].as_flattened(), &mut classes);
        assert_eq!(classes, [PageClass::FreePcp; 2]);
    }

    #[test]
    fn a_torn_or_misaligned_free_block_is_not_believed() {
        let mut buddy = page(0, BASE, 0, 0xf0ff_ffff, 0);
        buddy[5] = 9;
        let rest = page(0, BASE, 0, UNTYPED, 0);
        assert_eq!(
            decode(65, &[buddy, rest]),
            [PageClass::Free, PageClass::FreePcp]
        );
        buddy[5] = u64::MAX;
        assert_eq!(
            decode(64, &[buddy, rest]),
            [PageClass::Free, PageClass::FreePcp]
        );
    }

    #[test]
    fn tails_follow_their_head_and_aliased_heads_do_not_lead() {
        let pages = [page(HEAD, 0, 0, UNTYPED, 1), tail(64), tail(64), tail(7)];
        let expected = [PageClass::KernelCompound; 4];
        assert_eq!(decode(64, &pages), expected);
        let head = page(LRU | HEAD, 0, BASE | 1, UNTYPED, 1);
        let alias = [head, tail(64), head, tail(64)];
        assert_eq!(decode(64, &alias), [PageClass::Anon; 4]);
    }

    #[test]
    fn slab_caches_are_asked_for_once_known_they_decide() {
        let slab = page(0, BASE + 0x40, 0, 0xf5ff_ffff, 1);
        let mut decoder = PageDecoder::new(format(), BASE);
        let mut classes = [PageClass::Hole; 1];
        let mark = decoder.mark();
        decoder.decode(64, &slab, &mut classes);
        assert_eq!(classes, [PageClass::Slab]);
        assert_eq!(std::mem::take(&mut decoder.unknown_caches), [BASE + 0x40]);
        decoder.learn_cache(BASE + 0x40, true);
        decoder.rewind(mark);
        decoder.decode(64, &slab, &mut classes);
        assert_eq!(classes, [PageClass::SlabReclaimable]);
        assert!(decoder.unknown_caches.is_empty());
    }

    #[test]
    fn offsets_outside_or_crooked_are_refused() {
        assert_eq!(Half::at(64), None);
        assert_eq!(Half::at(50), None);
        assert_eq!(Half::at(52), Some(Half { word: 6, shift: 32 }));
    }
}
