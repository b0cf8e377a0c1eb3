// SPDX-License-Identifier: MIT OR Apache-2.0
//! From an address to what lies there: for the fast path of free the size class and which page of
//! its span it is, for the rest the span.
//!
//! Two levels: a root entry per GiB and a leaf that covers it. Leaves are never freed, so readers
//! need no lock; entries of a page are written while nobody else can know the page.
//!
//! The entries of the 32 GiB where the heap begins to grow are apart, in one flat window: free
//! waits for one load less before it knows where the object goes.

use crate::near::{near, near_load};
use crate::os::lock::Lock;
use crate::os::meta;
use crate::os::numa;
use crate::units::{ADDRESS_BITS, HUGE_PAGES_SHIFT, PAGE_BYTES, PAGE_SHIFT};
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicUsize, Ordering};

// Miri looks at every entry of a table at each reference to it: it gets small ones.
const LEAF_SHIFT: u32 = if cfg!(miri) { 8 } else { 17 };
const LEAF: usize = 1 << LEAF_SHIFT;
const ROOT_SHIFT: u32 = if cfg!(miri) {
    10
} else {
    ADDRESS_BITS - PAGE_SHIFT - LEAF_SHIFT
};
const ROOT: usize = 1 << ROOT_SHIFT;

/// The class of a page that belongs to no live span.
pub const NO_SPAN: u8 = 0;
/// The class of the first page of a span that is one object.
pub const LARGE: u8 = 255;
/// The class of the first page of a large span whose object is in the heap profile.
pub const SAMPLED: u8 = 254;

/// The class of the page of a guarded object, live or freed.
pub const GUARDED: u8 = 253;

/// The class of the pages of a span of cold objects, whose size class the span knows.
pub const COLD: u8 = 252;

/// The class of the pages of which a part was given back inside a span in use, until all objects
/// there were handed out again: the marks of free ones are gone. The span knows the size class.
pub const HOLED: u8 = 251;

/// What is noted of a page for the fast path of free: its class, and which page of its span it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct PageEntry(u32);

impl PageEntry {
    const fn new(class: u8, index: usize) -> PageEntry {
        debug_assert!(index < 256);
        PageEntry(class as u32 | (index as u32) << 8)
    }

    /// A size class, or one of the special ones.
    #[inline(always)]
    pub const fn class(self) -> u8 {
        self.0 as u8
    }

    /// How far an address on the page is from the beginning of the span, in bytes.
    #[inline(always)]
    pub const fn offset(self, address: usize) -> usize {
        (self.0 as usize >> 8 << PAGE_SHIFT) | (address % PAGE_BYTES)
    }
}

/// The pages of one gibibyte.
pub struct Leaf {
    entries: [AtomicU16; LEAF],
    spans: [AtomicU32; LEAF],
    /// NUMA nodes by hugepage: a hugepage stays with the page heap that reserved it.
    nodes: [AtomicU8; LEAF >> HUGE_PAGES_SHIFT],
}

static LEAVES: [AtomicPtr<Leaf>; ROOT] = [const { AtomicPtr::new(core::ptr::null_mut()) }; ROOT];

/// Pages of the window, of which two bytes each: 32 GiB, less for miri. A multiple of a leaf.
const WINDOW: usize = if cfg!(miri) { 1 } else { 32 } << LEAF_SHIFT;
static WINDOW_ENTRIES: [AtomicU16; WINDOW] = [const { AtomicU16::new(0) }; WINDOW];
/// The first page of the window; before there is one, a number from which no page is in it.
static WINDOW_START: AtomicUsize = AtomicUsize::new(NO_WINDOW);
const NO_WINDOW: usize = 1 << (ADDRESS_BITS + 1);

/// [`WINDOW_START`] and [`WINDOW_ENTRIES`].
#[inline(always)]
fn window() -> (usize, &'static [AtomicU16; WINDOW]) {
    let start = near_load!(WINDOW_START: usize);
    (start, near!(WINDOW_ENTRIES: [AtomicU16; WINDOW]))
}

/// Taken to make a leaf: the page heaps of two nodes may begin one together.
static MAKING: Lock<()> = Lock::new(());

/// Makes sure that pages of a node can be noted; false if there is no memory. Called under the lock
/// of the node's page heap.
pub fn prepare(page: usize, len: usize, node: usize) -> bool {
    let slots = &LEAVES[page >> LEAF_SHIFT..=(page + len - 1) >> LEAF_SHIFT];
    if slots
        .iter()
        .any(|slot| slot.load(Ordering::Acquire).is_null())
        && !make(slots, page)
    {
        return false;
    }
    if numa::nodes() > 1 {
        let mut at = page >> HUGE_PAGES_SHIFT << HUGE_PAGES_SHIFT;
        while at < page + len {
            if let Some(leaf) = leaf(at) {
                leaf.nodes[(at % LEAF) >> HUGE_PAGES_SHIFT].store(node as u8, Ordering::Release);
            }
            at += 1 << HUGE_PAGES_SHIFT;
        }
    }
    true
}

/// Makes the leaves that are missing among `slots`, of which `page` is in the first.
#[cold]
fn make(slots: &[AtomicPtr<Leaf>], page: usize) -> bool {
    let _making = MAKING.lock();
    if WINDOW_START.load(Ordering::Relaxed) == NO_WINDOW {
        // Linux hands out addresses downwards: the window ends where the first page's GiB does.
        let end = (page | (LEAF - 1)) + 1;
        WINDOW_START.store(end.saturating_sub(WINDOW), Ordering::Release);
    }
    for slot in slots {
        if slot.load(Ordering::Relaxed).is_null() {
            let Some(leaf) = meta::allocate(size_of::<Leaf>(), 4096) else {
                return false;
            };
            slot.store(leaf.as_ptr().cast(), Ordering::Release);
        }
    }
    true
}

#[inline(always)]
fn leaf(page: usize) -> Option<&'static Leaf> {
    let slot = near!(LEAVES: [AtomicPtr<Leaf>; ROOT])
        .get(page >> LEAF_SHIFT)?
        .load(Ordering::Acquire);
    // SAFETY: leaves are zero-initialised memory that is never freed.
    unsafe { slot.as_ref() }
}

/// The class noted for the page, [`NO_SPAN`] for pages that are not ours.
#[inline(always)]
pub fn class_of(page: usize) -> u8 {
    entry(page).class()
}

/// What is noted of a page in the window.
#[inline(always)]
pub fn entry_in_window(page: usize) -> Option<PageEntry> {
    let (start, entries) = window();
    let entry = entries.get(page.wrapping_sub(start))?;
    Some(PageEntry(entry.load(Ordering::Relaxed).into()))
}

/// What is noted of a page that is not in the window; [`NO_SPAN`] for pages that are not ours.
#[inline]
pub fn entry_outside(page: usize) -> PageEntry {
    match leaf(page) {
        Some(leaf) => PageEntry(leaf.entries[page % LEAF].load(Ordering::Relaxed).into()),
        None => PageEntry::new(NO_SPAN, 0),
    }
}

/// What is noted of a page.
#[inline(always)]
pub fn entry(page: usize) -> PageEntry {
    entry_in_window(page).unwrap_or_else(|| entry_outside(page))
}

/// The span noted for the page, 0 if none.
#[inline]
pub fn span_of(page: usize) -> u32 {
    match leaf(page) {
        Some(leaf) => leaf.spans[page % LEAF].load(Ordering::Acquire),
        None => 0,
    }
}

/// The NUMA node of a page that is ours; 0 of others.
#[inline]
pub fn node_of(page: usize) -> usize {
    leaf(page).map_or(0, |leaf| {
        let node = &leaf.nodes[(page % LEAF) >> HUGE_PAGES_SHIFT];
        node.load(Ordering::Acquire).into()
    })
}

/// Notes class and span for the first page of a span, or the only one that is noted.
#[inline]
pub fn set(page: usize, class: u8, span: u32) {
    set_page(page, 0, class, span);
}

/// Notes class and span for all pages of a span.
pub fn set_all(page: usize, len: usize, class: u8, span: u32) {
    (0..len).for_each(|index| set_page(page, index, class, span));
}

/// Notes class and span for the prepared page that is `index` pages behind `first`.
#[inline]
pub fn set_page(first: usize, index: usize, class: u8, span: u32) {
    let page = first + index;
    if let Some(leaf) = leaf(page) {
        leaf.spans[page % LEAF].store(span, Ordering::Release);
        let (start, entries) = window();
        let entry = match entries.get(page.wrapping_sub(start)) {
            Some(entry) => entry,
            None => &leaf.entries[page % LEAF],
        };
        entry.store(PageEntry::new(class, index).0 as u16, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_pages_have_no_class() {
        assert_eq!(class_of(0), NO_SPAN);
        assert_eq!(class_of(usize::MAX >> PAGE_SHIFT), NO_SPAN);
        assert_eq!(span_of(1 << 34), 0);
    }

    #[test]
    fn pages_are_noted_across_leaves() {
        // The first of all prepares sets the window: these lie in it, at its ends and outside.
        let base = 200 << LEAF_SHIFT;
        assert!(prepare(base + 5, 1, 0));
        let (start, _) = window();
        for page in [base - 1, start - 1, start + WINDOW - 1, 5 << LEAF_SHIFT] {
            assert!(prepare(page, 2, 0));
            set_all(page, 2, 7, 70);
            let entry = |page| entry_in_window(page).unwrap_or_else(|| entry_outside(page));
            let address = (page << PAGE_SHIFT) + 48;
            assert_eq!(entry(page).offset(address), 48);
            assert_eq!(
                entry(page + 1).offset(address + PAGE_BYTES),
                PAGE_BYTES + 48
            );
            set(page + 1, 8, 80);
            assert_eq!((class_of(page), span_of(page)), (7, 70));
            assert_eq!((class_of(page + 1), span_of(page + 1)), (8, 80));
            assert_eq!(class_of(page + 2), NO_SPAN);
        }
    }
}
