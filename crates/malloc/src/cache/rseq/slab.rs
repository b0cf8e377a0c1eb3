// SPDX-License-Identifier: MIT OR Apache-2.0
//! What restartable sequences work on.
//!
//! A slab is an array of 64-bit words. Word `class` is the header of that class, four 16-bit
//! numbers: current end of the stack, a number that only the slow path uses, the limit of the stack
//! and its begin, as word indices into the slab. (What the fast path reads beside the current end
//! lies in the other half: on the Xeon of malloc-speed-intel a load of the two bytes behind a store
//! that has just been made waits for it, which took a fifth of a pair of malloc and free.) Word 0,
//! of no class, is the countdown to the next sample or look, in bytes. Word `TOPS + class` is a
//! guess at the top of the stack, right unless the slow path or an abort left an older one.

use crate::os::numa::MAX_CPUS;
use core::sync::atomic::AtomicPtr;

/// The header of one class in a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Index one above the top of the stack.
    pub current: u16,
    /// Batches that the class missed on requests: by so many its limit may rise when it is full.
    pub credit: u16,
    /// Index one above the highest slot that may be used at present.
    pub end: u16,
    /// Index of the lowest slot.
    pub begin: u16,
}

impl Header {
    /// The header as stored.
    pub const fn pack(self) -> u64 {
        self.current as u64
            | (self.credit as u64) << 16
            | (self.end as u64) << 32
            | (self.begin as u64) << 48
    }

    /// The header from what is stored.
    pub const fn unpack(word: u64) -> Self {
        Header {
            current: word as u16,
            credit: (word >> 16) as u16,
            end: (word >> 32) as u16,
            begin: (word >> 48) as u16,
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
