// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether there may be other threads, and the background thread.

use crate::watch::upkeep;
use core::sync::atomic::{AtomicBool, Ordering};

/// Whether the process may have more than one thread: glibc's own note (2.32), else yes.
pub fn may_exist() -> bool {
    single_threaded_flag().is_none_or(|single| single == 0)
}

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
fn single_threaded_flag() -> Option<u8> {
    let flag: *const u8;
    // SAFETY: loads an address from the global offset table; null if the C library has no flag.
    unsafe {
        core::arch::asm!(
            ".weak __libc_single_threaded",
            "mov {flag}, qword ptr [rip + __libc_single_threaded@GOTPCREL]",
            flag = out(reg) flag,
            options(nostack, pure, readonly, preserves_flags),
        );
    }
    // SAFETY: a byte of the C library.
    (!flag.is_null()).then(|| unsafe { flag.read_volatile() })
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
fn single_threaded_flag() -> Option<u8> {
    None
}

static ALLOWED: AtomicBool = AtomicBool::new(true);
/// Pages that a background round may release: no caller waits for it.
const BACKGROUND_PAGES: usize = (1 << 30) >> crate::units::PAGE_SHIFT;
const STACK_BYTES: usize = 64 << 10;
/// Below this the heap is not worth many wake-ups.
const SMALL_HEAP_PAGES: usize = (16 << 20) >> crate::units::PAGE_SHIFT;

/// Allows or forbids the background thread.
pub fn configure(allowed: bool) {
    ALLOWED.store(allowed, Ordering::Relaxed);
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
    let mut text = [0u8; 1024];
    // SAFETY: opens a file by a constant name and reads it into a buffer of the given length.
    let len = unsafe {
        let name = c"/proc/self/stat";
        let fd = libc::open(name.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return false;
        }
        let len = libc::read(fd, text.as_mut_ptr().cast(), text.len());
        libc::close(fd);
        len
    };
    usize::try_from(len).is_ok_and(|len| shows_last(&text[..len]))
}

/// What `/proc/self/stat` says (proc(5)): the state of the first thread, after the last bracket, is
/// that of a zombie, and two threads are left.
fn shows_last(stat: &[u8]) -> bool {
    let Some(bracket) = stat.iter().rposition(|&byte| byte == b')') else {
        return false;
    };
    let mut fields = stat[bracket + 1..]
        .split(|&byte| byte == b' ')
        .filter(|field| !field.is_empty());
    fields.next() == Some(b"Z") && fields.nth(16) == Some(b"2")
}

extern "C" fn run(_argument: *mut libc::c_void) -> *mut libc::c_void {
    loop {
        let small = crate::heap::pageheap::sizes().backed_pages() < SMALL_HEAP_PAGES;
        // A small heap is looked at rarely.
        let pause_ns: i64 = if small { 900_000_000 } else { 250_000_000 };
        let pause = libc::timespec {
            tv_sec: 0,
            tv_nsec: pause_ns,
        };
        // SAFETY: sleeps.
        unsafe { libc::nanosleep(&raw const pause, core::ptr::null_mut()) };
        upkeep::serve_dump();
        upkeep::round(BACKGROUND_PAGES);
        if is_last() {
            // The C library ends the process with its last thread.
            return core::ptr::null_mut();
        }
    }
}

/// Starts the background thread unless it runs. Called when the program creates a thread, and so at
/// a place where creating one is allowed.
pub fn start_background(create: Create) {
    if !ALLOWED.load(Ordering::Relaxed) || upkeep::has_background() {
        return;
    }
    upkeep::set_background(true);
    // SAFETY: plain calls on local objects; the thread touches only statics.
    let created = unsafe {
        let mut all: libc::sigset_t = core::mem::zeroed();
        let mut before: libc::sigset_t = core::mem::zeroed();
        libc::sigfillset(&raw mut all);
        // No signal handler of the program runs on this thread.
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let mut attributes: libc::pthread_attr_t = core::mem::zeroed();
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        libc::pthread_attr_setstacksize(&raw mut attributes, STACK_BYTES);
        let mut thread: libc::pthread_t = core::mem::zeroed();
        let result = create(
            &raw mut thread,
            &raw const attributes,
            run,
            core::ptr::null_mut(),
        );
        libc::pthread_attr_destroy(&raw mut attributes);
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
        assert!(shows_last(line("Z", 2).as_bytes()));
        assert!(!shows_last(line("Z", 3).as_bytes()));
        assert!(!shows_last(line("S", 2).as_bytes()));
        assert!(!shows_last(b"") && !shows_last(b"77 (a"));
    }
}
