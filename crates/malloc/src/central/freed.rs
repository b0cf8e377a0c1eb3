// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mark of freed small objects: their second word is a secret of the process combined with
//! their address, from the call that frees an object to the one that hands it out. A second free
//! meets it.
//!
//! A live object has it only if the program read its memory while it was free and wrote it back, so
//! what has it is looked for before it is called freed twice.

use crate::near::near_load;
use core::sync::atomic::{AtomicU64, Ordering};

/// Chosen once, before the first object is handed out.
static SECRET: AtomicU64 = AtomicU64::new(0);

/// Chooses the secret: from the random bytes that Linux gives each program.
pub fn start() {
    // SAFETY: no preconditions; AT_RANDOM is the address of 16 bytes, or 0.
    let random = unsafe { libc::getauxval(libc::AT_RANDOM) } as *const u64;
    // SAFETY: as above. The first word protects the stack.
    let random = (!random.is_null()).then(|| unsafe { random.add(1).read_unaligned() });
    SECRET.store(random.unwrap_or(0) | 1, Ordering::Release);
}

/// What the marks of this process are combined with.
pub fn secret() -> u64 {
    SECRET.load(Ordering::Relaxed)
}

/// Whether the object has the mark.
///
/// # Safety
/// As for [`set`], but the object may be live.
pub unsafe fn is_set(address: usize) -> bool {
    // SAFETY: as the caller promises.
    unsafe { word(address).read() == secret() ^ address as u64 }
}

#[inline(always)]
fn word(address: usize) -> *mut u64 {
    (address + 8) as *mut u64
}

/// Marks an object that is about to go back; false if it has the mark already.
///
/// # Safety
/// An object of a size class begins there, which the program gives up.
#[inline(always)]
pub unsafe fn set(address: usize) -> bool {
    let mark = near_load!(SECRET: u64) ^ address as u64;
    // SAFETY: objects have 16 bytes at least and are aligned to that.
    unsafe {
        let marked = word(address).read() == mark;
        if !marked {
            word(address).write(mark);
        }
        !marked
    }
}

/// Takes the mark off an object that is about to be handed out, or has not gone back after all.
///
/// # Safety
/// As for [`set`]: no cache has the object any more.
#[inline(always)]
pub unsafe fn clear(address: usize) {
    // SAFETY: as above.
    unsafe { word(address).write(0) };
}
