// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `check=1` puts around objects, to notice at the free or `realloc` of an object that
//! something was written before or beyond it.
//!
//! An object begins [`MIN_ALIGN`] bytes or its alignment into its slot: before it lies a pattern,
//! behind it the same up to the end of the slot, whose last word is the size that was asked for. A
//! large object has its span as slot, and nothing before it if its alignment is a page or more. All
//! are combined with the secret of the process and the object's address.

use crate::cache;
use crate::central::freed;
use crate::heap::pageheap;
use crate::os::report::corrupt;
use crate::size_class::{MAX_SMALL_BYTES, MIN_ALIGN, TABLE, aligned_class_of};
use crate::units::{PAGE_BYTES, PAGE_SHIFT};

/// Bytes behind an object that it needs at least: some pattern, and the size.
const END_BYTES: usize = 16;

/// The class of a slot for a small object, and where in the slot the object begins; `None` if it
/// gets a span of its own.
pub fn class_of(bytes: usize, align: usize) -> Option<(usize, usize)> {
    let lead = align.max(MIN_ALIGN);
    if bytes > MAX_SMALL_BYTES {
        return None;
    }
    Some((aligned_class_of(bytes + lead + END_BYTES, lead)?, lead))
}

/// Where in its span a large object begins, and what it takes with what lies around it.
pub fn large_slot(bytes: usize, align: usize) -> (usize, usize) {
    let lead = if align < PAGE_BYTES {
        align.max(MIN_ALIGN)
    } else {
        0
    };
    (lead, bytes.saturating_add(lead + END_BYTES))
}

fn pattern(object: usize) -> u64 {
    freed::secret().rotate_left(19) ^ (object as u64).rotate_left(32)
}

/// Marks out an object of `bytes` bytes in a slot from `slot` to `end`.
///
/// # Safety
/// The slot is the caller's, who got it for this object.
pub unsafe fn begin(slot: usize, object: usize, bytes: usize, end: usize) {
    let pattern = pattern(object);
    // SAFETY: all of it lies in the slot, whose limits are multiples of eight.
    unsafe {
        fill_lead(slot, object);
        for at in object + bytes..end - 8 {
            (at as *mut u8).write(pattern.to_ne_bytes()[at % 8]);
        }
        ((end - 8) as *mut u64).write(pattern ^ bytes as u64);
    }
}

/// Writes what lies before an object.
///
/// # Safety
/// The slot holds the object, which is live.
unsafe fn fill_lead(slot: usize, object: usize) {
    for at in (slot..object).step_by(8) {
        // SAFETY: as the caller promises.
        unsafe { (at as *mut u64).write(pattern(object)) };
    }
}

/// The slot of a small object at `object`, `offset` bytes into its span, and its size; the end of
/// the process if something else lies around it.
pub fn small(object: usize, class: usize, offset: usize) -> (usize, usize) {
    let slot_bytes = TABLE[class].bytes as usize;
    let slot = object - offset % slot_bytes;
    // SAFETY: slots of a live span can be read.
    if unsafe { freed::is_set(slot) } {
        // The child of a fork sees the mark of an object that another thread was about to free:
        // memory is copied page by page while threads go on. In the child it is live.
        cache::check(class, slot);
        // SAFETY: the object is live, and what lies before it is this module's.
        unsafe { fill_lead(slot, object) };
    }
    let begins = slot < object && offset / slot_bytes < usize::from(TABLE[class].objects);
    check_lead(slot, object, begins);
    (slot, size(object, slot + slot_bytes))
}

/// Ends the process if something else than the pattern lies before an object, which is said to be
/// none if none of it does, or unless it `begins` there.
fn check_lead(slot: usize, object: usize, begins: bool) {
    let pattern = pattern(object);
    // SAFETY: slots of a live span can be read.
    let kept = |at: usize| unsafe { (at as *const u64).read() } == pattern;
    let lead = || (slot..object).step_by(8);
    if !begins || !object.is_multiple_of(MIN_ALIGN) || !lead().any(kept) {
        corrupt(format_args!(
            "invalid free of {object:#x}: inside an object, not at its start, or what lies before \
             it was overwritten"
        ));
    }
    if let Some(at) = lead().find(|&at| !kept(at)) {
        corrupt(format_args!(
            "memory before an object was overwritten: at most {} bytes before {object:#x}",
            object - at
        ));
    }
}

/// The size of a large object; the end of the process if something else lies around it.
pub fn large(object: usize) -> usize {
    let pages = pageheap::large_pages(object);
    let span = object & !(PAGE_BYTES - 1);
    if span < object {
        check_lead(span, object, true);
    }
    size(object, span + (pages << PAGE_SHIFT))
}

/// The size of an object in a slot that ends at `end`; the end of the process if something else
/// lies behind it.
fn size(object: usize, end: usize) -> usize {
    let pattern = pattern(object);
    // SAFETY: the slot of a live object can be read.
    let bytes = (unsafe { ((end - 8) as *const u64).read() } ^ pattern) as usize;
    if bytes > end - object - END_BYTES {
        corrupt(format_args!(
            "memory beyond an object was overwritten: up to {} bytes beyond {object:#x}",
            end - object
        ));
    }
    // SAFETY: as above.
    let kept = |at: usize| unsafe { (at as *const u8).read() } == pattern.to_ne_bytes()[at % 8];
    if let Some(at) = (object + bytes..end - 8).find(|&at| !kept(at)) {
        corrupt(format_args!(
            "memory beyond an object was overwritten: byte {} of an object of {bytes} bytes at \
             {object:#x}",
            at - object
        ));
    }
    bytes
}
