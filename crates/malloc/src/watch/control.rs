// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests from outside, for programs that were started without options: `ample-malloc` finds
//! [`CONTROL`] in the memory of the process by its first bytes and writes there (`/proc/PID/mem`).
//! A slow call of whatever thread, or the background thread, serves it; since a program whose
//! caches suffice makes none, the writer also turns the fast path off, and serving turns it on.

use crate::cache;
use crate::watch::observe::{self, ProfileKind};
use crate::watch::stats::{self, StatsForm};
use core::sync::atomic::{AtomicIsize, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The first bytes of [`Control`]; they change with its form.
pub const MAGIC: [u8; 16] = *b"ample-malloc/c/1";

/// What is asked for, as [`Control::request`] holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum AskedFor {
    /// Nothing; also what a request becomes once it was served.
    None,
    /// The statistics as text.
    Stats,
    /// The profile of what is live.
    Live,
    /// The profile of the peak.
    Peak,
    /// The profile of lifetimes.
    Lifetime,
    /// Begin to sample, one byte in [`Control::value`].
    Start,
    /// Sample no more.
    Stop,
    /// Nothing but the fast path.
    Wake,
    /// Not served: the program runs under a filter of system calls, or the file cannot be opened.
    Refused,
    /// It is being served.
    Busy,
}

/// What is written and read from outside, 16-byte aligned in the data of the library.
#[repr(C, align(16))]
pub struct Control {
    /// By which it is found: [`MAGIC`].
    pub magic: [u8; 16],
    /// A [`AskedFor`], written last.
    pub request: AtomicU32,
    /// Mean bytes between samples, for [`AskedFor::Start`].
    pub value: AtomicU64,
    /// Mean bytes between samples; 0 while none are taken.
    pub mean: &'static AtomicUsize,
    /// 0 turns the fast path off.
    pub fast: &'static AtomicIsize,
    /// An existing file that gets the answer, as a C string.
    pub path: [AtomicU8; 256],
}

/// The place for requests.
pub static CONTROL: Control = Control {
    magic: MAGIC,
    request: AtomicU32::new(AskedFor::None as u32),
    value: AtomicU64::new(0),
    mean: &observe::MEAN,
    fast: &cache::FAST_OFFSET,
    path: [const { AtomicU8::new(0) }; 256],
};

/// Serves a request if there is one. To be called without locks.
#[inline]
pub fn serve() {
    let request = CONTROL.request.load(Ordering::Relaxed);
    if request != AskedFor::None as u32 {
        serve_one(request);
    }
}

/// In the child of a fork, which was not asked.
pub fn fork_child() {
    CONTROL
        .request
        .store(AskedFor::None as u32, Ordering::Relaxed);
}

#[cold]
fn serve_one(number: u32) {
    let known = [
        AskedFor::Stats,
        AskedFor::Live,
        AskedFor::Peak,
        AskedFor::Lifetime,
        AskedFor::Start,
        AskedFor::Stop,
        AskedFor::Wake,
    ];
    let Some(request) = known.into_iter().find(|&kind| kind as u32 == number) else {
        return;
    };
    let busy = AskedFor::Busy as u32;
    let order = (Ordering::Acquire, Ordering::Relaxed);
    if CONTROL
        .request
        .compare_exchange(number, busy, order.0, order.1)
        .is_err()
    {
        return;
    }
    cache::restore_fast();
    let served = match request {
        AskedFor::Start => {
            observe::start(CONTROL.value.load(Ordering::Relaxed) as usize);
            true
        }
        AskedFor::Stop => {
            observe::start(0);
            true
        }
        AskedFor::Wake => true,
        AskedFor::Stats => with_file(|fd| stats::write(fd, StatsForm::Text)),
        AskedFor::Peak => with_file(|fd| observe::write_profile(fd, ProfileKind::Peak)),
        AskedFor::Lifetime => with_file(|fd| observe::write_profile(fd, ProfileKind::Lifetime)),
        _ => with_file(|fd| observe::write_profile(fd, ProfileKind::Live)),
    };
    let result = if served {
        AskedFor::None
    } else {
        AskedFor::Refused
    };
    CONTROL.request.store(result as u32, Ordering::Release);
}

/// Opens the file that the answer goes to; false if that may not or cannot be done.
fn with_file(write: impl FnOnce(i32)) -> bool {
    if !cache::unconfined() {
        return false;
    }
    let mut path = [0u8; 257];
    for (to, from) in path.iter_mut().zip(&CONTROL.path) {
        *to = from.load(Ordering::Relaxed);
    }
    let flags = libc::O_WRONLY | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NOCTTY;
    // Not by `open` and `close`, which are cancellation points.
    // SAFETY: a C string: its last byte was not written to; a descriptor opened here.
    unsafe {
        let path = path.as_ptr();
        let fd = libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags) as i32;
        if fd >= 0 {
            write(fd);
            libc::syscall(libc::SYS_close, fd);
        }
        fd >= 0
    }
}
