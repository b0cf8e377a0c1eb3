// SPDX-License-Identifier: MIT OR Apache-2.0
//! The background thread.

use crate::os::lock::Lock;
use crate::os::sys;
use crate::watch::{control, socket, upkeep};
use core::sync::atomic::{AtomicBool, Ordering};

static ALLOWED: AtomicBool = AtomicBool::new(false);
/// Pages that a background round may release: no caller waits for it.
const BACKGROUND_PAGES: usize = (1 << 30) >> crate::units::PAGE_SHIFT;
/// Stack beyond what the C library needs for itself and for static thread-local storage.
const STACK_BYTES: usize = 128 << 10;
/// Below this the heap is not worth many wake-ups.
const SMALL_HEAP_PAGES: usize = (16 << 20) >> crate::units::PAGE_SHIFT;
/// The processors that the process was started on, read before the program chooses others for its
/// own threads: 1024 bits, of which the first so many words were read.
static CPUS: Lock<([u64; 16], usize)> = Lock::new(([0; 16], 0));

/// Allows or forbids the background thread.
pub fn configure(allowed: bool) {
    ALLOWED.store(allowed, Ordering::Relaxed);
    if !allowed {
        return;
    }
    let mut cpus = CPUS.lock();
    let (bytes, words) = (size_of_val(&cpus.0), cpus.0.as_mut_ptr());
    // SAFETY: the kernel writes at most so many bytes, and returns how many.
    let read = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, bytes, words) };
    cpus.1 = usize::try_from(read).unwrap_or(0) / size_of::<u64>();
}

/// The signature of `pthread_create`.
pub type Create = unsafe extern "C" fn(
    *mut libc::pthread_t,
    *const libc::pthread_attr_t,
    extern "C" fn(*mut libc::c_void) -> *mut libc::c_void,
    *mut libc::c_void,
) -> i32;

/// Whether the process has no thread but this one and its first, which has ended: the first thread
/// stays listed until the last one ends. False without `/proc`.
fn is_last() -> bool {
    // SAFETY: zero is valid for the structure, which the call fills.
    let links = unsafe {
        let mut folder: libc::stat = core::mem::zeroed();
        let done = libc::stat(c"/proc/self/task".as_ptr(), &raw mut folder);
        if done == 0 { folder.st_nlink } else { 0 }
    };
    // A link for each thread and two for the folder. What follows looks at every thread.
    if links != 4 {
        return false;
    }
    let mut text = [0; 1024];
    sys::read_file(c"/proc/self/stat", &mut text).is_some_and(shows_last)
}

/// What `/proc/self/stat` says (proc(5)): the state of the first thread, after the last bracket, is
/// that of a zombie, and two threads are left.
fn shows_last(stat: &str) -> bool {
    let Some((_, after)) = stat.rsplit_once(')') else {
        return false;
    };
    let mut fields = after.split(' ').filter(|field| !field.is_empty());
    fields.next() == Some("Z") && fields.nth(16) == Some("2")
}

extern "C" fn run(_argument: *mut libc::c_void) -> *mut libc::c_void {
    let cpus = CPUS.lock();
    // SAFETY: a constant name, and a mask of the given length.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"ample-malloc".as_ptr());
        if cpus.1 > 0 {
            let bytes = cpus.1 * size_of::<u64>();
            libc::syscall(libc::SYS_sched_setaffinity, 0, bytes, cpus.0.as_ptr());
        }
    }
    drop(cpus);
    loop {
        let small = crate::heap::pageheap::sizes().backed_pages() < SMALL_HEAP_PAGES;
        // A small heap is looked at rarely.
        let pause_ns: i64 = if small { 900_000_000 } else { 250_000_000 };
        let pause = libc::timespec {
            tv_sec: 0,
            tv_nsec: pause_ns,
        };
        if !socket::wait(&pause) {
            // SAFETY: sleeps.
            unsafe { libc::nanosleep(&raw const pause, core::ptr::null_mut()) };
        }
        upkeep::serve_dump();
        control::serve();
        upkeep::round(BACKGROUND_PAGES);
        if is_last() {
            // The C library ends the process with its last thread.
            return core::ptr::null_mut();
        }
    }
}

/// The smallest stack of a thread, with what static thread-local storage takes of it.
fn least_stack(attributes: &libc::pthread_attr_t) -> usize {
    type LeastStack = extern "C" fn(*const libc::pthread_attr_t) -> usize;
    let name = c"__pthread_get_minstack".as_ptr();
    // SAFETY: a lookup by name; glibc's function of this name has this signature.
    unsafe {
        match libc::dlsym(libc::RTLD_DEFAULT, name) {
            found if found.is_null() => 1 << 20,
            found => core::mem::transmute::<*mut libc::c_void, LeastStack>(found)(attributes),
        }
    }
}

/// Starts the background thread unless it runs. Called when the program creates a thread, and so at
/// a place where creating one is allowed. The thread has the usual priority, whatever its creator
/// has, and runs no signal handler of the program.
pub fn start_background(create: Create) {
    if !ALLOWED.load(Ordering::Relaxed) || crate::os::threads::has_background() {
        return;
    }
    upkeep::set_background(true);
    // SAFETY: plain calls on local objects; the thread touches only statics.
    let created = unsafe {
        let mut all: libc::sigset_t = core::mem::zeroed();
        let mut before: libc::sigset_t = core::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let mut attributes: libc::pthread_attr_t = core::mem::zeroed();
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        let stack = least_stack(&attributes) + STACK_BYTES;
        libc::pthread_attr_setstacksize(&raw mut attributes, stack.next_multiple_of(4096));
        // The policy in new attributes is the usual one.
        libc::pthread_attr_setinheritsched(&raw mut attributes, libc::PTHREAD_EXPLICIT_SCHED);
        let mut thread: libc::pthread_t = core::mem::zeroed();
        let (attributes, name) = (&raw mut attributes, &raw mut thread);
        let result = create(name, attributes, run, core::ptr::null_mut());
        libc::pthread_attr_destroy(attributes);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, core::ptr::null_mut());
        result == 0
    };
    if !created {
        upkeep::set_background(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_zombie_with_one_thread_beside_it_is_last() {
        let line = |state: &str, threads: u32| {
            format!("77 (a) b) {state} 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 {threads} 0 99")
        };
        assert!(shows_last(&line("Z", 2)));
        assert!(!shows_last(&line("Z", 3)));
        assert!(!shows_last(&line("S", 2)));
        assert!(!shows_last("") && !shows_last("77 (a"));
    }
}
