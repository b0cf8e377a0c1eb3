// SPDX-License-Identifier: MIT OR Apache-2.0
//! A panic of the allocator itself, that is a broken invariant: one line and the end.
//!
//! The standard library formats the message into memory before it calls any hook, and the panic may
//! hold locks of the allocator: what is asked for meanwhile comes from a buffer.

#[cfg(all(feature = "preload", not(any(test, miri, feature = "models"))))]
use crate::os::report::{corrupt, warn};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering};

const BYTES: usize = 16 << 10;
const ALIGN: usize = 16;

/// Memory that is handed out once.
#[repr(align(16))]
struct Buffer {
    bytes: UnsafeCell<[u8; BYTES]>,
    used: AtomicUsize,
}

// SAFETY: each part of the bytes is handed out once.
unsafe impl Sync for Buffer {}

static BUFFER: Buffer = Buffer {
    bytes: UnsafeCell::new([0; BYTES]),
    used: AtomicUsize::new(0),
};

/// Whether the calling thread is in a panic of this library, which has a standard library of its
/// own.
#[inline(always)]
pub fn is_on() -> bool {
    std::thread::panicking()
}

/// Memory of the buffer; 0 if there is no more.
#[cold]
pub fn allocate(bytes: usize) -> usize {
    let room = bytes.next_multiple_of(ALIGN);
    let start = BUFFER.used.fetch_add(room, Ordering::Relaxed);
    if start + room > BYTES {
        return 0;
    }
    BUFFER.bytes.get() as usize + start
}

/// The bytes from an object of the buffer to its end.
pub fn bytes_from(object: usize) -> Option<usize> {
    let end = BUFFER.bytes.get() as usize + BYTES;
    (object < end && object >= end - BYTES).then(|| end - object)
}

/// Says what broke, and ends the process. The hook holds nothing, not even the one before it, and
/// so takes no memory: it is there before the first object is.
#[cfg(all(feature = "preload", not(any(test, miri, feature = "models"))))]
pub fn catch() {
    std::panic::set_hook(Box::new(|info| {
        let own = |place: &std::panic::Location<'_>| place.file().contains("malloc/src/");
        if info.location().is_some_and(own) {
            corrupt(format_args!("internal error, please report: {info}"));
        }
        warn(format_args!("{info}"));
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_buffer_hands_out_is_known_and_ends() {
        let (first, second) = (allocate(3), allocate(20));
        assert_eq!((first % ALIGN, second - first), (0, ALIGN));
        assert_eq!(
            bytes_from(second),
            bytes_from(first).map(|left| left - ALIGN)
        );
        assert_eq!(bytes_from(first - ALIGN * 2), None);
        assert_eq!(allocate(BYTES), 0);
        assert_eq!(bytes_from(0), None);
    }
}
