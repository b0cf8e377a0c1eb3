// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory system of a multi-core server, and the page migration hardware of Contiguitas in
//! its last-level cache.
//!
//! [`protocol`] is the migration protocol without time; `check` (feature `model-check`) explores
//! it exhaustively.

#[cfg(any(test, feature = "model-check"))]
pub mod check;
pub mod experiments;
pub mod protocol;
pub mod timed;
