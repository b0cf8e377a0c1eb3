// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulated machines. [`single`]: one out-of-order core with all of its translation hardware, on
//! which programs run. [`multi`]: a server of several cores with coherent caches, a NIC and the
//! page migration hardware of Contiguitas.

mod check;
pub mod config;
pub mod multi;
#[cfg(test)]
mod preset_tests;
pub mod single;

pub use ample_memory::{MemoryConfig, MemorySystem, PrivateMemory, SharedLast};
pub use check::ImpossibleField;
pub use config::MachineConfig;
pub use single::{
    AccessOrder, CoreConfig, FunctionalRun, StoresTranslate, TimedCore, TimedReport, intent_of,
    run_functional,
};
