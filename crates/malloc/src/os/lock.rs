// SPDX-License-Identifier: MIT OR Apache-2.0
//! A lock that needs no memory, no thread identity and no libc: one word and the futex call.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;
/// Spins before sleeping: about as long as a batch moves in or out of a central free list.
const SPINS: u32 = 100;

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

    /// Takes the lock without a guard: for fork handlers, which lock in one call and unlock in
    /// another.
    #[inline]
    pub fn acquire(&self) {
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
        while self.state.swap(CONTENDED, Ordering::Acquire) != FREE {
            futex_wait(&self.state, CONTENDED);
        }
    }

    /// Gives the lock back.
    ///
    /// # Safety
    /// The caller took the lock by [`Lock::acquire`] (or inherited it through fork) and uses the
    /// value no longer.
    #[inline]
    pub unsafe fn release(&self) {
        model_step();
        if self.state.swap(FREE, Ordering::Release) == CONTENDED {
            futex_wake(&self.state);
        }
    }

    /// The value, without taking the lock.
    pub const fn value_pointer(&self) -> *mut T {
        self.value.get()
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
        // SAFETY: the guard holds the lock and ends here.
        unsafe { self.lock.release() }
    }
}

/// Lets other threads run for a moment: a sleep, because a thread of high real-time priority that
/// only yields would keep the one it waits for from running. Keeps errno.
#[cfg(not(feature = "models"))]
pub fn pause() {
    let saved = crate::os::sys::errno();
    let moment = libc::timespec {
        tv_sec: 0,
        tv_nsec: 50_000,
    };
    // SAFETY: sleeps.
    unsafe { libc::nanosleep(&raw const moment, core::ptr::null_mut()) };
    crate::os::sys::set_errno(saved);
}

/// A place where the model checker may let another thread run; nothing otherwise.
#[inline(always)]
pub fn model_step() {
    #[cfg(feature = "models")]
    if crate::models::running() {
        shuttle::thread::yield_now();
    }
}

/// See above.
#[cfg(feature = "models")]
pub fn pause() {
    model_step();
}

#[cfg(not(any(miri, feature = "models")))]
fn futex_wait(word: &AtomicU32, expected: u32) {
    let saved = crate::os::sys::errno();
    // SAFETY: FUTEX_WAIT reads one aligned word that outlives the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            core::ptr::null::<libc::timespec>(),
        );
    }
    crate::os::sys::set_errno(saved);
}

#[cfg(not(any(miri, feature = "models")))]
fn futex_wake(word: &AtomicU32) {
    let saved = crate::os::sys::errno();
    // SAFETY: FUTEX_WAKE only uses the address as a key.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
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
fn futex_wake(_word: &AtomicU32) {}

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
