// SPDX-License-Identifier: MIT OR Apache-2.0
//! Restartable sequences for the model checker: a sequence that was interrupted starts over, so
//! each is one step, before which the thread may move to another CPU.

use super::slab::{Header, Push, Slabs};
use crate::cache::{HEADERS, SLOTS};
use crate::os::model;
use core::sync::atomic::{AtomicU64, Ordering};

/// The slab of the CPU that the calling thread is on now; `None` without one.
unsafe fn slab<'a>(slabs: &Slabs) -> Option<(*mut u64, &'a [AtomicU64])> {
    model::move_thread();
    let slab = slabs[model::cpu() as usize].load(Ordering::Acquire);
    if slab.is_null() {
        return None;
    }
    // SAFETY: slabs are arrays of at least this many atomic words and are never freed.
    let words = unsafe { core::slice::from_raw_parts(slab.cast(), HEADERS + SLOTS) };
    Some((slab, words))
}

/// Pops an object of the class from the slab of this CPU; 0 if there is none.
///
/// # Safety
/// Slabs are valid or null.
pub unsafe fn pop(_offset: isize, slabs: &Slabs, class: usize) -> usize {
    // SAFETY: as the caller promises.
    let Some((_, words)) = (unsafe { slab(slabs) }) else {
        return 0;
    };
    let mut header = Header::unpack(words[class].load(Ordering::Relaxed));
    if header.current == header.begin {
        return 0;
    }
    header.current -= 1;
    words[class].store(header.pack(), Ordering::Relaxed);
    words[usize::from(header.current)].load(Ordering::Relaxed) as usize
}

/// Pushes an object of the class on the slab of this CPU.
///
/// # Safety
/// As for [`pop`].
pub unsafe fn push(_offset: isize, slabs: &Slabs, class: usize, object: usize) -> Push {
    // SAFETY: as the caller promises.
    let Some((_, words)) = (unsafe { slab(slabs) }) else {
        return Push::Full;
    };
    let mut header = Header::unpack(words[class].load(Ordering::Relaxed));
    if header.current == header.end {
        return Push::Full;
    }
    let current = usize::from(header.current);
    if words[current - 1].load(Ordering::Relaxed) == object as u64 {
        return Push::Suspect;
    }
    words[current].store(object as u64, Ordering::Relaxed);
    header.current += 1;
    words[class].store(header.pack(), Ordering::Relaxed);
    Push::Done
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
    model::in_one_step(|| {
        let mut count = 0;
        while count < max {
            // SAFETY: as the caller promises.
            let object = unsafe { pop(offset, slabs, class) };
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
            .take_while(|&&object| unsafe { push(offset, slabs, class, object) } == Push::Done);
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
    // SAFETY: as the caller promises.
    match unsafe { slab(slabs) } {
        Some((slab, words)) if slab == expected => words[class]
            .compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok(),
        _ => false,
    }
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
