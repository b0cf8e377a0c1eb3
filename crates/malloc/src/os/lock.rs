// SPDX-License-Identifier: MIT OR Apache-2.0
//! A lock that needs no memory and no libc: one word and the futex call.
//!
//! Before a fork all locks are shut ([`ForkLock::shut`]): nobody passes but the thread that forks.
//! Its other fork handlers, of whatever library and in whatever order, may allocate all the same.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;
/// Held for a fork: open to the thread that forks alone.
const SHUT: u32 = 3;
/// Spins before sleeping: about as long as a batch moves in or out of a central free list.
const SPINS: u32 = 100;

/// The thread that forks; 0 while none does.
static FORKING: AtomicUsize = AtomicUsize::new(0);

/// Names the calling thread as the one that forks. To be called while it holds the first of the
/// locks that are shut, which keeps other forks waiting.
pub fn begin_fork() {
    FORKING.store(this_thread(), Ordering::Relaxed);
}

/// The fork is over. To be called before the first lock is opened.
pub fn end_fork() {
    FORKING.store(0, Ordering::Relaxed);
}

/// Whether the calling thread prepares a fork or has just forked.
pub fn is_forking() -> bool {
    let forking = FORKING.load(Ordering::Relaxed);
    forking != 0 && forking == this_thread()
}

/// A number of the calling thread, not 0, which the child of a fork has too.
fn this_thread() -> usize {
    #[cfg(feature = "models")]
    if super::model::running() {
        return super::model::thread() + 1;
    }
    // SAFETY: no preconditions.
    unsafe { libc::pthread_self() as usize }
}

/// A mutual exclusion lock around a value; constant-initialised, four bytes beside the value.
pub struct Lock<T> {
    state: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a guard, and there is one guard at a time.
unsafe impl<T: Send> Sync for Lock<T> {}
// SAFETY: moving the lock moves the value.
unsafe impl<T: Send> Send for Lock<T> {}

impl<T> Lock<T> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        Lock {
            state: AtomicU32::new(FREE),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the lock, waiting for it if need be.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        self.acquire();
        Guard { lock: self }
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        model_step();
        self.state
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|_| Guard { lock: self })
    }

    #[inline]
    fn acquire(&self) {
        model_step();
        if self
            .state
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            self.acquire_slow();
        }
    }

    #[cold]
    fn acquire_slow(&self) {
        for _ in 0..SPINS {
            core::hint::spin_loop();
            model_step();
            if self.state.load(Ordering::Relaxed) == FREE
                && self
                    .state
                    .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return;
            }
        }
        self.wait_for(CONTENDED);
    }

    /// Waits until the lock is free and brings it into the state `taken`, or until it is shut for
    /// the calling thread's own fork.
    fn wait_for(&self, taken: u32) {
        loop {
            let state = self.state.load(Ordering::Relaxed);
            let (new, order) = match state {
                FREE => (taken, Ordering::Acquire),
                SHUT if is_forking() => return,
                SHUT => (SHUT, Ordering::Relaxed),
                _ => (CONTENDED, Ordering::Relaxed),
            };
            let changed = new != state;
            if changed
                && self
                    .state
                    .compare_exchange(state, new, order, Ordering::Relaxed)
                    .is_err()
            {
                model_step();
                continue;
            }
            if state == FREE {
                return;
            }
            futex_wait(&self.state, new);
        }
    }

    /// Gives the lock back, unless it is shut.
    #[inline]
    fn release(&self) {
        model_step();
        if self
            .state
            .compare_exchange(HELD, FREE, Ordering::Release, Ordering::Relaxed)
            .is_err()
        {
            self.release_slow();
        }
    }

    #[cold]
    fn release_slow(&self) {
        if self.state.load(Ordering::Relaxed) == CONTENDED {
            self.state.store(FREE, Ordering::Release);
            futex_wake(&self.state, 1);
        } else {
            debug_assert!(is_forking(), "only a shut lock stays as it is");
        }
    }

    /// Whether nobody holds the lock at this moment.
    pub fn is_free(&self) -> bool {
        self.state.load(Ordering::Relaxed) == FREE
    }

    /// The value, without taking the lock.
    pub const fn value_pointer(&self) -> *mut T {
        self.value.get()
    }
}

/// A lock of whatever value, for a fork.
pub trait ForkLock: Sync {
    /// Takes the lock before a fork, for a call that ends without giving it back. From then on only
    /// the thread that forks passes: see [`begin_fork`].
    fn shut(&self);

    /// Gives the lock back after a fork, in parent and child.
    ///
    /// # Safety
    /// The caller took the lock by [`ForkLock::shut`], or inherited it so, and is done with the
    /// value.
    unsafe fn open(&self);
}

impl<T: Send> ForkLock for Lock<T> {
    fn shut(&self) {
        model_step();
        self.wait_for(SHUT);
    }

    unsafe fn open(&self) {
        model_step();
        debug_assert_eq!(self.state.load(Ordering::Relaxed), SHUT);
        self.state.store(FREE, Ordering::Release);
        futex_wake(&self.state, i32::MAX);
    }
}

/// Holds the lock until dropped.
pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard proves that this thread holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard proves that this thread holds the lock, and it is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.release();
    }
}

/// Lets other threads run for a moment: a sleep, because a thread of high real-time priority that
/// only yields would keep the one it waits for from running. A futex that nobody wakes, because
/// `nanosleep` is a cancellation point, and a call that a program may have forbidden itself. Keeps
/// errno.
#[cfg(not(any(miri, feature = "models")))]
pub fn pause() {
    let moment = libc::timespec {
        tv_sec: 0,
        tv_nsec: 50_000,
    };
    futex_wait_for(&AtomicU32::new(FREE), FREE, &raw const moment);
}

/// See above.
#[cfg(all(miri, not(feature = "models")))]
pub fn pause() {
    std::thread::yield_now();
}

/// A place where the model checker may let another thread run; nothing otherwise.
#[inline(always)]
pub fn model_step() {
    #[cfg(feature = "models")]
    super::model::step();
}

/// See above.
#[cfg(feature = "models")]
pub fn pause() {
    model_step();
}

#[cfg(not(any(miri, feature = "models")))]
fn futex_wait(word: &AtomicU32, expected: u32) {
    futex_wait_for(word, expected, core::ptr::null());
}

#[cfg(not(any(miri, feature = "models")))]
fn futex_wait_for(word: &AtomicU32, expected: u32, timeout: *const libc::timespec) {
    let saved = crate::os::sys::errno();
    // SAFETY: FUTEX_WAIT reads one aligned word that outlives the call, and a time or null.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            timeout,
        );
    }
    crate::os::sys::set_errno(saved);
}

#[cfg(not(any(miri, feature = "models")))]
fn futex_wake(word: &AtomicU32, waiters: i32) {
    let saved = crate::os::sys::errno();
    // SAFETY: FUTEX_WAKE only uses the address as a key.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            waiters,
        );
    }
    crate::os::sys::set_errno(saved);
}

#[cfg(any(miri, feature = "models"))]
fn futex_wait(_word: &AtomicU32, _expected: u32) {
    #[cfg(feature = "models")]
    pause();
    #[cfg(not(feature = "models"))]
    std::thread::yield_now();
}

#[cfg(any(miri, feature = "models"))]
fn futex_wake(_word: &AtomicU32, _waiters: i32) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_to_the_sum_of_all_threads() {
        static TOTAL: Lock<u64> = Lock::new(0);
        let rounds = if cfg!(miri) { 50 } else { 20_000 };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        *TOTAL.lock() += 1;
                    }
                });
            }
        });
        assert_eq!(*TOTAL.lock(), 4 * rounds);
    }

    #[test]
    fn try_lock_fails_while_held() {
        let lock = Lock::new(());
        let guard = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(guard);
        assert!(lock.try_lock().is_some());
    }
}
