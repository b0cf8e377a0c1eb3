// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models of the concurrent parts, for the randomised scheduler of the crate `shuttle`: see
//! [`crate::os::model`].

use crate::heap::pageheap;
use crate::os::model;
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
        // Native pages go back inside the spans that others allocate from.
        4 => drop(upkeep::trim(0)),
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

fn hand_over(threads: usize, steps: u64) {
    model::run(true);
    let shared = Shared::default();
    let workers: Vec<_> = (0..threads)
        .map(|_| {
            let shared = shared.clone();
            shuttle::thread::spawn(move || work(&shared, steps))
        })
        .chain(
            [[1, 3, 4, 1], [3, 4, 0, 3], [4, 2, 4, 3]]
                .map(|kinds| shuttle::thread::spawn(move || kinds.into_iter().for_each(disturb))),
        )
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
    model::run(false);
}

/// What a child inherits: no step of another thread half done.
fn fork_between_releases() {
    model::run(true);
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
    model::run(false);
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
    shuttle::Runner::new(scheduler, config.clone()).run(|| hand_over(3, 24));
    let scheduler = shuttle::scheduler::PctScheduler::new_from_seed(1, 3, rounds);
    shuttle::Runner::new(scheduler, config.clone()).run(|| hand_over(3, 24));
    let scheduler = shuttle::scheduler::RandomScheduler::new_from_seed(2, rounds);
    shuttle::Runner::new(scheduler, config).run(fork_between_releases);
}

/// Both kinds of caches in one test: they are the process's own, and the second stays.
#[test]
fn models_lose_and_double_nothing() {
    explore(false);
    explore(true);
}
