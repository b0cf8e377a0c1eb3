// SPDX-License-Identifier: MIT OR Apache-2.0
//! From an address to what lies there: a size class for the fast path of free, a span for the rest.
//!
//! Two levels: a root entry per GiB and a leaf that covers it. Leaves are never freed, so readers
//! need no lock; entries of a page are written while nobody else can know the page.

use crate::meta;
use crate::units::{ADDRESS_BITS, PAGE_SHIFT};
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};

const LEAF_SHIFT: u32 = 17;
const LEAF: usize = 1 << LEAF_SHIFT;
const ROOT: usize = 1 << (ADDRESS_BITS - PAGE_SHIFT - LEAF_SHIFT);

/// The class of a page that belongs to no live span.
pub const NO_SPAN: u8 = 0;
/// The class of the first page of a span that is one object.
pub const LARGE: u8 = 255;
/// The class of the first page of a large span whose object is in the heap profile.
pub const SAMPLED: u8 = 254;

/// The class of the page of a guarded object, live or freed.
pub const GUARDED: u8 = 253;

/// One gibibyte of pages.
pub struct Leaf {
    classes: [AtomicU8; LEAF],
    spans: [AtomicU32; LEAF],
}

static LEAVES: [AtomicPtr<Leaf>; ROOT] = [const { AtomicPtr::new(core::ptr::null_mut()) }; ROOT];

/// `&LEAVES`; the compiler would load its address from the global offset table.
#[inline(always)]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn leaves() -> &'static [AtomicPtr<Leaf>; ROOT] {
    let leaves: *const [AtomicPtr<Leaf>; ROOT];
    // SAFETY: computes an address.
    unsafe {
        core::arch::asm!(
            "lea {leaves}, [rip + {table}]",
            leaves = out(reg) leaves,
            table = sym LEAVES,
            options(nostack, pure, nomem, preserves_flags),
        );
    }
    // SAFETY: the address of a static.
    unsafe { &*leaves }
}

#[inline(always)]
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn leaves() -> &'static [AtomicPtr<Leaf>; ROOT] {
    &LEAVES
}

/// Makes sure that pages can be noted; false if there is no memory. Called under the page heap's
/// lock.
pub fn prepare(page: usize, len: usize) -> bool {
    for slot in &LEAVES[page >> LEAF_SHIFT..=(page + len - 1) >> LEAF_SHIFT] {
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
    let slot = leaves().get(page >> LEAF_SHIFT)?.load(Ordering::Acquire);
    // SAFETY: leaves are zero-initialised memory that is never freed.
    unsafe { slot.as_ref() }
}

/// The class noted for the page, [`NO_SPAN`] for pages that are not ours.
#[inline(always)]
pub fn class_of(page: usize) -> u8 {
    match leaf(page) {
        Some(leaf) => leaf.classes[page % LEAF].load(Ordering::Relaxed),
        None => NO_SPAN,
    }
}

/// The span noted for the page, 0 if none.
#[inline]
pub fn span_of(page: usize) -> u32 {
    match leaf(page) {
        Some(leaf) => leaf.spans[page % LEAF].load(Ordering::Acquire),
        None => 0,
    }
}

/// Notes class and span for a prepared page.
#[inline]
pub fn set(page: usize, class: u8, span: u32) {
    if let Some(leaf) = leaf(page) {
        leaf.spans[page % LEAF].store(span, Ordering::Release);
        leaf.classes[page % LEAF].store(class, Ordering::Release);
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
        let page = (5 << LEAF_SHIFT) - 1;
        assert!(prepare(page, 2));
        set(page, 7, 70);
        set(page + 1, 8, 80);
        assert_eq!((class_of(page), span_of(page)), (7, 70));
        assert_eq!((class_of(page + 1), span_of(page + 1)), (8, 80));
        assert_eq!(class_of(page + 2), NO_SPAN);
    }
}
