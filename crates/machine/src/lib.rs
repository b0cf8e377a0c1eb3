// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simulated machine: programs run on a core with translation hardware, caches and DRAM.

pub mod functional;

pub use functional::{FunctionalRun, run_functional};
