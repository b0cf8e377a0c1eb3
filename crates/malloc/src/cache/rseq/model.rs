// SPDX-License-Identifier: MIT OR Apache-2.0
//! Restartable sequences for the model checker: a sequence that was interrupted starts over, so
//! each is one step, before which the thread may move to another CPU. What an interrupted one has
//! left outside the slab stays.

use super::slab::Slabs;
use crate::cache::CpuSlab;
use crate::os::model;
use core::sync::atomic::Ordering;

/// The slab of the CPU that the calling thread is on now; `None` without one.
unsafe fn slab(slabs: &Slabs) -> Option<&CpuSlab> {
    let slab = slabs[model::cpu() as usize].load(Ordering::Acquire);
    // SAFETY: slabs are null or valid, and never freed.
    unsafe { slab.cast::<CpuSlab>().as_ref() }
}

/// Pops an object of the class from the slab of this CPU; 0 if there is none.
///
/// # Safety
/// Slabs are valid or null.
pub unsafe fn pop(_offset: isize, slabs: &Slabs, class: usize, _bytes: usize) -> usize {
    // SAFETY: as the caller promises.
    model::in_one_step(|| unsafe { slab(slabs) }.map_or(0, |slab| slab.pop_owned(class)))
}

/// Pushes an object of the class on the slab of this CPU; false if that is full.
///
/// # Safety
/// As for [`pop`].
pub unsafe fn push(_offset: isize, slabs: &Slabs, class: usize, object: usize) -> bool {
    model::in_one_step(|| {
        // SAFETY: as the caller promises.
        unsafe { slab(slabs) }.is_some_and(|slab| slab.push_owned(class, object))
    })
}

/// Pops up to `max` objects of the class into `out`, top first; how many.
///
/// # Safety
/// As for [`pop`]; `out` has room for `max` words.
pub unsafe fn pop_many(
    offset: isize,
    slabs: &Slabs,
    class: usize,
    out: *mut usize,
    max: usize,
) -> usize {
    // An attempt that ends before its last store.
    model::in_one_step(|| {
        // SAFETY: as the caller promises.
        let Some(slab) = (unsafe { slab(slabs) }) else {
            return;
        };
        let header = slab.header(class);
        let seen = (header.begin..header.current).rev().take(max);
        for (count, at) in seen.enumerate() {
            let object = slab.words[usize::from(at)].load(Ordering::Relaxed) as usize;
            // SAFETY: as the caller promises.
            unsafe { out.add(count).write(object) };
        }
    });
    model::in_one_step(|| {
        let mut count = 0;
        while count < max {
            // SAFETY: as the caller promises.
            let object = unsafe { pop(offset, slabs, class, 0) };
            if object == 0 {
                break;
            }
            // SAFETY: as the caller promises.
            unsafe { out.add(count).write(object) };
            count += 1;
        }
        count
    })
}

/// Pushes the last objects of `objects`, the last one first; how many.
///
/// # Safety
/// As for [`pop`].
pub unsafe fn push_many(offset: isize, slabs: &Slabs, class: usize, objects: &[usize]) -> usize {
    model::in_one_step(|| {
        let pushed = objects
            .iter()
            .rev()
            // SAFETY: as the caller promises.
            .take_while(|&&object| unsafe { push(offset, slabs, class, object) });
        pushed.count()
    })
}

/// Replaces the header of the class, if this CPU's slab is `expected` and the header `old`.
///
/// # Safety
/// As for [`pop`].
pub unsafe fn replace_header(
    _offset: isize,
    slabs: &Slabs,
    expected: *mut u64,
    class: usize,
    old: u64,
    new: u64,
) -> bool {
    model::in_one_step(|| {
        // SAFETY: as the caller promises.
        let slab = unsafe { slab(slabs) }.filter(|slab| slab.pointer() == expected);
        slab.is_some_and(|slab| {
            slab.words[class]
                .compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        })
    })
}

/// The CPU of the calling thread.
///
/// # Safety
/// None needed.
pub unsafe fn cpu(_offset: isize) -> i32 {
    model::move_thread();
    model::cpu()
}

/// An area, if the model has one.
pub fn glibc_area() -> Option<isize> {
    Some(1)
}
