// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory system with time: caches, ring, DRAM, and the protocol's messages with delays;
//! and a simple server on top of it.

mod cache;
mod core;
mod dram;
mod machine;
mod memory;
mod params;
mod private;
mod rng;
mod shadow;

pub use core::{Core, CoreParams, Op, Wait};
pub use dram::Dram;
pub use machine::{Machine, Mover, OsParams, Program, Timeline};
pub use memory::{Access, Completed, Counters, MemorySystem, PAGE_BYTES};
pub use params::{
    BadParams, CacheParams, DramParams, EngineParams, LINE_BYTES, MemoryParams, PAGE_LINES,
};
pub use rng::Rng;

#[cfg(test)]
mod tests;
