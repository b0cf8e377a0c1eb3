// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics on demand: at exit, by a signal, or by a call.

use crate::heap::pageheap;
use crate::os::lock::{ForkLock, Lock};
use crate::os::{numa, report, sys};
use crate::watch::observe::{self, ProfileKind};
use crate::watch::options::{Options, Path};
use crate::watch::socket;
use crate::watch::stats::{self, StatsForm};
use crate::watch::upkeep;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, Ordering};

static AT_EXIT: AtomicBool = AtomicBool::new(false);
static FORM: AtomicU8 = AtomicU8::new(0);
static SIGNAL: AtomicI32 = AtomicI32::new(0);

struct Paths {
    stats: Path,
    signal: Path,
    profile: Path,
    record: Path,
    socket: Path,
}

static PATHS: Lock<Paths> = Lock::new(Paths {
    stats: Path::NONE,
    signal: Path::NONE,
    profile: Path::NONE,
    record: Path::NONE,
    socket: Path::NONE,
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
        socket: options.socket,
    };
}

extern "C" fn at_exit() {
    if AT_EXIT.load(Ordering::Relaxed) {
        write_to(PATHS.lock().stats);
    }
    let profile = PATHS.lock().profile;
    if profile.is_some() {
        for (kind, ending) in [
            (ProfileKind::Live, ""),
            (ProfileKind::Peak, ".peak"),
            (ProfileKind::Lifetime, ".lifetime"),
        ] {
            with_file(&profile, ending, |fd| observe::write_profile(fd, kind));
        }
    }
    pageheap::lock().trace.stop();
}

/// The lock to shut for a fork.
pub fn fork_lock() -> &'static dyn ForkLock {
    &PATHS
}

fn with_file(path: &Path, ending: &str, write: impl FnOnce(i32)) {
    let fd = path.create(ending);
    if fd >= 0 {
        write(fd);
        // SAFETY: the descriptor was opened here.
        unsafe { libc::close(fd) };
    }
}

/// The handler writes statistics, or a profile if the signal came by `sigqueue` with the number of
/// its kind and one; where it interrupts a thread that holds a lock of the allocator,
/// the next slow call or upkeep round does. Locks that other threads take meanwhile it waits for.
extern "C" fn on_signal(_signal: i32, info: *mut libc::siginfo_t, _context: *mut c_void) {
    let saved = sys::errno();
    // SAFETY: the kernel gives a valid siginfo, which has a value in signals of this code.
    let value = unsafe {
        match (*info).si_code {
            libc::SI_QUEUE => (*info).si_value().sival_ptr as usize,
            _ => 0,
        }
    };
    upkeep::request_dump(1 + value.min(3) as u8);
    if PATHS.is_free() && observe::is_free() && stats::is_readable() {
        upkeep::serve_dump();
    }
    sys::set_errno(saved);
}

/// Writes what a signal asked for: 1 for statistics, 2 and more for the kinds of profiles.
pub fn requested(what: u8) {
    let (stats, signal) = {
        let paths = PATHS.lock();
        (paths.stats, paths.signal)
    };
    let path = if signal.is_some() { signal } else { stats };
    match what.checked_sub(2).map(ProfileKind::from_number) {
        Some(kind) if path.is_some() => {
            with_file(&path, "", |fd| observe::write_profile(fd, kind));
        }
        Some(kind) => to_stderr(|fd| observe::write_profile(fd, kind)),
        None => write_to(path),
    }
}

/// Writes the statistics to a file, or to stderr without one.
fn write_to(path: Path) {
    let form = StatsForm::from_number(FORM.load(Ordering::Relaxed));
    if path.is_some() {
        with_file(&path, "", |fd| stats::write(fd, form));
    } else {
        to_stderr(|fd| stats::write(fd, form));
    }
}

/// A duplicate of stderr, made when the library was loaded, and which file it is; -1 for none.
static STDERR: AtomicI32 = AtomicI32::new(-1);
static STDERR_FILE: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Device and number of the file behind a descriptor.
fn file_of(fd: i32) -> Option<[u64; 2]> {
    // SAFETY: the kernel fills the structure, and zero is a valid value of each of its fields.
    unsafe {
        let mut found: libc::stat = core::mem::zeroed();
        (libc::fstat(fd, &raw mut found) == 0).then_some([found.st_dev, found.st_ino])
    }
}

/// Keeps stderr for the end: programs close theirs, and may have opened a file of their own in its
/// place by then (coreutils close it at exit).
fn keep_stderr() {
    if let Some(file) = file_of(2) {
        for (kept, own) in STDERR_FILE.iter().zip(file) {
            kept.store(own, Ordering::Relaxed);
        }
        // Far from the numbers that a program's own files get, and gone after exec.
        // SAFETY: duplicates a descriptor.
        let kept = unsafe { libc::fcntl(2, libc::F_DUPFD_CLOEXEC, 200) };
        STDERR.store(kept, Ordering::Relaxed);
    }
}

/// Writes to stderr where it is the file that it was, or to its duplicate; else to nothing.
fn to_stderr(write: impl FnOnce(i32)) {
    let kept = STDERR.load(Ordering::Relaxed);
    if kept < 0 {
        // Not kept: nobody asked for anything at exit.
        return write(2);
    }
    let wanted = [0, 1].map(|at| STDERR_FILE[at].load(Ordering::Relaxed));
    let own = [2, kept]
        .into_iter()
        .find(|&fd| file_of(fd) == Some(wanted));
    if let Some(fd) = own {
        write(fd);
    }
}

/// Called once the library is loaded: registers what the options ask for.
pub fn loaded() {
    let (record, profile, socket) = {
        let paths = PATHS.lock();
        (paths.record, paths.profile, paths.socket)
    };
    let asked = AT_EXIT.load(Ordering::Relaxed) || SIGNAL.load(Ordering::Relaxed) > 0;
    if asked {
        keep_stderr();
    }
    socket::start(socket);
    if record.is_some() {
        if numa::nodes() > 1 {
            report::warn(format_args!(
                "the trace will hold the page heap of the first of {} nodes only; numa=0 records \
                 everything",
                numa::nodes()
            ));
        }
        let fd = record.create("");
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
            action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
            libc::sigaction(signal, &raw const action, core::ptr::null_mut());
        }
    }
}
