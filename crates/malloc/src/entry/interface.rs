// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C interface: malloc and everything that glibc offers beside it.
//!
//! Semantics are those of ISO C, POSIX and glibc's manual: a failure sets `errno` to `ENOMEM` or
//! `EINVAL`, a size of zero gives a unique object, and no function touches `errno` otherwise.

use crate::front;
use crate::os::glibc::symbol;
use crate::os::panics;
use crate::os::sys::{native_bytes, set_errno};
use crate::units::PAGE_BYTES;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

/// Larger objects cannot be: pointer differences are signed (ISO C 6.5.6).
const MAX_BYTES: usize = isize::MAX as usize;

#[cold]
fn out_of_memory() -> *mut c_void {
    set_errno(libc::ENOMEM);
    null_mut()
}

#[inline(always)]
fn result(address: usize) -> *mut c_void {
    if address == 0 {
        return out_of_memory();
    }
    address as *mut c_void
}

/// ISO C `malloc`.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(bytes: usize) -> *mut c_void {
    match front::allocate_fast(bytes) {
        0 => malloc_slow(bytes),
        object => object as *mut c_void,
    }
}

#[cold]
#[inline(never)]
extern "C" fn malloc_slow(bytes: usize) -> *mut c_void {
    if panics::is_on() {
        return result(panics::allocate(bytes));
    }
    result(front::allocate_slow(bytes))
}

/// ISO C `free`.
///
/// # Safety
/// As ISO C says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(object: *mut c_void) {
    // SAFETY: as the caller promises.
    unsafe { front::free(object as usize) }
}

super::forward! {
    /// Old SunOS name of `free`.
    cfree => "free";
    /// ISO C23 `free_sized`.
    free_sized => "free";
    /// ISO C23 `free_aligned_sized`.
    free_aligned_sized => "free";
}

/// ISO C `calloc`.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
    match count.checked_mul(bytes) {
        Some(total) if total <= MAX_BYTES => result(front::allocate_zeroed(total)),
        _ => out_of_memory(),
    }
}

/// ISO C `realloc`; a size of zero frees the object, as in glibc.
///
/// # Safety
/// As ISO C says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(object: *mut c_void, bytes: usize) -> *mut c_void {
    if bytes == 0 && !object.is_null() {
        // SAFETY: as the caller promises.
        unsafe { front::free(object as usize) };
        return null_mut();
    }
    if panics::is_on() {
        // SAFETY: as the caller promises.
        return result(unsafe { reallocate_in_panic(object as usize, bytes) });
    }
    // SAFETY: as the caller promises.
    result(unsafe { front::reallocate(object as usize, bytes) })
}

/// `realloc` for the words of a panic.
///
/// # Safety
/// The object is live or 0.
#[cold]
unsafe fn reallocate_in_panic(object: usize, bytes: usize) -> usize {
    let new = panics::allocate(bytes);
    let held = match panics::bytes_from(object) {
        Some(held) => held,
        None if object == 0 => 0,
        None => front::usable_bytes(object),
    };
    if new != 0 {
        // SAFETY: both have so many bytes; in the buffer the new one may lie behind the old.
        unsafe { core::ptr::copy(object as *const u8, new as *mut u8, held.min(bytes)) };
    }
    new
}

/// BSD `reallocarray`.
///
/// # Safety
/// As for [`realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(
    object: *mut c_void,
    count: usize,
    bytes: usize,
) -> *mut c_void {
    let Some(total) = count.checked_mul(bytes) else {
        return out_of_memory();
    };
    // A program that has a realloc of its own gets that, as in glibc.
    let realloc = symbol!("realloc");
    // SAFETY: the symbol is a realloc; the rest is as the caller promises.
    unsafe {
        let realloc = core::mem::transmute::<
            usize,
            unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
        >(realloc);
        realloc(object, total)
    }
}

fn aligned(align: usize, bytes: usize) -> *mut c_void {
    if !align.is_power_of_two() {
        set_errno(libc::EINVAL);
        return null_mut();
    }
    if bytes > MAX_BYTES - align {
        return out_of_memory();
    }
    result(front::allocate_aligned(bytes, align))
}

/// ISO C `aligned_alloc`; like glibc, without asking that the size be a multiple of the alignment.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, bytes: usize) -> *mut c_void {
    aligned(align, bytes)
}

/// Old name of `aligned_alloc`; like glibc, rounds the alignment up to a power of two.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, bytes: usize) -> *mut c_void {
    match align.checked_next_power_of_two() {
        Some(align) => aligned(align, bytes),
        None => {
            set_errno(libc::EINVAL);
            null_mut()
        }
    }
}

/// POSIX `posix_memalign`.
///
/// # Safety
/// `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    out: *mut *mut c_void,
    align: usize,
    bytes: usize,
) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<*mut c_void>()) {
        return libc::EINVAL;
    }
    if bytes > MAX_BYTES - align {
        return libc::ENOMEM;
    }
    let saved = crate::os::sys::errno();
    let address = front::allocate_aligned(bytes, align);
    set_errno(saved);
    if address == 0 {
        return libc::ENOMEM;
    }
    // SAFETY: as the caller promises.
    unsafe { *out = address as *mut c_void };
    0
}

/// Page-aligned memory.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(bytes: usize) -> *mut c_void {
    aligned(native_bytes(), bytes)
}

/// Page-aligned memory of whole pages.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(bytes: usize) -> *mut c_void {
    let page = native_bytes();
    match bytes.checked_next_multiple_of(page) {
        Some(bytes) => aligned(page, bytes.max(page)),
        None => out_of_memory(),
    }
}

/// The bytes that an object may use.
///
/// # Safety
/// The object is live or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(object: *mut c_void) -> usize {
    front::usable_bytes(object as usize)
}

/// Gives free memory back to the system, but for `keep` bytes; 1 if some was given back.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(keep: usize) -> c_int {
    crate::front::start::ensure();
    c_int::from(crate::watch::upkeep::trim(keep / PAGE_BYTES))
}
