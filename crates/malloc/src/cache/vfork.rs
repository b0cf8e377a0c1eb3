// SPDX-License-Identifier: MIT OR Apache-2.0
//! Children of `vfork`, which run in the memory and with the thread area of the parent. The kernel
//! does not restart their sequences nor tell them the processor they run on.

use super::{WANTS_FAST, set_fast};
use crate::os::lock::{ForkLock, Lock};
use core::sync::atomic::{AtomicI32, Ordering};

/// Children of `vfork` that are alive.
static CHILDREN: Lock<u32> = Lock::new(0);
/// The process that they are children of; 0 without any.
static PARENT: AtomicI32 = AtomicI32::new(0);

/// Before a `vfork`: the fast path is off for all threads until [`end`].
pub fn begin() {
    let mut children = CHILDREN.lock();
    *children += 1;
    if *children == 1 {
        // SAFETY: no preconditions.
        PARENT.store(unsafe { libc::getpid() }, Ordering::Release);
        set_fast(false);
    }
}

/// The child of a `vfork` has left the memory of its parent, or was not made.
pub fn end() {
    let mut children = CHILDREN.lock();
    *children -= 1;
    if *children == 0 {
        PARENT.store(0, Ordering::Release);
        set_fast(WANTS_FAST.load(Ordering::Relaxed));
    }
}

/// Turns the fast path on where something else turned it off, unless [`begin`] did.
pub fn restore() {
    let children = CHILDREN.lock();
    if *children == 0 {
        set_fast(WANTS_FAST.load(Ordering::Relaxed));
    }
}

/// Whether the caller is a child of `vfork`.
#[inline]
pub fn is_child() -> bool {
    let parent = PARENT.load(Ordering::Acquire);
    // SAFETY: no preconditions.
    parent != 0 && unsafe { libc::getpid() } != parent
}

/// The lock to shut for a fork.
pub fn fork_lock() -> &'static dyn ForkLock {
    &CHILDREN
}

/// In the child of a fork, where no child of `vfork` shares the memory.
pub fn fork_child() {
    *CHILDREN.lock() = 0;
    PARENT.store(0, Ordering::Release);
    set_fast(WANTS_FAST.load(Ordering::Relaxed));
}
