// SPDX-License-Identifier: MIT OR Apache-2.0
//! The allocator of a Rust program.

use crate::front;
use crate::size_class::MIN_ALIGN;
use core::alloc::{GlobalAlloc, Layout};

/// Use it as `#[global_allocator] static GLOBAL: ample_malloc::Ample = ample_malloc::Ample;`.
///
/// Fork is safe from the first allocation on. [`install`] makes the options for exit and signals
/// work; with the feature `preload` that happens by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ample;

/// Registers the exit and signal handlers that the options ask for; call it once, early in `main`,
/// in a program that was built without the feature `preload`.
pub fn install() {
    crate::front::start::ensure();
    crate::watch::dump::loaded();
}

// SAFETY: objects are live, distinct and aligned until they are freed; see `front`.
unsafe impl GlobalAlloc for Ample {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        front::allocate_aligned(layout.size(), layout.align()) as *mut u8
    }

    unsafe fn dealloc(&self, object: *mut u8, _layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { front::free(object as usize) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= MIN_ALIGN {
            return front::allocate_zeroed(layout.size()) as *mut u8;
        }
        let object = front::allocate_aligned(layout.size(), layout.align()) as *mut u8;
        if !object.is_null() {
            // SAFETY: the object is new and has the size of the layout.
            unsafe { core::ptr::write_bytes(object, 0, layout.size()) };
        }
        object
    }

    unsafe fn realloc(&self, object: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if layout.align() <= MIN_ALIGN {
            // SAFETY: as the caller promises.
            return unsafe { front::reallocate(object as usize, bytes) } as *mut u8;
        }
        let new = front::allocate_aligned(bytes, layout.align()) as *mut u8;
        if !new.is_null() {
            // SAFETY: two distinct objects of at least the copied size; the old one is given up.
            unsafe {
                core::ptr::copy_nonoverlapping(object, new, layout.size().min(bytes));
                front::free(object as usize);
            }
        }
        new
    }
}
