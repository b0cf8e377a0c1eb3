// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics on demand: at exit, by a signal, or by a call.

use crate::heap::pageheap;
use crate::os::lock::{ForkLock, Lock};
use crate::os::{numa, report, sys};
use crate::watch::options::{Options, Path};
use crate::watch::stats::{self, StatsForm};
use crate::watch::{observe, upkeep};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, Ordering};

static AT_EXIT: AtomicBool = AtomicBool::new(false);
static FORM: AtomicU8 = AtomicU8::new(0);
static SIGNAL: AtomicI32 = AtomicI32::new(0);

struct Paths {
    stats: Path,
    signal: Path,
    profile: Path,
    record: Path,
}

static PATHS: Lock<Paths> = Lock::new(Paths {
    stats: Path::NONE,
    signal: Path::NONE,
    profile: Path::NONE,
    record: Path::NONE,
});

/// Applies the options.
pub fn configure(options: &Options) {
    AT_EXIT.store(options.stats_at_exit, Ordering::Relaxed);
    FORM.store(options.stats_form as u8, Ordering::Relaxed);
    SIGNAL.store(options.signal, Ordering::Relaxed);
    *PATHS.lock() = Paths {
        stats: options.stats_to,
        signal: options.signal_to,
        profile: options.profile_to,
        record: options.record,
    };
}

extern "C" fn at_exit() {
    if AT_EXIT.load(Ordering::Relaxed) {
        write_to(PATHS.lock().stats);
    }
    let profile = PATHS.lock().profile;
    if profile.is_some() {
        with_file(&profile, observe::write_profile);
    }
    pageheap::lock().trace.stop();
}

/// The lock to shut for a fork.
pub fn fork_lock() -> &'static dyn ForkLock {
    &PATHS
}

fn with_file(path: &Path, write: impl FnOnce(i32)) {
    let fd = path.create();
    if fd >= 0 {
        write(fd);
        // SAFETY: the descriptor was opened here.
        unsafe { libc::close(fd) };
    }
}

/// The handler writes statistics; where it interrupts a thread that holds a lock of the allocator,
/// the next slow call or upkeep round does. Locks that other threads take meanwhile it waits for.
extern "C" fn on_signal(_signal: i32) {
    let saved = sys::errno();
    upkeep::request_dump();
    if PATHS.is_free() && stats::is_readable() {
        upkeep::serve_dump();
    }
    sys::set_errno(saved);
}

/// Writes the statistics that a signal asked for.
pub fn requested() {
    let (stats, signal) = {
        let paths = PATHS.lock();
        (paths.stats, paths.signal)
    };
    write_to(if signal.is_some() { signal } else { stats });
}

/// Writes the statistics to a file, or to stderr without one.
fn write_to(path: Path) {
    let form = StatsForm::from_number(FORM.load(Ordering::Relaxed));
    if path.is_some() {
        with_file(&path, |fd| stats::write(fd, form));
    } else {
        stats::write(2, form);
    }
}

/// Called once the library is loaded: registers what the options ask for.
pub fn loaded() {
    let (record, profile) = {
        let paths = PATHS.lock();
        (paths.record, paths.profile)
    };
    if record.is_some() {
        if numa::nodes() > 1 {
            report::warn(format_args!(
                "the trace will hold the page heap of the first of {} nodes only; numa=0 records \
                 everything",
                numa::nodes()
            ));
        }
        let fd = record.create();
        if fd >= 0 {
            pageheap::lock().trace.start(fd);
        }
    }
    if AT_EXIT.load(Ordering::Relaxed) || record.is_some() || profile.is_some() {
        // SAFETY: the function lives as long as the process.
        unsafe { libc::atexit(at_exit) };
    }
    let signal = SIGNAL.load(Ordering::Relaxed);
    if signal > 0 {
        // SAFETY: a zeroed sigaction with a handler that allocates nothing.
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, core::ptr::null_mut());
        }
    }
}
