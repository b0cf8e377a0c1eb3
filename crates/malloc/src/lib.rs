// SPDX-License-Identifier: MIT OR Apache-2.0
//! A malloc that fills hugepages: the page heap of Temeraire (OSDI 2021) under per-CPU caches.
//!
//! As a shared library it is preloaded under any program; as a crate it is a [`GlobalAlloc`]
//! (`Ample`); its C header is `include/ample_malloc.h`.
//!
//! From the top down:
//!
//! * `interface` and `cxx`: the C and C++ entry points (feature `preload`).
//! * [`front`]: size classes ([`size_class`]), large objects, realloc.
//! * [`cache`] over [`rseq`]: one slab of free objects per CPU, without locks or atomics.
//! * [`central`]: transfer caches and central free lists, spans by how full they are ([`span`]).
//! * [`pageheap`]: the process's page heap, and [`pagemap`], which finds the span of an address.
//! * [`heap`]: the page heap proper, over real or pretended virtual memory ([`vm`]).
//! * [`numa`]: the last three once for each node, where the options ask for it.
//! * [`upkeep`]: what happens now and then: release, collapse, idle caches.
//! * [`stats`], [`dump`], [`options`], [`trace`]: sight.
//!
//! Nothing here allocates through itself: metadata comes from its own mappings ([`meta`]), all
//! statics are constant-initialised, and the first call may come before libc's constructors.
//!
//! [`GlobalAlloc`]: core::alloc::GlobalAlloc

pub mod bits;
pub mod cache;
pub mod central;
#[cfg(all(feature = "preload", not(any(test, miri, feature = "models"))))]
pub mod cxx;
pub mod dump;
pub mod fork;
pub mod front;
pub mod global;
pub mod guarded;
pub mod heap;
#[cfg(all(feature = "preload", not(any(test, miri, feature = "models"))))]
pub mod interface;
pub mod lock;
pub mod meta;
#[cfg(feature = "models")]
pub mod models;
pub mod numa;
pub mod observe;
pub mod options;
pub mod pageheap;
pub mod pagemap;
pub mod report;
pub mod rseq;
pub mod size_class;
pub mod span;
pub mod start;
pub mod stats;
pub mod sys;
pub mod threads;
pub mod tools;
pub mod trace;
pub mod units;
pub mod upkeep;
pub mod vm;

pub use global::{Ample, install};
