// SPDX-License-Identifier: MIT OR Apache-2.0
//! For machines without an implementation: every stack is empty and full.

use super::slab::Slabs;

/// Without an implementation for this machine nothing is ever popped.
///
/// # Safety
/// None needed.
#[inline(always)]
pub unsafe fn pop(_offset: isize, _slabs: &Slabs, _class: usize, _bytes: usize) -> usize {
    0
}

/// Without an implementation for this machine every stack is full.
///
/// # Safety
/// None needed.
#[inline(always)]
pub unsafe fn push(_offset: isize, _slabs: &Slabs, _class: usize, _object: usize) -> bool {
    false
}

/// Without an implementation for this machine nothing is ever popped.
///
/// # Safety
/// None needed.
pub unsafe fn pop_many(
    _offset: isize,
    _slabs: &Slabs,
    _class: usize,
    _out: *mut usize,
    _max: usize,
) -> usize {
    0
}

/// Without an implementation for this machine every stack is full.
///
/// # Safety
/// None needed.
pub unsafe fn push_many(
    _offset: isize,
    _slabs: &Slabs,
    _class: usize,
    _objects: &[usize],
) -> usize {
    0
}

/// Never succeeds.
///
/// # Safety
/// None needed.
pub unsafe fn replace_header(
    _offset: isize,
    _slabs: &Slabs,
    _expected: *mut u64,
    _class: usize,
    _old: u64,
    _new: u64,
) -> bool {
    false
}

/// No CPU.
///
/// # Safety
/// None needed.
pub unsafe fn cpu(_offset: isize) -> i32 {
    -1
}

/// No area.
pub fn glibc_area() -> Option<isize> {
    None
}
