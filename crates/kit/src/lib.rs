// SPDX-License-Identifier: MIT OR Apache-2.0
//! What several crates need and no crate of its own subject holds: random numbers, division by a
//! known number, files read within a bound and written whole, names that people mistype, the order
//! of the ways of a set, statistics, text that is safe on a terminal.

pub mod divisor;
pub mod files;
pub mod names;
pub mod places;
pub mod random;
pub mod recency;
pub mod statistics;
pub mod terminal;
