// SPDX-License-Identifier: MIT OR Apache-2.0
//! TLB arrays: sets of entries with their replacement, and the pages they hold.

pub mod array;
#[cfg(test)]
mod arrival_tests;
pub(crate) mod arrivals;
pub(crate) mod ask;
pub mod associative;
#[cfg(test)]
mod associative_tests;
pub mod geometry;
pub mod key;
mod large_set;
mod leaving;
mod small_set;
