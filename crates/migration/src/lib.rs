// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page migration protocol of Contiguitas-HW, and its model checker.
//!
//! [`protocol`] is the protocol without time; `check` (feature `model-check`) explores it
//! exhaustively.

#[cfg(any(test, feature = "model-check"))]
pub mod check;
pub mod protocol;
