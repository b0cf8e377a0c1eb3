// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics on demand: at exit, by a signal, or by a call.

use crate::options::Options;
use crate::stats;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

static AT_EXIT: AtomicBool = AtomicBool::new(false);
static JSON: AtomicBool = AtomicBool::new(false);
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// Applies the options.
pub fn configure(options: &Options) {
    AT_EXIT.store(options.stats_at_exit, Ordering::Relaxed);
    JSON.store(options.stats_json, Ordering::Relaxed);
    SIGNAL.store(options.signal, Ordering::Relaxed);
}

/// Writes the statistics to a file descriptor.
pub fn write(fd: i32, json: bool) {
    if json {
        stats::write_json(fd);
    } else {
        stats::write_text(fd);
    }
}

extern "C" fn at_exit() {
    write(2, JSON.load(Ordering::Relaxed));
}

/// The handler asks for statistics; they are written by the next slow call or upkeep round, because
/// a handler may interrupt a thread that holds the locks.
extern "C" fn on_signal(_signal: i32) {
    crate::upkeep::request_dump();
}

/// Writes what a signal asked for.
pub fn requested() {
    write(2, JSON.load(Ordering::Relaxed));
}

/// Called once the library is loaded: registers what the options ask for.
pub fn loaded() {
    if AT_EXIT.load(Ordering::Relaxed) {
        // SAFETY: the function lives as long as the process.
        unsafe { libc::atexit(at_exit) };
    }
    let signal = SIGNAL.load(Ordering::Relaxed);
    if signal > 0 {
        // SAFETY: a zeroed sigaction with a handler that only stores a flag.
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, core::ptr::null_mut());
        }
    }
}
