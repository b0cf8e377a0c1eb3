// SPDX-License-Identifier: MIT OR Apache-2.0
//! Guarded sampling: a few small objects get pages of their own with inaccessible pages on both
//! sides, so that an access beyond the object, or after it was freed, ends the program at once with
//! a line that says what happened, in production, at the cost of one slow call in many.
//!
//! One of `MEAN` calls that miss the per-CPU cache on average is guarded (option `guard=`), if a
//! slot is free and the request fits a page. The object lies at the end of its page, or at the
//! start, by turns: overruns and underruns are both found. Freed slots are used again as late as
//! possible. The pages are reserved, and a handler of faults installed where the program has none,
//! when the first call is due.

use crate::heap::pagemap::{self, GUARDED};
use crate::os::lock::{ForkLock, Lock};
use crate::os::percpu::PerCpu;
use crate::os::report::{corrupt, warn};
use crate::os::sys;
use crate::size_class::MIN_ALIGN;
use crate::units::{HUGE_BYTES, PAGE_BYTES, PAGE_SHIFT};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Slots; each has a page, with a page that cannot be accessed before and after.
const SLOTS: usize = 127;
const REGION_BYTES: usize = HUGE_BYTES;
const _: () = assert!((2 * SLOTS + 1) * PAGE_BYTES <= REGION_BYTES);

#[derive(Clone, Copy)]
struct Slot {
    address: usize,
    bytes: usize,
    live: bool,
    /// The slot was in use at least once.
    known: bool,
}

struct Slots {
    slots: [Slot; SLOTS],
    /// Slots in the order in which they are used next: the one freed last comes last.
    queue: [u8; SLOTS],
    free: usize,
    turn: bool,
    random: u64,
}

static POOL: Lock<Slots> = Lock::new(Slots {
    slots: [Slot {
        address: 0,
        bytes: 0,
        live: false,
        known: false,
    }; SLOTS],
    queue: [0; SLOTS],
    free: 0,
    turn: false,
    random: 0x2545_f491_4f6c_dd1d,
});
/// First address of the region; 0 if nothing is guarded.
static REGION: AtomicUsize = AtomicUsize::new(0);
static MEAN: AtomicU32 = AtomicU32::new(0);
/// Calls until one is guarded.
static COUNTDOWN: PerCpu = PerCpu::zeroed();
/// Objects guarded so far.
static GUARDED_OBJECTS: AtomicUsize = AtomicUsize::new(0);

/// Begins to guard one call in `mean`. Where the kernel's pages are larger than a slot, nothing is
/// guarded.
pub fn start(mean: u32) {
    if sys::native_bytes() > PAGE_BYTES {
        return;
    }
    MEAN.store(mean, Ordering::Relaxed);
    COUNTDOWN.set(mean);
}

/// Reserves the region; false if there is no memory.
fn reserve(pool: &mut Slots) -> bool {
    let Some(base) = sys::map_aligned(0, REGION_BYTES, HUGE_BYTES) else {
        return false;
    };
    if !sys::protect(base, REGION_BYTES, false)
        || !pagemap::prepare(base >> PAGE_SHIFT, REGION_BYTES >> PAGE_SHIFT, 0)
    {
        sys::unmap(base, REGION_BYTES);
        return false;
    }
    sys::advise(base, REGION_BYTES, libc::MADV_NOHUGEPAGE);
    for slot in 0..SLOTS {
        pagemap::set(page_of(base, slot) >> PAGE_SHIFT, GUARDED, 0);
        pool.queue[slot] = slot as u8;
    }
    pool.free = SLOTS;
    REGION.store(base, Ordering::Release);
    watch();
    true
}

/// Objects guarded so far.
pub fn count() -> usize {
    GUARDED_OBJECTS.load(Ordering::Relaxed)
}

/// The lock to shut for a fork.
pub fn fork_lock() -> &'static dyn ForkLock {
    &POOL
}

const fn page_of(base: usize, slot: usize) -> usize {
    base + (2 * slot + 1) * PAGE_BYTES
}

/// A guarded object, if it is this call's turn and one can be had.
pub fn allocate(bytes: usize, align: usize) -> Option<usize> {
    let mean = MEAN.load(Ordering::Relaxed);
    if mean == 0 || bytes > PAGE_BYTES || align > PAGE_BYTES {
        return None;
    }
    let countdown = COUNTDOWN.here();
    let left = countdown.load(Ordering::Relaxed);
    // A race of two threads counts one call less, which no one notices.
    if left > 1 {
        countdown.store(left - 1, Ordering::Relaxed);
        return None;
    }
    let mut pool = POOL.lock();
    let random = pool.next_random();
    countdown.store(
        1 + (random % (2 * u64::from(mean) - 1)) as u32,
        Ordering::Relaxed,
    );
    if REGION.load(Ordering::Relaxed) == 0 && !reserve(&mut pool) {
        MEAN.store(0, Ordering::Relaxed);
    }
    if pool.free == 0 {
        return None;
    }
    let slot = usize::from(pool.queue[0]);
    let page = page_of(REGION.load(Ordering::Relaxed), slot);
    if !sys::protect(page, PAGE_BYTES, true) {
        return None;
    }
    pool.free -= 1;
    pool.queue.copy_within(1.., 0);
    pool.turn = !pool.turn;
    let room = PAGE_BYTES - bytes.max(1);
    let offset = if pool.turn {
        room & !(align.max(MIN_ALIGN) - 1)
    } else {
        0
    };
    let address = page + offset;
    pool.slots[slot] = Slot {
        address,
        bytes,
        live: true,
        known: true,
    };
    GUARDED_OBJECTS.fetch_add(1, Ordering::Relaxed);
    Some(address)
}

impl Slots {
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

fn slot_of(address: usize) -> Option<usize> {
    let base = REGION.load(Ordering::Acquire);
    let offset = address.checked_sub(base).filter(|_| base != 0)?;
    (offset < REGION_BYTES).then(|| (offset / PAGE_BYTES).saturating_sub(1) / 2)
}

/// Frees a guarded object: its page cannot be accessed until the slot is used again.
pub fn free(address: usize) {
    let Some(slot) = slot_of(address).filter(|&slot| slot < SLOTS) else {
        return;
    };
    let mut pool = POOL.lock();
    let Slot {
        address: begin,
        bytes,
        live,
        ..
    } = pool.slots[slot];
    if !live {
        corrupt(format_args!(
            "double free of {address:#x}, a guarded object of {bytes} bytes"
        ));
    }
    if begin != address {
        corrupt(format_args!(
            "invalid free of {address:#x}: inside a guarded object of {bytes} bytes at {begin:#x}"
        ));
    }
    pool.slots[slot].live = false;
    let page = page_of(REGION.load(Ordering::Relaxed), slot);
    sys::protect(page, PAGE_BYTES, false);
    sys::drop_memory(page, PAGE_BYTES);
    let last = pool.free;
    pool.queue[last] = slot as u8;
    pool.free += 1;
}

/// The bytes of a live guarded object: exactly those asked for.
pub fn usable_bytes(address: usize) -> usize {
    match slot_of(address).filter(|&slot| slot < SLOTS) {
        Some(slot) => POOL.lock().slots[slot].bytes,
        None => 0,
    }
}

/// Says what was wrong with an access at `address`, if that lies among the guarded objects. Called
/// in a signal handler, so it reads without the lock, which the thread itself may hold.
pub fn explain(address: usize) -> bool {
    let Some(near) = slot_of(address) else {
        return false;
    };
    // SAFETY: plain words of a static; a race shows one of the values, and the process ends here.
    let slots = unsafe { &(*POOL.value_pointer()).slots };
    let base = REGION.load(Ordering::Relaxed);
    let at = |slot: usize| slots.get(slot).copied().filter(|slot| slot.known);
    let in_page = at(near).filter(|_| address.wrapping_sub(page_of(base, near)) < PAGE_BYTES);
    if let Some(Slot {
        address: begin,
        bytes,
        live: false,
        ..
    }) = in_page
    {
        warn(format_args!(
            "access to {address:#x} after free: at byte {} of a freed object of {bytes} bytes",
            address.wrapping_sub(begin) as isize
        ));
        return true;
    }
    // A page between two slots: the nearer object is to blame.
    let distance = |slot: &Slot| {
        let end = slot.address + slot.bytes;
        if address >= end {
            address - end
        } else {
            slot.address.saturating_sub(address)
        }
    };
    let blamed = [at(near), at(near + 1)]
        .into_iter()
        .flatten()
        .min_by_key(distance);
    match blamed {
        Some(Slot {
            address: begin,
            bytes,
            live,
            ..
        }) => warn(format_args!(
            "access to {address:#x}, {} bytes {} {} object of {bytes} bytes at {begin:#x}",
            distance(&Slot {
                address: begin,
                bytes,
                live,
                known: true
            }),
            if address < begin { "before" } else { "beyond" },
            if live { "an" } else { "a freed" },
        )),
        None => warn(format_args!(
            "access to {address:#x}, between guarded objects"
        )),
    }
    true
}

/// Explains a fault among guarded objects, then lets happen what happens without us.
extern "C" fn on_fault(_signal: i32, info: *mut libc::siginfo_t, _context: *mut core::ffi::c_void) {
    // SAFETY: the kernel gives a valid siginfo.
    let address = unsafe { (*info).si_addr() } as usize;
    explain(address);
    // The access is repeated after the return. Only the usual action was there before.
    // SAFETY: a constant of the C library.
    unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
}

/// Installs the handler of faults, unless the program has one or may not install any.
fn watch() {
    if !crate::cache::unconfined() {
        return;
    }
    // SAFETY: zeroed sigactions, one with a handler that only reads statics and writes a line.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        let mut old: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        if libc::sigaction(libc::SIGSEGV, core::ptr::null(), &raw mut old) == 0
            && old.sa_sigaction == libc::SIG_DFL
        {
            libc::sigaction(libc::SIGSEGV, &raw const action, core::ptr::null_mut());
        }
    }
}
