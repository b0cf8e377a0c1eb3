// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models of the concurrent parts, for the randomised scheduler of the crate `shuttle`.
//!
//! The code under test is the allocator itself: every operation on a lock, every restartable
//! sequence and every parking of a slab is a step before which another thread may run. A sequence
//! is one step, which is what the kernel's restarts make of it, and before each the thread may move
//! to another of [`CPUS`] processors. Each object is owned by who allocated it; an object that is
//! handed out twice, or damaged, ends the model with the schedule that led there, which
//! `shuttle::replay` repeats.

use core::cell::Cell;

/// 8-byte words of a per-CPU slab: headers, then slots.
pub const SLAB_WORDS: usize = crate::cache::HEADERS + crate::cache::SLOTS;
/// Processors of the model.
pub const CPUS: i32 = 2;

std::thread_local! {
    static RUNNING: Cell<bool> = const { Cell::new(false) };
    /// False inside a sequence, which no other thread interrupts.
    static MOVES: Cell<bool> = const { Cell::new(true) };
}

shuttle::thread_local! {
    static CPU: Cell<i32> = Cell::new(0);
    static RANDOM: Cell<u64> = Cell::new(thread() as u64 + 1);
}

/// Whether a model is being checked on this thread.
pub fn running() -> bool {
    RUNNING.get()
}

/// The number of the calling thread of the model.
pub fn thread() -> usize {
    if running() {
        shuttle::current::me().into()
    } else {
        0
    }
}

/// The processor that the calling thread is on.
pub fn cpu() -> i32 {
    if running() { CPU.with(Cell::get) } else { 0 }
}

/// Runs a sequence of several operations as one step.
pub fn in_one_step<T>(sequence: impl FnOnce() -> T) -> T {
    move_thread();
    let moves = MOVES.replace(false);
    let result = sequence();
    MOVES.set(moves);
    result
}

/// A step, after which the thread may be on another processor.
pub fn move_thread() {
    if !running() || !MOVES.get() {
        return;
    }
    shuttle::thread::yield_now();
    let random = RANDOM.with(|random| {
        random.set(random.get().wrapping_mul(6_364_136_223_846_793_005) | 1);
        random.get() >> 33
    });
    if random.is_multiple_of(4) {
        CPU.with(|cpu| cpu.set((random >> 2) as i32 % CPUS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::pageheap;
    use crate::watch::upkeep;
    use crate::{cache, central, front, size_class};
    use std::collections::BTreeMap;

    /// Sizes of few objects per span, of many, and above all classes.
    const SIZES: [usize; 5] = [48, 1000, 30_000, 200_000, 3 << 20];
    /// Objects that threads hand to each other.
    type Shared = shuttle::sync::Arc<shuttle::sync::Mutex<BTreeMap<usize, u64>>>;

    fn mark(address: usize, value: u64) {
        // SAFETY: a live object of at least 48 bytes, owned by the caller.
        unsafe { (address as *mut u64).write(value) };
    }

    fn check_and_free(address: usize, value: u64) {
        // SAFETY: as for `mark`; the object is freed once.
        unsafe {
            assert_eq!(
                (address as *const u64).read(),
                value,
                "object {address:#x} was damaged"
            );
            front::free(address);
        }
    }

    /// Allocates, passes objects on and frees those of others.
    fn work(shared: &Shared, steps: u64) {
        let me = shuttle::current::me();
        let mut own: BTreeMap<usize, u64> = BTreeMap::new();
        for step in 0..steps {
            let value = (usize::from(me) as u64) << 32 | step;
            let size = SIZES[(usize::from(me) + step as usize) % SIZES.len()];
            let address = front::allocate(size);
            assert_ne!(address, 0);
            mark(address, value);
            assert!(own.insert(address, value).is_none(), "{address:#x} is live");
            if step % 2 == 0 {
                let mut shared = shared.lock().unwrap();
                assert!(!shared.contains_key(&address), "{address:#x} is live");
                shared.extend(own.pop_last());
            }
            let taken = match step % 3 {
                0 => own.pop_first(),
                1 => shared.lock().unwrap().pop_first(),
                _ => None,
            };
            if let Some((address, value)) = taken {
                check_and_free(address, value);
            }
        }
        own.into_iter()
            .for_each(|(address, value)| check_and_free(address, value));
    }

    /// What the background thread, `malloc_trim` and fork do.
    fn disturb(kind: usize) {
        match kind {
            0 => upkeep::round(usize::MAX >> 20),
            1 => assert!(upkeep::release(1 << 20) < usize::MAX),
            2 => {
                cache::drain(false);
                (1..size_class::CLASSES).step_by(16).for_each(|class| {
                    central::drain_transfer(class, true);
                });
            }
            _ => {
                // SAFETY: one follows the other.
                unsafe {
                    front::fork::prepare();
                    // Another library's handler.
                    front::free(front::allocate(SIZES[1]));
                    front::fork::parent();
                }
            }
        }
    }

    fn model(threads: usize, steps: u64) {
        RUNNING.set(true);
        let shared = Shared::default();
        let workers: Vec<_> =
            (0..threads)
                .map(|_| {
                    let shared = shared.clone();
                    shuttle::thread::spawn(move || work(&shared, steps))
                })
                .chain([[1, 3, 2, 1], [3, 1, 0, 3], [0, 2, 1, 3]].map(|kinds| {
                    shuttle::thread::spawn(move || kinds.into_iter().for_each(disturb))
                }))
                .collect();
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        let mut left = shared.lock().unwrap();
        while let Some((address, value)) = left.pop_first() {
            check_and_free(address, value);
        }
        drop(left);
        upkeep::trim(0);
        assert_eq!(pageheap::sizes().used_pages, 0, "everything was freed");
        RUNNING.set(false);
    }

    /// What a child inherits: no step of another thread half done.
    fn fork_between_releases() {
        RUNNING.set(true);
        let release = || {
            for _ in 0..4 {
                let object = front::allocate(40 << 20);
                // SAFETY: a live object.
                unsafe { front::free(object) };
                upkeep::release(1 << 20);
            }
        };
        let workers = [(); 2].map(|()| shuttle::thread::spawn(release));
        for _ in 0..4 {
            pageheap::fork_prepare();
            assert!(pageheap::is_quiet(), "a release is under way");
            // SAFETY: prepared above.
            unsafe { pageheap::fork_done() };
        }
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        RUNNING.set(false);
    }

    fn explore(rseq: bool) {
        cache::start(cache::DEFAULT_BYTES, rseq, true);
        front::start::ensure();
        let mut config = shuttle::Config::new();
        config.stack_size = 1 << 20;
        config.max_steps = shuttle::MaxSteps::FailAfter(4_000_000);
        let rounds = std::env::var("AMPLE_MODEL_ROUNDS").ok();
        let rounds = rounds.and_then(|text| text.parse().ok()).unwrap_or(60);
        let scheduler = shuttle::scheduler::RandomScheduler::new_from_seed(1, rounds);
        shuttle::Runner::new(scheduler, config.clone()).run(|| model(3, 24));
        let scheduler = shuttle::scheduler::PctScheduler::new_from_seed(1, 3, rounds);
        shuttle::Runner::new(scheduler, config.clone()).run(|| model(3, 24));
        let scheduler = shuttle::scheduler::RandomScheduler::new_from_seed(2, rounds);
        shuttle::Runner::new(scheduler, config).run(fork_between_releases);
    }

    /// Both kinds of caches in one test: they are the process's own, and the second stays.
    #[test]
    fn models_lose_and_double_nothing() {
        explore(false);
        explore(true);
    }
}
