// SPDX-License-Identifier: MIT OR Apache-2.0
//! What concerns the slabs of all CPUs: sizes, draining, checks, fork.

use super::{
    ADMIN, COUNTDOWN, CpuSlab, FIRST_BYTES, LOOKS, OUT_OF_REACH, SHARD, SLAB_LIST, SLABS,
    SlabSizes, fence, uses_rseq, vfork,
};
use crate::central;
use crate::os::lock::{ForkLock, Lock, is_forking, model_step};
use crate::os::threads::{has_background, may_exist};
use crate::size_class::{CLASSES, MAX_BATCH};
use core::sync::atomic::{AtomicBool, Ordering};

/// Whether other threads may be inside sequences while a fork is prepared.
static UNFENCED: AtomicBool = AtomicBool::new(false);

/// All slabs, by list and by shard.
fn for_each_slab(mut visit: impl FnMut(&'static CpuSlab)) {
    let mut slab = SLAB_LIST.load(Ordering::Acquire);
    // SAFETY: slabs are never freed.
    while let Some(this) = unsafe { slab.as_ref() } {
        visit(this);
        slab = this.next.load(Ordering::Acquire);
    }
}

/// Whether any CPU's slab holds the object. A live object lies in none, so what other threads do
/// meanwhile cannot make this true for one.
fn holds(class: usize, object: usize) -> bool {
    let in_slab = |slab: &CpuSlab| {
        let header = slab.header(class);
        slab.words[usize::from(header.begin)..usize::from(header.current)]
            .iter()
            .any(|word| word.load(Ordering::Relaxed) == object as u64)
    };
    let mut found = false;
    for_each_slab(|slab| found |= in_slab(slab));
    found
        || SHARD.iter().any(|shard| {
            // SAFETY: slabs are never freed; the lock is held.
            unsafe { shard.lock().0.as_ref() }.is_some_and(in_slab)
        })
}

/// Ends the process if `object` is not the start of a live object of the class: see
/// [`central::check`].
pub fn check(class: usize, object: usize) {
    central::check(class, object, holds(class, object));
}

/// Calls `visit` with the sizes of each slab.
pub fn for_each_sizes(mut visit: impl FnMut(SlabSizes)) {
    for_each_slab(|slab| visit(slab.sizes()));
    for shard in &SHARD {
        let shard = shard.lock();
        // SAFETY: slabs are never freed.
        if let Some(slab) = unsafe { shard.0.as_ref() } {
            visit(slab.sizes());
        }
    }
}

/// Lets samples be due, the first on each slab after so many bytes, or none any more (0): then the
/// countdown is one to the next look of the upkeep. Changes nothing of samples where that is so
/// already. A thread inside a sequence at that moment may undo it for its CPU: to be called again
/// later.
pub fn count_down_from(bytes: usize) {
    let begin = match bytes {
        // The thread looks.
        0 if has_background() => OUT_OF_REACH,
        0 => FIRST_BYTES,
        bytes => bytes as u64,
    };
    COUNTDOWN.store(begin, Ordering::Relaxed);
    let set = |slab: &CpuSlab| {
        let samples = slab.for_samples.swap(bytes != 0, Ordering::Relaxed);
        if bytes == 0 || !samples {
            slab.begin_countdown(begin);
        }
    };
    for_each_slab(set);
    for shard in &SHARD {
        // SAFETY: slabs are never freed; the lock is held.
        unsafe { shard.lock().0.as_ref() }.into_iter().for_each(set);
    }
}

/// Lets the next allocations of every CPU come by the slow path, for a while, also if the program
/// hardly allocates any more; and notes what the slabs hold, for [`super::drain_unused`].
pub fn look_soon() {
    for_each_slab(|slab| {
        if slab.for_samples.load(Ordering::Relaxed) {
            return;
        }
        slab.looks.store(LOOKS, Ordering::Relaxed);
        slab.begin_countdown(0);
        for class in 1..CLASSES {
            slab.swept[class].store(slab.header(class).current, Ordering::Relaxed);
        }
    });
}

/// Whether nobody holds the lock of a shared slab.
pub fn is_free() -> bool {
    SHARD.iter().all(Lock::is_free)
}

/// Free objects of a class in all slabs.
pub fn objects_of(class: usize) -> usize {
    let held = |slab: &CpuSlab| {
        let header = slab.header(class);
        usize::from(header.current - header.begin)
    };
    let mut count = 0;
    for_each_slab(|slab| count += held(slab));
    for shard in &SHARD {
        let shard = shard.lock();
        // SAFETY: slabs are never freed.
        count += unsafe { shard.0.as_ref() }.map_or(0, held);
    }
    count
}

/// Empties a slab that nobody else can reach.
fn drain_owned(slab: &CpuSlab) {
    for class in 1..CLASSES {
        let mut objects = [0; MAX_BATCH];
        loop {
            let count = slab.pop_many_owned(class, &mut objects);
            if count == 0 {
                break;
            }
            central::put_away(class, &objects[..count]);
        }
    }
}

/// Gives the objects in the slabs back to the central free lists: those of all slabs, or only of
/// slabs that nobody has used since the last call.
pub fn drain(all: bool) {
    if is_forking() {
        // Every slab is parked.
        return;
    }
    let alone = !may_exist();
    if alone || fence::ready() {
        let _admin = ADMIN.lock();
        for_each_slab(|slab| {
            let idle = slab.was_idle();
            if (all || idle) && slab.sizes().bytes > 0 {
                let cpu = slab.cpu.load(Ordering::Relaxed);
                let entry = &SLABS[cpu as usize];
                entry.store(core::ptr::null_mut(), Ordering::Release);
                model_step();
                if alone || fence::fence_cpu(cpu) {
                    drain_owned(slab);
                }
                entry.store(slab.pointer(), Ordering::Release);
            }
        });
    }
    for shard in &SHARD {
        let shard = shard.lock();
        // SAFETY: slabs are never freed; the lock is held.
        if let Some(slab) = unsafe { shard.0.as_ref() } {
            let idle = slab.was_idle_shared();
            if all || idle {
                drain_owned(slab);
            }
        }
    }
}

/// Before fork: parks every slab, so that no other thread changes one while the kernel copies the
/// address space page by page; a sequence whose slot was copied before and whose header after would
/// leave a wrong object in the child.
pub fn fork_prepare(threads: bool) {
    vfork::fork_lock().shut();
    ADMIN.shut();
    for shard in &SHARD {
        shard.shut();
    }
    if threads && uses_rseq() {
        for_each_slab(|slab| {
            let cpu = slab.cpu.load(Ordering::Relaxed) as usize;
            SLABS[cpu].store(core::ptr::null_mut(), Ordering::Release);
            model_step();
        });
        UNFENCED.store(!(fence::ready() && fence::fence_all()), Ordering::Relaxed);
    }
}

/// In the child of a fork, before [`fork_done`]: gives up what lies in the slabs if another thread
/// may have been inside a sequence when the memory was copied.
pub fn fork_child() {
    vfork::fork_child();
    if UNFENCED.swap(false, Ordering::Relaxed) {
        for_each_slab(CpuSlab::forget_all);
    }
}

/// After fork, in parent and child.
///
/// # Safety
/// [`fork_prepare`] was called.
pub unsafe fn fork_done() {
    for_each_slab(|slab| {
        let cpu = slab.cpu.load(Ordering::Relaxed) as usize;
        SLABS[cpu].store(slab.pointer(), Ordering::Release);
    });
    // SAFETY: as the caller promises.
    unsafe {
        for shard in SHARD.iter().rev() {
            shard.open();
        }
        ADMIN.open();
        vfork::fork_lock().open();
    }
}
