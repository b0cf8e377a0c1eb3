// SPDX-License-Identifier: MIT OR Apache-2.0
//! The entry points of `include/ample_malloc.h`.

use crate::front;
use crate::size_class::MIN_ALIGN;
use crate::units::PAGE_BYTES;
use crate::watch::observe::{self, ProfileKind};
use crate::watch::stats::{self, StatsForm};
use core::ffi::{c_int, c_void};

/// Writes the statistics to a file descriptor: 0 as text, 1 as one JSON object, 2 as OpenMetrics.
#[unsafe(no_mangle)]
pub extern "C" fn ample_malloc_stats(fd: c_int, form: c_int) {
    crate::front::start::ensure();
    stats::write(fd, StatsForm::from_number(form as u8));
}

/// Writes the heap profile to a file descriptor, in the text format of pprof.
#[unsafe(no_mangle)]
pub extern "C" fn ample_malloc_profile(fd: c_int) {
    ample_malloc_profile_of(fd, 0);
}

/// Writes a profile: 0 what is live and what was allocated, 1 the peak, 2 lifetimes.
#[unsafe(no_mangle)]
pub extern "C" fn ample_malloc_profile_of(fd: c_int, kind: c_int) {
    crate::front::start::ensure();
    observe::write_profile(fd, ProfileKind::from_number(kind as u8));
}

/// Gives up to `bytes` of free memory back to the system, breaking hugepages if need be; the bytes
/// given back.
#[unsafe(no_mangle)]
pub extern "C" fn ample_malloc_release(bytes: usize) -> usize {
    crate::front::start::ensure();
    crate::watch::upkeep::release(bytes / PAGE_BYTES) * PAGE_BYTES
}

/// Sets the soft and the hard limit of the memory behind the heap, in bytes; 0 for none.
#[unsafe(no_mangle)]
pub extern "C" fn ample_malloc_set_limits(soft: usize, hard: usize) {
    crate::front::start::ensure();
    crate::heap::limit::set(soft, hard);
}

/// Memory that the program does not expect to use often, away from all other.
#[unsafe(no_mangle)]
pub extern "C" fn ample_malloc_cold(bytes: usize) -> *mut c_void {
    let address = front::allocate_cold(bytes, MIN_ALIGN);
    if address == 0 {
        crate::os::sys::set_errno(libc::ENOMEM);
    }
    address as *mut c_void
}

/// Whether the address belongs to a live object of this allocator, as far as can be seen.
#[unsafe(no_mangle)]
pub extern "C" fn ample_malloc_owns(object: *const c_void) -> c_int {
    c_int::from(front::owns(object as usize))
}
