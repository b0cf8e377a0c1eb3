// SPDX-License-Identifier: MIT OR Apache-2.0
//! `membarrier`, which makes sure that no other thread is inside a restartable sequence that it
//! began before.
//!
//! A program that confines itself by seccomp may not allow the call, and would be killed by it:
//! once that may have happened ([`forbid`]), or once the call has failed, it is not made any more.
//! Without it the slabs of other CPUs are left as they are, and the child of a fork, which cannot
//! know what a sequence was about to do, gives up the objects in its slabs.

use core::sync::atomic::{AtomicU8, Ordering};

/// Commands and a flag (Linux 5.10, `include/uapi/linux/membarrier.h`).
const RSEQ: i32 = 1 << 7;
const REGISTER_RSEQ: i32 = 1 << 8;
const FLAG_CPU: u32 = 1;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const REGISTERED: u8 = 1;
const FORBIDDEN: u8 = 2;

fn membarrier(command: i32, flags: u32, cpu: u32) -> bool {
    let saved = crate::os::sys::errno();
    // SAFETY: the call has no effect on memory contents.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, command, flags, cpu) };
    crate::os::sys::set_errno(saved);
    if result != 0 {
        forbid();
    }
    result == 0
}

/// Makes no such call any more.
pub fn forbid() {
    STATE.store(FORBIDDEN, Ordering::Relaxed);
}

/// Whether the program has not confined itself, as far as is known.
pub fn allowed() -> bool {
    STATE.load(Ordering::Relaxed) != FORBIDDEN
}

/// Registers the process with the kernel, which is cheap while it has one thread only.
pub fn register() {
    if super::uses_rseq()
        && STATE.load(Ordering::Relaxed) == UNKNOWN
        && membarrier(REGISTER_RSEQ, 0, 0)
    {
        STATE.store(REGISTERED, Ordering::Relaxed);
    }
}

fn fence(flags: u32, cpu: u32) -> bool {
    register();
    STATE.load(Ordering::Relaxed) == REGISTERED && membarrier(RSEQ, flags, cpu)
}

/// Ends all sequences under way on a CPU; false if that cannot be done.
pub fn fence_cpu(cpu: u32) -> bool {
    fence(FLAG_CPU, cpu)
}

/// Ends all sequences under way; false if that cannot be done.
pub fn fence_all() -> bool {
    fence(0, 0)
}
