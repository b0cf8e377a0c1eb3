// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many ranges of memory given back by one system call: `process_madvise` on the caller's own
//! process, which Linux has from 6.15 on. It takes the lock of the address space and flushes the
//! processors' TLBs once, where as many calls of `madvise` do so each.

use super::sys::{self, errno, set_errno};
use core::sync::atomic::{AtomicU8, Ordering};
use std::sync::OnceLock;

/// The calling process in place of a descriptor of it (Linux 6.15,
/// `include/uapi/linux/pidfd.h`, `PIDFD_SELF_THREAD`).
const SELF: i32 = -10_000;

/// Ranges in one call, at most.
const MOST: usize = 32;
/// Fewer ranges are given back one by one.
const LEAST: usize = 4;

const NO: u8 = 0;
const ASK: u8 = 1;
const YES: u8 = 2;
/// The kernel does not know the call.
const NEVER: u8 = 3;
static MAY: AtomicU8 = AtomicU8::new(NO);
/// Tells whether the calling thread runs under no filter of system calls: one that allows what
/// glibc's malloc calls would end the program. Slow, and asked once in a [`Round`].
static UNFILTERED: OnceLock<fn() -> bool> = OnceLock::new();

/// Says how to tell whether there is a filter.
pub fn configure(unfiltered: fn() -> bool) {
    let _ = UNFILTERED.set(unfiltered);
}

/// No such call is made any more in the rounds under way.
pub fn forbid() {
    change(&[ASK, YES], NO);
}

fn change(from: &[u8], to: u8) {
    let _ = MAY.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
        from.contains(&now).then_some(to)
    });
}

fn may() -> bool {
    if MAY.load(Ordering::Relaxed) == ASK {
        let unfiltered = UNFILTERED.get().is_some_and(|ask| ask());
        change(&[ASK], if unfiltered { YES } else { NO });
    }
    MAY.load(Ordering::Relaxed) == YES
}

/// While it lives, ranges may be given back together.
pub struct Round(());

impl Round {
    /// Begins a round.
    pub fn begin() -> Round {
        change(&[NO, YES], ASK);
        Round(())
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        forbid();
    }
}

/// Ranges that are given back together once there are enough of them.
pub struct Batch {
    ranges: [libc::iovec; MOST],
    count: usize,
    succeeded: bool,
}

impl Batch {
    /// No range yet.
    pub const fn new() -> Batch {
        let none = libc::iovec {
            iov_base: core::ptr::null_mut(),
            iov_len: 0,
        };
        Batch {
            ranges: [none; MOST],
            count: 0,
            succeeded: true,
        }
    }

    /// Adds a range that holds no live object.
    pub fn add(&mut self, address: usize, bytes: usize) {
        if self.count == MOST {
            self.flush();
        }
        self.ranges[self.count] = libc::iovec {
            iov_base: address as *mut libc::c_void,
            iov_len: bytes,
        };
        self.count += 1;
    }

    /// Gives back what is left; whether everything was.
    pub fn end(mut self) -> bool {
        self.flush();
        self.succeeded
    }

    fn flush(&mut self) {
        let ranges = &self.ranges[..core::mem::take(&mut self.count)];
        // Where the kernel's pages are larger, edges have to be seen to: see `drop_memory`.
        let whole = sys::native_bytes() == crate::units::NATIVE_BYTES;
        let mut done = if whole && ranges.len() >= LEAST && may() {
            drop_together(ranges)
        } else {
            0
        };
        for range in ranges {
            if done >= range.iov_len {
                done -= range.iov_len;
                continue;
            }
            self.succeeded &= sys::drop_memory(range.iov_base as usize, range.iov_len);
            done = 0;
        }
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

/// The bytes of the first ranges that were given back.
fn drop_together(ranges: &[libc::iovec]) -> usize {
    let saved = errno();
    // SAFETY: the callers own the ranges, which hold no live object; as long as the slice is.
    let done = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            SELF,
            ranges.as_ptr(),
            ranges.len(),
            libc::MADV_DONTNEED,
            0,
        )
    };
    // Locked memory is refused with EINVAL, as it is range by range.
    if done < 0 && matches!(errno(), libc::EBADF | libc::ENOSYS | libc::EPERM) {
        MAY.store(NEVER, Ordering::Relaxed);
    }
    set_errno(saved);
    usize::try_from(done).unwrap_or(0)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// By one call or by many, the ranges and nothing else.
    #[test]
    fn ranges_are_given_back_and_nothing_beside_them() {
        const PAGES: usize = 200;
        let page = sys::native_bytes();
        configure(|| true);
        for together in [false, true] {
            let round = together.then(Round::begin);
            let base = sys::map_aligned(0, PAGES * page, page).unwrap();
            // SAFETY: pages of the test's own.
            unsafe { core::ptr::write_bytes(base as *mut u8, 7, PAGES * page) };
            let mut batch = Batch::new();
            for at in (0..PAGES).filter(|at| at % 3 == 1) {
                batch.add(base + at * page, page);
            }
            assert!(batch.end());
            for at in 0..PAGES {
                let expected = if at % 3 == 1 { 0 } else { 7 };
                // SAFETY: as above.
                let byte = unsafe { ((base + at * page) as *const u8).read() };
                assert_eq!(byte, expected, "page {at}, together: {together}");
            }
            sys::unmap(base, PAGES * page);
            drop(round);
            assert!([NO, NEVER].contains(&MAY.load(Ordering::Relaxed)));
        }
    }
}
