// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether there may be other threads, and whether one is the allocator's own.

use core::sync::atomic::{AtomicBool, Ordering};

static BACKGROUND: AtomicBool = AtomicBool::new(false);

/// Whether a background thread gives memory back.
pub fn has_background() -> bool {
    BACKGROUND.load(Ordering::Relaxed)
}

/// Notes that a background thread runs, or no longer does.
pub fn note_background(runs: bool) {
    BACKGROUND.store(runs, Ordering::Relaxed);
}

/// Whether the process may have more than one thread: glibc's own note (2.32), else yes.
pub fn may_exist() -> bool {
    single_threaded_flag().is_none_or(|single| single == 0)
}

#[cfg(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_os = "linux",
    not(miri)
))]
fn single_threaded_flag() -> Option<u8> {
    let flag: *const u8;
    // SAFETY: loads an address from the global offset table; null if the C library has no flag.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!(
            ".weak __libc_single_threaded",
            "mov {flag}, qword ptr [rip + __libc_single_threaded@GOTPCREL]",
            flag = out(reg) flag,
            options(nostack, pure, readonly, preserves_flags),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!(
            ".weak __libc_single_threaded",
            "adrp {flag}, :got:__libc_single_threaded",
            "ldr {flag}, [{flag}, :got_lo12:__libc_single_threaded]",
            flag = out(reg) flag,
            options(nostack, pure, readonly, preserves_flags),
        );
    }
    // SAFETY: a byte of the C library.
    (!flag.is_null()).then(|| unsafe { flag.read_volatile() })
}

#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_os = "linux",
    not(miri)
)))]
fn single_threaded_flag() -> Option<u8> {
    None
}
