// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ends of programs that free what is not theirs to free.

use crate::os::report::corrupt;
use crate::size_class::TABLE;

/// An object that lies free in a cache or in its span is freed.
#[cold]
pub fn double_free(class: usize, object: usize) -> ! {
    corrupt(format_args!(
        "double free of {object:#x} ({} bytes)",
        TABLE[class].bytes
    ))
}

/// An address in no span of the class is freed.
#[cold]
#[inline(never)]
pub fn gone(object: usize) -> ! {
    corrupt(format_args!(
        "free of {object:#x}, which lies in memory that was already freed"
    ))
}

/// An address is freed at which no object begins.
#[cold]
#[inline(never)]
pub fn inside(class: usize, object: usize) -> ! {
    corrupt(format_args!(
        "invalid free of {object:#x}: inside an object of {} bytes, not at its start",
        TABLE[class].bytes
    ))
}
