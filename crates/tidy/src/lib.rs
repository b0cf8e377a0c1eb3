// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the tree of the repository for the tests in `tests/tree/`, which hold its rules.
//!
//! Rules with a figure (the lines of a function, say) know exceptions: `exceptions.toml` holds the
//! figure of today of whatever is over the limit, and may only shrink. `make tighten` lowers it to
//! what was found.

pub mod edges;
pub mod exceptions;
pub mod figures;
pub mod markdown;
pub mod modules;
pub mod rust;
pub mod tree;
