// SPDX-License-Identifier: MIT OR Apache-2.0
//! The slow path: batches between the slab of the calling thread and the central free lists, and
//! the limits of the classes in a slab.
//!
//! A class that is full may hold more only if it ran empty before: what is freed on this CPU but
//! allocated on another would fill the slab for nobody.

use super::{
    AFTER_MISS_BYTES, CpuSlab, FIRST_BYTES, LATER, MAX_BYTES, OFFSET, OUT_OF_REACH, SHARD, SHARDS,
    SLAB_LIST, SLABS,
};
use crate::cache::rseq::{self, Header};
use crate::central;
use crate::os::lock::is_forking;
use crate::os::numa;
use crate::size_class::{CLASSES, MAX_BATCH, TABLE};
use core::sync::atomic::{AtomicU64, Ordering};

/// Misses of a slab between two sweeps of it.
const SWEEP_MISSES: u64 = 64;
/// Sweeps begin when the limits add up to this part of the most that the slab may hold.
const SWEEP_SHARE: usize = 4;

/// The slab that the calling thread works on at present: its CPU's, or a shared one whose lock the
/// caller holds.
#[derive(Clone, Copy)]
struct Local {
    slab: &'static CpuSlab,
    /// Thread-pointer offset of the rseq area; 0 for a shared slab.
    offset: isize,
}

/// Calls `work` with the slab of the calling thread, created if need be; with `None` if there is no
/// memory for it.
#[inline(always)]
fn with_local<T>(work: impl FnOnce(Option<Local>) -> T) -> T {
    let offset = OFFSET.load(Ordering::Acquire);
    if offset != 0 && !super::vfork::is_child() {
        // SAFETY: the offset is that of the registered area.
        let cpu = unsafe { rseq::cpu(offset) };
        if cpu >= 0 {
            return work(slab_of_cpu(cpu as usize).map(|slab| Local { slab, offset }));
        }
    }
    let (node, shard) = shard_of_cpu(numa::cpu());
    let mut guard = SHARD[shard].lock();
    if guard.0.is_null() {
        guard.0 = CpuSlab::create(shard, node)
            .map_or(core::ptr::null_mut(), |slab| slab.pointer().cast());
    }
    // SAFETY: slabs are never freed.
    let slab = unsafe { guard.0.as_ref() };
    work(slab.map(|slab| Local { slab, offset: 0 }))
}

#[inline(always)]
fn slab_of_cpu(cpu: usize) -> Option<&'static CpuSlab> {
    let slab = SLABS.get(cpu)?.load(Ordering::Acquire);
    // SAFETY: slabs are never freed.
    match unsafe { slab.cast::<CpuSlab>().as_ref() } {
        None => create_slab_of_cpu(cpu),
        slab => slab,
    }
}

#[cold]
#[inline(never)]
fn create_slab_of_cpu(cpu: usize) -> Option<&'static CpuSlab> {
    if is_forking() {
        // Every slab is parked, for other threads too.
        return None;
    }
    let _admin = super::ADMIN.lock();
    let entry = &SLABS[cpu];
    let mut slab = entry.load(Ordering::Acquire);
    if slab.is_null() {
        let created = CpuSlab::create(cpu, numa::of_cpu(cpu))?;
        created
            .next
            .store(SLAB_LIST.load(Ordering::Relaxed), Ordering::Relaxed);
        slab = created.pointer();
        SLAB_LIST.store(slab.cast(), Ordering::Release);
        entry.store(slab, Ordering::Release);
    }
    // SAFETY: slabs are never freed.
    Some(unsafe { &*slab.cast::<CpuSlab>() })
}

/// A node and the shared slab of a CPU of it. Each node has as many. A hash of the thread instead
/// of the CPU put sixteen threads into five slabs: their stacks lie at equal distances.
fn shard_of_cpu(cpu: usize) -> (usize, usize) {
    let node = numa::of_cpu(cpu);
    let shards = SHARDS / numa::nodes().next_power_of_two();
    (node, node * shards + cpu % shards)
}

/// Counts without an atomic read-modify-write: a count that is lost because the thread was
/// preempted in between matters less than the time.
fn count(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

impl Local {
    fn pop(self, class: usize) -> usize {
        match self.offset {
            0 => self.slab.pop_owned(class),
            _ => {
                let mut one = [0];
                // A sequence that was interrupted may have written an object that it did not get.
                match self.pop_many(class, &mut one) {
                    0 => 0,
                    _ => one[0],
                }
            }
        }
    }

    fn push(self, class: usize, object: usize) -> bool {
        match self.offset {
            0 => self.slab.push_owned(class, object),
            // SAFETY: the offset is that of the registered area, slabs are never freed.
            offset => unsafe { rseq::push(offset, &SLABS, class, object) },
        }
    }

    /// Pops objects, top first, until `out` is full or none is left; how many.
    fn pop_many(self, class: usize, out: &mut [usize]) -> usize {
        match self.offset {
            0 => self.slab.pop_many_owned(class, out),
            offset => {
                let (first, max) = (out.as_mut_ptr(), out.len());
                // SAFETY: as for `push`; the pointer and the length are those of `out`.
                unsafe { rseq::pop_many(offset, &SLABS, class, first, max) }
            }
        }
    }

    /// Pushes the last of the objects, which are in no slab, last first; how many.
    fn push_many(self, class: usize, objects: &[usize]) -> usize {
        match self.offset {
            0 => {
                let fits = |object: &&usize| self.slab.push_owned(class, **object);
                objects.iter().rev().take_while(fits).count()
            }
            // SAFETY: as for `push`.
            offset => unsafe { rseq::push_many(offset, &SLABS, class, objects) },
        }
    }

    fn replace_header(self, class: usize, old: Header, new: Header) -> bool {
        let (old, new) = (old.pack(), new.pack());
        match self.offset {
            0 => {
                self.slab.words[class].store(new, Ordering::Release);
                true
            }
            // SAFETY: as for `push`.
            offset => unsafe {
                rseq::replace_header(offset, &SLABS, self.slab.pointer(), class, old, new)
            },
        }
    }

    /// After a request that found the class empty: notes that it could have held more, and lets it
    /// hold at least what one visit to the central free list brings.
    fn note_underflow(self, class: usize) {
        let old = self.slab.header(class);
        let credit = old.credit.saturating_add(1);
        if old.end - old.begin >= TABLE[class].batch {
            self.replace_header(class, old, Header { credit, ..old });
        } else {
            self.grow(class, Header { credit, ..old }, old);
        }
    }

    /// After a free that found the class full: raises its limit if it ran empty before, or holds
    /// less than a batch.
    fn note_overflow(self, class: usize) {
        let old = self.slab.header(class);
        if old.credit > 0 {
            let credit = old.credit - 1;
            self.grow(class, Header { credit, ..old }, old);
        } else if old.end - old.begin < TABLE[class].batch {
            self.grow(class, old, old);
        }
    }

    /// Raises the limit of a class by up to a batch, within the slab's memory, and replaces its
    /// header `old` by `new` with that limit.
    fn grow(self, class: usize, new: Header, old: Header) {
        let info = &TABLE[class];
        let more = (info.slots - (old.end - old.begin)).min(info.batch);
        let bytes = usize::from(more) * info.bytes as usize;
        if more == 0 {
            return;
        }
        let max = MAX_BYTES.load(Ordering::Relaxed);
        let limit = &self.slab.limit_bytes;
        if limit.load(Ordering::Relaxed) + bytes > max / SWEEP_SHARE {
            self.sweep(class);
        }
        let held = limit.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let fits = held <= max || self.steal(class, held - max);
        let end = old.end + more;
        if !fits || !self.replace_header(class, old, Header { end, ..new }) {
            limit.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Empties the classes that were not used since the last sweep, but for `for_class`.
    fn sweep(self, for_class: usize) {
        let slab = self.slab;
        let misses = slab.misses();
        // Counts may be lost, so there may be fewer than at the last sweep.
        if misses.saturating_sub(slab.swept_at.load(Ordering::Relaxed)) < SWEEP_MISSES {
            return;
        }
        slab.swept_at.store(misses, Ordering::Relaxed);
        self.sweep_but(for_class);
    }

    fn sweep_but(self, for_class: usize) {
        let slab = self.slab;
        for class in 1..CLASSES {
            let old = slab.header(class);
            // Two steps: an exchange is atomic, which takes as long as the rest.
            let unused = slab.swept[class].load(Ordering::Relaxed) == old.current;
            slab.swept[class].store(old.current, Ordering::Relaxed);
            if unused && class != for_class && old.end > old.begin {
                while self.evict(class, MAX_BATCH, central::put_away) == MAX_BATCH {}
                // What a program is done with there would keep spans in use all the same.
                central::drain_transfer(class, true);
                let old = slab.header(class);
                self.lower(class, old, old.current);
            }
        }
    }

    /// Lowers the limit of a class to `end`, which is what it holds at least; by how many bytes.
    fn lower(self, class: usize, old: Header, end: u16) -> usize {
        if end == old.end || !self.replace_header(class, old, Header { end, ..old }) {
            return 0;
        }
        let bytes = usize::from(old.end - end) * TABLE[class].bytes as usize;
        self.slab.limit_bytes.fetch_sub(bytes, Ordering::Relaxed);
        bytes
    }

    /// Lowers the limits of other classes until `bytes` are free; false if that took too long.
    fn steal(self, for_class: usize, bytes: usize) -> bool {
        let slab = self.slab;
        let mut class = slab.steal_at.load(Ordering::Relaxed) as usize;
        let mut found = 0;
        for _ in 1..CLASSES {
            class = if class + 1 < CLASSES { class + 1 } else { 1 };
            let old = slab.header(class);
            if old.end == old.begin || class == for_class {
                continue;
            }
            if old.end == old.current {
                self.evict(
                    class,
                    (old.end - old.begin).div_ceil(2).into(),
                    central::put,
                );
            }
            let old = slab.header(class);
            found += self.lower(class, old, old.current + (old.end - old.current) / 2);
            if found >= bytes {
                break;
            }
        }
        slab.steal_at.store(class as u32, Ordering::Relaxed);
        found >= bytes
    }

    /// Moves up to `count` objects of a class to the central free list by `put`; how many.
    fn evict(self, class: usize, count: usize, put: fn(usize, &[usize])) -> usize {
        let mut objects = [0; MAX_BATCH];
        let taken = self.pop_many(class, &mut objects[..count.min(MAX_BATCH)]);
        put(class, &objects[..taken]);
        taken
    }

    /// A shared slab has no countdown that tells whether it is in use.
    fn note_served(self) {
        if self.offset == 0 {
            self.slab.served.store(true, Ordering::Relaxed);
        }
    }

    fn pop_slow(self, class: usize) -> usize {
        self.note_served();
        let object = self.pop(class);
        if object != 0 {
            return object;
        }
        count(&self.slab.underflows);
        let header = self.slab.header(class);
        // A slow start: as much as the class was allowed to hold so far, so that a small process
        // does not fetch what it never needs.
        let held = usize::from(header.end - header.begin).max(1);
        let wanted = held.min(TABLE[class].batch.into()) + 1;
        let mut objects = [0; MAX_BATCH + 1];
        let count = central::take(class, self.slab.node(), &mut objects[..wanted]);
        if count == 0 {
            return 0;
        }
        self.note_underflow(class);
        // The lowest address is used first.
        let kept = self.push_many(class, &objects[1..count]);
        if kept + 1 < count {
            central::put(class, &objects[1..count - kept]);
        }
        objects[0]
    }

    fn push_slow(self, class: usize, object: usize) {
        self.note_served();
        if self.push(class, object) {
            return;
        }
        count(&self.slab.overflows);
        self.note_overflow(class);
        if self.push(class, object) {
            return;
        }
        let batch = usize::from(TABLE[class].batch);
        let mut objects = [0; MAX_BATCH];
        objects[0] = object;
        let count = 1 + self.pop_many(class, &mut objects[1..batch]);
        central::put(class, &objects[..count]);
    }
}

/// Takes `bytes` off the countdown of this CPU's slab; once that is below zero, sets it to what
/// `next` gives and returns true.
#[cold]
pub fn count_down(bytes: usize, next: impl FnOnce() -> i64) -> bool {
    with_local(|local| {
        let Some(Local { slab, .. }) = local else {
            return false;
        };
        // What the fast path subtracts meanwhile on that CPU may be lost.
        let countdown = &slab.words[0];
        let left = (countdown.load(Ordering::Relaxed) as i64).saturating_sub_unsigned(bytes as u64);
        let due = left < 0;
        let left = if due { next() } else { left };
        countdown.store(left as u64, Ordering::Relaxed);
        due
    })
}

/// After a slow call that found no round of upkeep due: if the countdown of this CPU's slab led to
/// it, the next one comes later. If it was a miss, slow calls come anyway, and what was put off for
/// them is brought forward: after a burst that ends within a period a program may hardly allocate.
pub fn look_later() {
    with_local(|local| {
        let Some(Local { slab, .. }) = local else {
            return;
        };
        let ended = (slab.words[0].load(Ordering::Relaxed) as i64) < 0;
        if slab.for_samples.load(Ordering::Relaxed) {
            return;
        }
        let begun = slab.begun.load(Ordering::Relaxed);
        let looks = slab.looks.load(Ordering::Relaxed);
        if ended && looks > 0 {
            slab.looks.store(looks - 1, Ordering::Relaxed);
            slab.begin_countdown(if looks > 1 { 0 } else { FIRST_BYTES });
        } else if ended {
            slab.begin_countdown(begun.saturating_mul(LATER).min(OUT_OF_REACH));
        } else if (AFTER_MISS_BYTES + 1..OUT_OF_REACH).contains(&begun) {
            slab.begin_countdown(AFTER_MISS_BYTES);
        }
    });
}

/// Gives what this CPU's slab holds of classes that were not used since the last call, or since
/// [`super::look_soon`], to the central free lists.
pub fn drain_unused() {
    with_local(|local| {
        if let Some(local) = local {
            local.sweep_but(0);
        }
    });
}

/// An object of the class: from the slab or, with a batch for the slab, from the central free list;
/// 0 if the system refuses memory.
#[cold]
#[inline(never)]
pub fn pop_slow(class: usize) -> usize {
    with_local(|local| match local {
        Some(local) => local.pop_slow(class),
        None => {
            let mut one = [0];
            central::take(class, numa::current(), &mut one);
            one[0]
        }
    })
}

/// Takes an object back: on the slab or, with a batch of the slab, to the central free list.
#[cold]
#[inline(never)]
pub fn push_slow(class: usize, object: usize) {
    with_local(|local| match local {
        Some(local) => local.push_slow(class, object),
        None => central::put(class, &[object]),
    });
}

#[cfg(all(test, not(any(miri, feature = "models"))))]
mod tests;
