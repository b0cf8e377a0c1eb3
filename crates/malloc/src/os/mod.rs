// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lowest layer: system calls, locks, the memory of the allocator's own tables, text on a
//! file descriptor, processors and their nodes. Knows nothing of heaps.

pub mod batch;
pub mod glibc;
pub mod lock;
pub mod meta;
#[cfg(feature = "models")]
pub mod model;
pub mod numa;
pub mod pagemap;
pub mod panics;
pub mod percpu;
pub mod report;
pub mod sys;
pub mod threads;
pub mod vm;
