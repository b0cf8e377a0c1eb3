// SPDX-License-Identifier: MIT OR Apache-2.0
//! `membarrier`, which makes sure that no other thread is inside a restartable sequence that it
//! began before.
//!
//! A program that is confined by seccomp may not allow the call, and would be killed by it: once
//! it confines itself ([`forbid`]), has been found confined or the call has failed, it is not made
//! any more. Without it the slabs of other CPUs are left as they are, and the child of a fork,
//! which cannot know what a sequence was about to do, gives up the objects in its slabs.

use crate::os::{batch, sys};
use core::sync::atomic::{AtomicU8, Ordering};

/// Commands and a flag (Linux 5.10, `include/uapi/linux/membarrier.h`).
const RSEQ: i32 = 1 << 7;
const REGISTER_RSEQ: i32 = 1 << 8;
const FLAG_CPU: u32 = 1;

/// More than `/proc/thread-self/status` has.
const STATUS_BYTES: usize = 4096;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const REGISTERED: u8 = 1;
const FORBIDDEN: u8 = 2;

fn membarrier(command: i32, flags: u32, cpu: u32) -> bool {
    let saved = sys::errno();
    // SAFETY: the call has no effect on memory contents.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, command, flags, cpu) };
    sys::set_errno(saved);
    if result != 0 {
        forbid();
    }
    result == 0
}

/// Makes no such call any more.
pub fn forbid() {
    STATE.store(FORBIDDEN, Ordering::Relaxed);
    batch::forbid();
}

/// Whether system calls that glibc's malloc does not make may be made: the calling thread runs
/// under no filter. Looks into `/proc` (proc(5)) every time, because a filter may be installed past
/// the C library at any time; to be called without locks, since a filter may run a handler.
pub fn allowed() -> bool {
    if STATE.load(Ordering::Relaxed) == FORBIDDEN {
        return false;
    }
    let mut status = [0; STATUS_BYTES];
    let Some(status) = sys::read_bytes(c"/proc/thread-self/status", &mut status) else {
        return false;
    };
    let allowed = is_unfiltered(status);
    if !allowed {
        forbid();
    }
    allowed
}

/// Whether the beginning of a file of proc(5) shows that no filter is installed: it says so, or is
/// whole and says nothing, because the kernel has no filters.
fn is_unfiltered(status: &[u8]) -> bool {
    let says = |line: &[u8]| status.windows(line.len()).any(|found| found == line);
    let whole = status.len() < STATUS_BYTES;
    says(b"\nSeccomp:\t0\n") || whole && !says(b"\nSeccomp:")
}

/// Prepares for [`fence_cpu`] and [`fence_all`]; false if they cannot be used. Registers the
/// process with the kernel, which is cheap while it has one thread only.
pub fn ready() -> bool {
    if !super::uses_rseq() || !allowed() {
        return false;
    }
    if STATE.load(Ordering::Relaxed) == UNKNOWN && membarrier(REGISTER_RSEQ, 0, 0) {
        STATE.store(REGISTERED, Ordering::Relaxed);
    }
    STATE.load(Ordering::Relaxed) == REGISTERED
}

/// Before the first threads.
pub fn register() {
    if STATE.load(Ordering::Relaxed) == UNKNOWN {
        ready();
    }
}

/// Ends all sequences under way on a CPU; false if that cannot be done. To be called soon after
/// [`ready`].
pub fn fence_cpu(cpu: u32) -> bool {
    STATE.load(Ordering::Relaxed) == REGISTERED && membarrier(RSEQ, FLAG_CPU, cpu)
}

/// Ends all sequences under way; false if that cannot be done. To be called soon after [`ready`].
pub fn fence_all() -> bool {
    STATE.load(Ordering::Relaxed) == REGISTERED && membarrier(RSEQ, 0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel without seccomp was taken for one whose filter is unknown.
    #[test]
    fn a_status_without_a_filter_is_told_from_one_that_is_cut_off() {
        assert!(is_unfiltered(
            b"Name:\tx\nSeccomp:\t0\nSeccomp_filters:\t0\n"
        ));
        assert!(!is_unfiltered(
            b"Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"
        ));
        assert!(is_unfiltered(
            b"Name:\tx\nNoNewPrivs:\t0\nCpus_allowed:\t1\n"
        ));
        assert!(!is_unfiltered(&[b'x'; STATUS_BYTES]));
    }
}
