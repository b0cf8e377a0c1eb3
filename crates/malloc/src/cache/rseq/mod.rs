// SPDX-License-Identifier: MIT OR Apache-2.0
//! Restartable sequences in the area that glibc registers for every thread.
//!
//! A sequence reads the number of the CPU it runs on, works on that CPU's slab and ends in one
//! store. If the kernel interrupts it before that store - preemption, migration, a signal - it
//! continues at the abort handler, which starts over. So no lock and no atomic instruction is
//! needed. This file writes one field of the area, `rseq_cs`, which the ABI gives to the user code
//! that runs; the registration stays glibc's. (Linux `include/uapi/linux/rseq.h`, glibc 2.35 NEWS.)
//!
//! A slab is an array of 64-bit words. Word `class` is the header of that class, four 16-bit
//! numbers: current end of the stack, its begin and its limit, as word indices into the slab, and a
//! number that only the slow path uses. Word `TOPS + class` is a guess at the top of the stack,
//! which is right unless the slow path or an abort left an older one.

use crate::os::numa::MAX_CPUS;
use core::sync::atomic::AtomicPtr;

/// The header of one class in a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Index one above the top of the stack.
    pub current: u16,
    /// Index of the lowest slot.
    pub begin: u16,
    /// Index one above the highest slot that may be used at present.
    pub end: u16,
    /// Batches that the class missed on requests: by so many its limit may rise when it is full.
    pub credit: u16,
}

impl Header {
    /// The header as stored.
    pub const fn pack(self) -> u64 {
        self.current as u64
            | (self.begin as u64) << 16
            | (self.end as u64) << 32
            | (self.credit as u64) << 48
    }

    /// The header from what is stored.
    pub const fn unpack(word: u64) -> Self {
        Header {
            current: word as u16,
            begin: (word >> 16) as u16,
            end: (word >> 32) as u16,
            credit: (word >> 48) as u16,
        }
    }
}

/// The word of class 0 among the tops; more than there are classes.
pub const TOPS: usize = 128;
/// A slab of one CPU.
pub type Slab = u64;
/// Slabs by CPU number; null for a CPU without one. The CPU field of an area that is not registered
/// is -1 or -2, whose low 16 bits select the last entries, which stay null.
pub type Slabs = [AtomicPtr<Slab>; MAX_CPUS];

/// What became of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// The object is on the stack.
    Done,
    /// The stack is at its limit.
    Full,
    /// The word below is the same object: a double free, or chance.
    Suspect,
}

#[cfg(all(
    target_arch = "x86_64",
    target_os = "linux",
    not(any(miri, feature = "models"))
))]
mod x86_64;

#[cfg(feature = "models")]
mod model;

#[cfg(not(any(
    all(target_arch = "x86_64", target_os = "linux", not(miri)),
    feature = "models"
)))]
mod asm {
    use super::{Push, Slabs};

    /// Without an implementation for this machine nothing is ever popped.
    ///
    /// # Safety
    /// None needed.
    #[inline(always)]
    pub unsafe fn pop(_offset: isize, _slabs: &Slabs, _class: usize) -> usize {
        0
    }

    /// Without an implementation for this machine every stack is full.
    ///
    /// # Safety
    /// None needed.
    #[inline(always)]
    pub unsafe fn push(_offset: isize, _slabs: &Slabs, _class: usize, _object: usize) -> Push {
        Push::Full
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
}

#[cfg(feature = "models")]
use model as asm;
#[cfg(all(
    target_arch = "x86_64",
    target_os = "linux",
    not(any(miri, feature = "models"))
))]
use x86_64 as asm;

pub use asm::{cpu, glibc_area, pop, pop_many, push, push_many, replace_header};
