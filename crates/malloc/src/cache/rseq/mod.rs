// SPDX-License-Identifier: MIT OR Apache-2.0
//! Restartable sequences in the area that glibc registers for every thread.
//!
//! A sequence reads the number of the CPU it runs on, works on that CPU's slab and ends in one
//! store. If the kernel interrupts it before that store - preemption, migration, a signal - it
//! continues at the abort handler, which starts over. So no lock and no atomic instruction is
//! needed. This file writes one field of the area, `rseq_cs`, which the ABI gives to the user code
//! that runs; the registration stays glibc's. (Linux `include/uapi/linux/rseq.h`, glibc 2.35 NEWS.)

mod slab;

#[cfg(feature = "models")]
mod model;
#[cfg(feature = "models")]
use model as sequences;

#[cfg(all(
    target_arch = "x86_64",
    target_os = "linux",
    not(any(miri, feature = "models"))
))]
mod x86_64;
#[cfg(all(
    target_arch = "x86_64",
    target_os = "linux",
    not(any(miri, feature = "models"))
))]
use x86_64 as sequences;

#[cfg(all(
    target_arch = "aarch64",
    target_os = "linux",
    not(any(miri, feature = "models"))
))]
mod aarch64;
#[cfg(all(
    target_arch = "aarch64",
    target_os = "linux",
    not(any(miri, feature = "models"))
))]
use aarch64 as sequences;

#[cfg(not(any(
    all(
        any(target_arch = "x86_64", target_arch = "aarch64"),
        target_os = "linux",
        not(miri)
    ),
    feature = "models"
)))]
mod none;
#[cfg(not(any(
    all(
        any(target_arch = "x86_64", target_arch = "aarch64"),
        target_os = "linux",
        not(miri)
    ),
    feature = "models"
)))]
use none as sequences;

pub use sequences::{cpu, glibc_area, pop, pop_many, push, push_many, replace_header};
pub use slab::{Header, Slabs, TOPS};
