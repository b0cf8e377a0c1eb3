// SPDX-License-Identifier: MIT OR Apache-2.0
//! Walkers and what they remember: the way down a page table, native and two-dimensional walks,
//! page-walk caches, and the port through which every reference goes.

pub mod cache;
pub mod descent;
pub mod native;
pub mod nested;
pub mod port;
pub(crate) mod ways;
