// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory system of a multi-core server, with the page migration hardware of Contiguitas in
//! its last-level cache.

pub mod timed;

pub use ample_migration::protocol;
