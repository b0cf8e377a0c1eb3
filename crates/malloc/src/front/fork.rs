// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fork: every lock is taken before and given back after, in parent and child, in one order.
//!
//! The order is that of the allocator itself: caches, classes, page heap, spans, metadata.

use crate::heap::{pageheap, span};
use crate::os::meta;
use crate::watch::{dump, guarded, observe, upkeep};
use crate::{cache, central};

unsafe extern "C" fn prepare() {
    dump::fork_prepare();
    upkeep::fork_prepare();
    observe::fork_prepare();
    guarded::fork_prepare();
    cache::fork_prepare(crate::watch::threads::may_exist());
    central::fork_prepare();
    pageheap::fork_prepare();
    span::fork_prepare();
    meta::fork_prepare();
}

unsafe extern "C" fn parent() {
    // SAFETY: `prepare` ran.
    unsafe {
        meta::fork_done();
        span::fork_done();
        pageheap::fork_done();
        central::fork_done();
        cache::fork_done();
        guarded::fork_done();
        observe::fork_done();
        upkeep::fork_done();
        dump::fork_done();
    }
}

unsafe extern "C" fn child() {
    // The threads of the parent do not exist here.
    upkeep::set_background(false);
    // SAFETY: `prepare` ran, in the parent; the locks were copied as held. A waiter of the parent
    // may have left a lock marked as contended, which costs one useless wake-up.
    unsafe { parent() };
    pageheap::lock().trace.abandon();
}

/// Registers the handlers. Once, from a constructor: registering allocates.
pub fn register() {
    // SAFETY: the handlers live as long as the process (the library is never unloaded).
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}
