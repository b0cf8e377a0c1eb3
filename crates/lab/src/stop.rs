// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ending experiments early.
//!
//! One flag for the process: a signal handler sets it, experiments look at it in their inner loops
//! and return what they have, marked partial. Code that cannot return early (a run of the server
//! model calls back from its depths) is left by unwinding from [`checkpoint`] to [`until_stopped`].

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

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
    }
}
