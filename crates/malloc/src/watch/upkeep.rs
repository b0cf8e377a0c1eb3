// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work that is done now and then: the caches age, memory goes back to the system, broken
//! hugepages are rebuilt. A background thread does it if there is one; otherwise the slow path of
//! whoever allocates or frees.

use crate::cache;
use crate::central::{self, HoleBudget};
use crate::heap::pageheap::{self, AtOnce, CollapseBudget};
use crate::heap::{BackOff, ReleasePolicy};
use crate::heap::{eager, limit};
use crate::os::lock::{ForkLock, Lock};
use crate::os::pagemap;
use crate::os::percpu::PerCpu;
use crate::os::threads::{has_background, note_background};
use crate::os::vm::real::HugeMode;
use crate::os::{batch, sys};
use crate::size_class::CLASSES;
use crate::units::{PAGE_BYTES, PAGE_SHIFT, PAGES_PER_HUGE};
use crate::watch::options::Options;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Between two rounds.
const PERIOD_NS: u64 = 250_000_000;
/// Rounds between two looks at idle caches.
const CACHE_ROUNDS: u32 = 4;
/// Between two looks at how the system maps hugepages.
const LOOK_PERIOD_NS: u64 = 5_000_000_000;
/// Hugepages of a heap looked at then: half a GiB, all of 64 GiB in ten minutes.
const LOOKED_HUGEPAGES: usize = 256;
/// The most that one round releases where it delays a caller, in pages: 64 MiB.
const FOREGROUND_PAGES: usize = (64 << 20) >> PAGE_SHIFT;

/// What one round does for native pages inside spans in use.
const HOLES: HoleBudget = HoleBudget {
    hugepages: 64,
    slow_ns: 10_000_000,
    all: false,
};

/// What the rounds do.
struct Plan {
    policy: ReleasePolicy,
    collapse: CollapseBudget,
    back_off: BackOff,
    /// Whether hugepages that the system maps with native pages are looked for.
    contiguity: bool,
    next_look_ns: u64,
    enabled: bool,
    /// Whether memory goes back in the call that frees it.
    at_once: bool,
    /// Pages per round released without regard to the policy: the steady rate of the paper.
    steady_pages: usize,
    rounds: u32,
    /// Whether the last round released something.
    releasing: bool,
}

static PLAN: Lock<Plan> = Lock::new(Plan {
    policy: ReleasePolicy::DEFAULT,
    collapse: CollapseBudget {
        hugepages: 8,
        slow_ns: 30_000_000,
    },
    back_off: BackOff::new(),
    contiguity: true,
    next_look_ns: 0,
    enabled: true,
    at_once: true,
    steady_pages: 0,
    rounds: 0,
    releasing: false,
});
static NEXT_NS: AtomicU64 = AtomicU64::new(0);
/// Slow calls so far.
static CALLS: PerCpu = PerCpu::zeroed();
/// Between two times that what a free left makes the rounds look closely.
const LEFT_PERIOD_NS: u64 = 20_000_000;
/// Rounds that look closely then.
const CLOSE_ROUNDS: u32 = 8;
/// Rounds still to look closely, and when that was last begun.
static CLOSE: AtomicU32 = AtomicU32::new(0);
static CLOSE_NS: AtomicU64 = AtomicU64::new(0);
/// What a signal asked for; 0 for nothing.
static DUMP: AtomicU8 = AtomicU8::new(0);

/// Applies the options.
pub fn configure(options: &Options) {
    let mut plan = PLAN.lock();
    plan.policy = options.release;
    plan.enabled = options.release_enabled;
    plan.at_once = options.heap.window_s <= 2;
    plan.steady_pages =
        (options.release_rate_bytes >> PAGE_SHIFT) * PERIOD_NS as usize / 1_000_000_000;
    plan.collapse.hugepages = options.collapse_hugepages;
    plan.contiguity = options.contiguity;
    drop(plan);
    batch::configure(cache::unconfined);
    super::sparse::configure(options.huge == HugeMode::ByNeed);
    set_background(false);
}

/// Notes that a background thread runs, or no longer does (in the child of a fork).
pub fn set_background(runs: bool) {
    note_background(runs);
    super::socket::set_background(runs);
    let plan = PLAN.lock();
    let at_once = AtOnce {
        policy: plan.policy,
        idle,
    };
    pageheap::set_eager((plan.enabled && plan.at_once && !runs).then_some(at_once));
}

/// See [`sys::idle`]; `None` under a filter of system calls, which may not allow it.
fn idle() -> Option<sys::Idle> {
    cache::unconfined().then(sys::idle).flatten()
}

/// The lock to shut for a fork.
pub fn fork_lock() -> &'static dyn ForkLock {
    &PLAN
}

/// Called on every slow path: does a round when one is due. Reads the clock at every eighth call of
/// a CPU.
/// A program whose calls never leave the caches comes here too, by the countdown of the fast path:
/// a few times between two rounds, see [`cache::look_later`].
#[inline]
pub fn tick() {
    let counter = CALLS.here();
    let calls = counter.load(Ordering::Relaxed).wrapping_add(1);
    counter.store(calls, Ordering::Relaxed);
    keep_soft();
    if eager::has_left() {
        begin_close();
    }
    if calls.is_multiple_of(8) || CLOSE.load(Ordering::Relaxed) > 0 {
        tick_now();
    }
}

/// After a free that left more memory than there should be: what caches hold and what is to be
/// released later would stay if the program waits from now on and hardly calls, so that its next
/// calls look whether a round is due, whatever they ask for.
#[cold]
fn begin_close() {
    let now_ns = sys::now_ns();
    // In between the note stays as it is, and its line with every CPU.
    if now_ns.saturating_sub(CLOSE_NS.load(Ordering::Relaxed)) >= LEFT_PERIOD_NS {
        eager::forget_left();
        CLOSE_NS.store(now_ns, Ordering::Relaxed);
        CLOSE.store(CLOSE_ROUNDS, Ordering::Relaxed);
        cache::look_soon();
    }
}

/// Whether this round is one that looks closely; the next one may be, too.
fn take_close() -> bool {
    let left = CLOSE.load(Ordering::Relaxed);
    if left > 0 {
        // Rounds of several threads at the same time may count as one.
        CLOSE.store(left - 1, Ordering::Relaxed);
    }
    left > 0
}

/// Asks for statistics or a profile, see [`super::dump::requested`]; async-signal-safe.
pub fn request_dump(what: u8) {
    DUMP.store(what, Ordering::Relaxed);
}

/// Writes what a signal asked for.
pub fn serve_dump() {
    if DUMP.load(Ordering::Relaxed) != 0 {
        match DUMP.swap(0, Ordering::Relaxed) {
            0 => {}
            what => crate::watch::dump::requested(what),
        }
    }
}

fn tick_now() {
    serve_dump();
    super::control::serve();
    super::socket::serve_pending();
    if has_background() {
        cache::look_later();
        return;
    }
    let now_ns = sys::now_ns();
    let next_ns = NEXT_NS.load(Ordering::Relaxed);
    if now_ns < next_ns
        || NEXT_NS
            .compare_exchange(
                next_ns,
                now_ns + PERIOD_NS,
                Ordering::Relaxed,
                Ordering::Relaxed,
            )
            .is_err()
    {
        cache::look_later();
        return;
    }
    // The first call only sets the clock: a short-lived process does no round.
    if next_ns != 0 {
        super::socket::serve();
        round(FOREGROUND_PAGES);
    } else {
        cache::look_later();
    }
}

/// One round, releasing at most `limit` pages.
pub fn round(limit: usize) {
    let Some(mut plan) = PLAN.try_lock() else {
        return;
    };
    plan.rounds = plan.rounds.wrapping_add(1);
    let (policy, budget, steady) = (plan.policy, plan.collapse, plan.steady_pages);
    let (enabled, mut back_off) = (plan.enabled, plan.back_off);
    let now_ns = sys::now_ns();
    let looks = plan.contiguity && now_ns >= plan.next_look_ns;
    if looks {
        plan.next_look_ns = now_ns + LOOK_PERIOD_NS;
    }
    let caches = plan.releasing || plan.rounds.is_multiple_of(CACHE_ROUNDS);
    drop(plan);
    super::observe::round();
    // After a drop, what idle caches hold keeps spans and with them hugepages from being released;
    // and only what is in no cache when the last peak passes goes back with it.
    let close = take_close();
    if caches || close || pageheap::has_dropped(&policy) {
        cache::drain(false);
        if close {
            cache::drain_unused();
        }
        (1..CLASSES).for_each(|class| central::drain_transfer(class, close));
    }
    let batches = batch::Round::begin();
    if enabled {
        let releasing = pageheap::release_excess(&policy, limit) > 0;
        let holes = central::make_holes(&HOLES, &policy) > 0;
        PLAN.lock().releasing = releasing || holes;
    }
    if steady > 0 {
        pageheap::release(steady, &policy);
    }
    drop(batches);
    if super::sparse::any() && cache::unconfined() {
        super::sparse::look();
    }
    if looks && cache::unconfined() && pagemap::allows_hugepages() {
        pageheap::look(LOOKED_HUGEPAGES);
        back_off.reconsider(now_ns, pagemap::free_hugepages);
    }
    if budget.hugepages > 0 {
        let backed_bytes = || pageheap::sizes().backed_pages() * PAGE_BYTES;
        crate::os::vm::real::collapse_beginning(backed_bytes);
        pageheap::collapse(&budget, &mut back_off);
        PLAN.lock().back_off = back_off;
    }
    if close {
        cache::look_soon();
    }
}

/// Releases up to `pages` free pages, breaking hugepages if need be; pages released.
pub fn release(pages: usize) -> usize {
    let policy = ReleasePolicy {
        huge_floor_percent: 0,
        ..PLAN.lock().policy
    };
    pageheap::release(pages, &policy)
}

/// Gives back all memory that can be given back: `malloc_trim`. True if some was.
pub fn trim(keep_pages: usize) -> bool {
    let _batches = batch::Round::begin();
    cache::drain(true);
    (1..CLASSES).for_each(|class| central::drain_transfer(class, true));
    let policy = ReleasePolicy {
        huge_floor_percent: 0,
        ..PLAN.lock().policy
    };
    let sizes = pageheap::sizes();
    let free = sizes.backed_pages().saturating_sub(sizes.in_use_pages());
    let released = pageheap::release(free.saturating_sub(keep_pages), &policy) > 0;
    let everything = HoleBudget {
        hugepages: usize::MAX,
        slow_ns: u64::MAX,
        all: true,
    };
    (keep_pages == 0 && central::make_holes(&everything, &policy) > 0) || released
}

/// Makes a request of `pages` pages again after memory went back, if it failed and there is a hard
/// limit: first what is free in the page heap, then what lies in the caches too.
pub fn with_room<T>(pages: usize, mut request: impl FnMut() -> Option<T>) -> Option<T> {
    request().or_else(|| make_room(pages, request))
}

#[cold]
#[inline(never)]
fn make_room<T>(pages: usize, mut request: impl FnMut() -> Option<T>) -> Option<T> {
    if !limit::is_hard() {
        return None;
    }
    release(pages.saturating_add(PAGES_PER_HUGE));
    let result = request().or_else(|| {
        trim(0);
        request()
    });
    if result.is_none() {
        limit::note_refused();
    }
    result
}

/// Gives free memory back if the heap is beyond the soft limit. To be called without locks.
#[inline]
fn keep_soft() {
    if let Some(soft) = limit::take_over_soft() {
        give_back_beyond(soft);
    }
}

#[cold]
fn give_back_beyond(soft_pages: usize) {
    let excess = pageheap::sizes().backed_pages().saturating_sub(soft_pages);
    if excess > 0 {
        release(excess);
    }
}

/// Changes how much free memory is kept at least.
pub fn set_keep_pages(pages: usize) {
    PLAN.lock().policy.keep_pages = pages;
    set_background(has_background());
}
