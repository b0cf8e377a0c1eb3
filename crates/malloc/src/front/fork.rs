// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fork: every lock is shut before and opened after, in parent and child, in one order.
//!
//! The order is that of the allocator itself: caches, classes, page heap, spans, metadata. Handlers
//! of other libraries may run between ours and the fork; what they allocate passes the shut locks,
//! because the thread that forks does.

use crate::heap::{pageheap, span};
use crate::os::threads::may_exist;
use crate::os::{lock, meta};
use crate::watch::{dump, guarded, observe, upkeep};
use crate::{cache, central};
use core::sync::atomic::{AtomicBool, Ordering};

/// Before a fork: no other thread is inside the allocator until [`parent`] or the child.
pub(crate) unsafe extern "C" fn prepare() {
    dump::fork_prepare();
    lock::begin_fork();
    upkeep::fork_prepare();
    observe::fork_prepare();
    guarded::fork_prepare();
    cache::fork_prepare(may_exist());
    central::fork_prepare();
    pageheap::fork_prepare();
    span::fork_prepare();
    meta::fork_prepare();
}

/// After a fork, in the parent.
///
/// # Safety
/// [`prepare`] ran.
pub(crate) unsafe extern "C" fn parent() {
    // SAFETY: as the caller promises.
    unsafe {
        meta::fork_done();
        span::fork_done();
        pageheap::fork_done();
        central::fork_done();
        cache::fork_done();
        guarded::fork_done();
        observe::fork_done();
        upkeep::fork_done();
        lock::end_fork();
        dump::fork_done();
    }
}

unsafe extern "C" fn child() {
    // The threads of the parent do not exist here.
    cache::fork_child();
    upkeep::set_background(false);
    // SAFETY: `prepare` ran, in the parent; the locks were copied as shut.
    unsafe { parent() };
    pageheap::lock().trace.abandon();
}

/// Registers the handlers, once. Registering may allocate: not before the allocator has started.
pub fn register() {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if REGISTERED.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: the handlers live as long as the process (the library is never unloaded).
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}
