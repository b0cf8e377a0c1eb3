// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happens beside allocating and freeing: options, upkeep (release, collapse, idle caches)
//! and the thread that does it, statistics, the heap profile, guarded objects.

pub mod control;
pub mod dump;
pub mod guarded;
pub mod limits;
pub mod observe;
pub mod options;
mod poisson;
pub mod socket;
pub mod sparse;
pub mod stats;
pub mod threads;
mod unwind;
pub mod upkeep;
