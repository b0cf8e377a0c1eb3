// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ending experiments early.
//!
//! One flag for the process: a signal handler sets it, experiments look at it in their inner loops
//! and return what they have, marked partial. Code that cannot return early (a run of the server
//! model calls back from its depths) is left by unwinding from [`checkpoint`] to [`until_stopped`].
//! Code that cannot even look at the flag runs `detached`.

use anyhow::Result;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// The flag that asks all experiments of this process to end. A signal handler may set it.
pub fn flag() -> Arc<AtomicBool> {
    STOP.clone()
}

/// Whether an early end was asked for.
pub fn requested() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// What unwinds from [`checkpoint`]; no panic hook sees it.
struct Stopped;

/// Leaves the innermost [`until_stopped`] if an early end was asked for.
pub fn checkpoint() {
    if requested() {
        resume_unwind(Box::new(Stopped));
    }
}

/// Runs a function that calls [`checkpoint`]; `None` when it was left there. Other panics pass.
pub fn until_stopped<T>(run: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(value) => Some(value),
        Err(payload) if payload.is::<Stopped>() => None,
        Err(payload) => resume_unwind(payload),
    }
}

/// What `fill` puts into a list until it is done or an early end was asked for.
///
/// # Errors
/// Those of `fill`.
pub fn collect<T>(fill: impl FnOnce(&mut Vec<T>) -> Result<()>) -> Result<Vec<T>> {
    let mut list = Vec::new();
    until_stopped(|| fill(&mut list)).transpose()?;
    Ok(list)
}

/// How often one who waits looks at the flag.
const TICK: Duration = Duration::from_millis(50);

/// What a function gives that does not look at the flag. It runs in a thread of its own, which an
/// early end leaves behind: a program that builds gigabytes of data is not waited for.
pub(crate) fn detached<T: Send + 'static>(make: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        // Nobody waits any more after an early end.
        let _ = sender.send(make());
    });
    loop {
        match receiver.recv_timeout(TICK) {
            Ok(made) => return made,
            Err(RecvTimeoutError::Timeout) => checkpoint(),
            Err(RecvTimeoutError::Disconnected) => match worker.join() {
                Err(panic) => resume_unwind(panic),
                Ok(()) => unreachable!("it ends by sending or by a panic"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_left_at_its_checkpoint_and_panics_pass() {
        assert_eq!(until_stopped(|| 7), Some(7));
        let left: Option<()> = until_stopped(|| resume_unwind(Box::new(Stopped)));
        assert!(left.is_none());
        let passed = catch_unwind(|| until_stopped(|| resume_unwind(Box::new("other"))));
        assert!(passed.is_err());
        assert_eq!(detached(|| 7), 7);
        assert!(catch_unwind(|| detached(|| panic!("in the thread"))).is_err());
    }
}
