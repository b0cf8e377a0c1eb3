// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fork: every lock is shut before and opened after, in parent and child, in one order.
//!
//! The order is that of the allocator itself: caches, classes, page heap, spans, metadata. Handlers
//! of other libraries may run between ours and the fork; what they allocate passes the shut locks,
//! because the thread that forks does.

use crate::heap::{pageheap, span};
use crate::os::lock::ForkLock;
use crate::os::threads::may_exist;
use crate::os::{lock, meta};
use crate::watch::{control, dump, guarded, observe, socket, upkeep};
use crate::{cache, central};
use core::sync::atomic::{AtomicBool, Ordering};

/// The locks of the layer above the caches.
fn upper() -> [&'static dyn ForkLock; 3] {
    [
        upkeep::fork_lock(),
        observe::fork_lock(),
        guarded::fork_lock(),
    ]
}

/// Before a fork: no other thread is inside the allocator until [`parent`] or the child.
pub(crate) unsafe extern "C" fn prepare() {
    socket::fork_lock().shut();
    lock::begin_fork();
    dump::fork_lock().shut();
    upper().iter().for_each(|lock| lock.shut());
    pageheap::fork_announce();
    cache::fork_prepare(may_exist());
    central::fork_prepare();
    pageheap::fork_prepare();
    span::fork_lock().shut();
    meta::fork_lock().shut();
}

/// After a fork, in the parent.
///
/// # Safety
/// [`prepare`] ran.
pub(crate) unsafe extern "C" fn parent() {
    // SAFETY: as the caller promises.
    unsafe {
        meta::fork_lock().open();
        span::fork_lock().open();
        pageheap::fork_done();
        central::fork_done();
        cache::fork_done();
        observe::fork_done();
        upper().iter().rev().for_each(|lock| lock.open());
        dump::fork_lock().open();
        lock::end_fork();
        socket::fork_lock().open();
    }
}

unsafe extern "C" fn child() {
    // The threads of the parent do not exist here.
    cache::fork_child();
    upkeep::set_background(false);
    // SAFETY: `prepare` ran, in the parent; the locks were copied as shut.
    unsafe { parent() };
    control::fork_child();
    socket::fork_child();
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
