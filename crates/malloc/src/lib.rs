// SPDX-License-Identifier: MIT OR Apache-2.0
//! A malloc that fills hugepages: the page heap of Temeraire (OSDI 2021) under per-CPU caches.
//!
//! As a shared library it is preloaded under any program; as a crate it is a [`GlobalAlloc`]
//! (`Ample`); its C header is `include/ample_malloc.h`.
//!
//! The layers, from the top down. A layer calls its own modules and those of layers below it,
//! never those above (`tests/layers.rs` checks it); what a lower layer needs from a higher one it
//! gets as an argument.
//!
//! 1. [`entry`]: the C and C++ entry points (feature `preload`) and the Rust allocator.
//! 2. [`front`]: small and large objects, realloc; the start of the allocator, fork.
//! 3. [`watch`]: what happens now and then (release, collapse, idle caches), options, statistics,
//!    the heap profile, guarded objects.
//! 4. [`cache`]: one slab of free objects per CPU, without locks or atomics, by restartable
//!    sequences.
//! 5. [`central`]: transfer caches and central free lists, spans by how full they are.
//! 6. [`heap`]: spans and the page heap, over real or pretended virtual memory; the map from an
//!    address to its span; one page heap for each NUMA node where the options ask for it.
//! 7. [`os`]: system calls, locks, memory for metadata.
//!
//! [`units`], [`size_class`] and `near` are what all layers share.
//!
//! Nothing here allocates through itself: metadata comes from its own mappings ([`os::meta`]), all
//! statics are constant-initialised, and the first call may come before libc's constructors.
//!
//! [`GlobalAlloc`]: core::alloc::GlobalAlloc

pub mod cache;
pub mod central;
pub mod entry;
pub mod front;
pub mod heap;
#[cfg(all(test, feature = "models"))]
mod models;
mod near;
pub mod os;
pub mod size_class;
pub mod units;
pub mod watch;

pub use entry::global::{Ample, install};
