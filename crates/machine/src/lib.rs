// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simulated machine: programs run on a core with translation hardware, caches and DRAM.

pub mod cache;
pub mod config;
pub mod core;
pub mod dram;
pub mod functional;
pub mod memory;

pub use config::MachineConfig;
pub use core::{CoreConfig, TimedCore, TimedReport};
pub use functional::{FunctionalRun, run_functional};
pub use memory::{MemoryConfig, MemorySystem, PrivateMemory};
