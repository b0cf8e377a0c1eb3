// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happens to the process as a whole: the library is loaded, threads begin, filters of system
//! calls are installed.

use core::ffi::{c_char, c_int, c_ulong, c_void};
use core::ptr::null_mut;

/// Prepares for threads, and starts the background thread if the options ask for it.
///
/// # Safety
/// As POSIX says of `pthread_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    routine: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    use core::sync::atomic::{AtomicPtr, Ordering};
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    let mut real = REAL.load(Ordering::Relaxed);
    if real.is_null() {
        let name: *const c_char = c"pthread_create".as_ptr();
        // SAFETY: a lookup by name.
        real = unsafe { libc::dlsym(libc::RTLD_NEXT, name) };
        if real.is_null() {
            return libc::EAGAIN;
        }
        REAL.store(real, Ordering::Relaxed);
    }
    // SAFETY: the C library's function of this name has this signature.
    let create =
        unsafe { core::mem::transmute::<*mut c_void, crate::watch::threads::Create>(real) };
    crate::front::start::ensure();
    crate::cache::register_fences();
    crate::watch::threads::start_background(create);
    // SAFETY: as the caller promises.
    unsafe { create(thread, attributes, routine, argument) }
}

/// Linux `prctl`: notes that the program begins to confine itself. A filter of system calls may
/// allow what glibc's malloc calls and nothing else.
///
/// # Safety
/// As prctl(2) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(
    option: c_int,
    second: c_ulong,
    third: c_ulong,
    fourth: c_ulong,
    fifth: c_ulong,
) -> c_int {
    if matches!(option, libc::PR_SET_NO_NEW_PRIVS | libc::PR_SET_SECCOMP) {
        crate::cache::forbid_fences();
    }
    // SAFETY: as the caller promises.
    unsafe { libc::syscall(libc::SYS_prctl, option, second, third, fourth, fifth) as c_int }
}

/// Runs when the library is loaded: what may not happen during the first allocation.
extern "C" fn loaded() {
    crate::front::start::ensure();
    crate::watch::dump::loaded();
    catch_own_panics();
}

/// A panic of the allocator itself (a broken invariant) may hold its locks, so that the usual
/// message, which allocates, would hang: it is one line and the end. The hook holds nothing, not
/// even the one before it, and so takes no memory: a program that allocates nothing has no heap.
fn catch_own_panics() {
    std::panic::set_hook(Box::new(|info| {
        let own = |place: &std::panic::Location<'_>| place.file().contains("malloc/src/");
        if info.location().is_some_and(own) {
            crate::os::report::corrupt(format_args!("internal error, please report: {info}"));
        }
        crate::os::report::warn(format_args!("{info}"));
    }));
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;
