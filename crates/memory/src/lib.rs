// SPDX-License-Identifier: MIT OR Apache-2.0
//! Caches and memory with time: one set-associative array, one DRAM, one path for evicted lines.
//!
//! [`Cache`] holds tags, dirty bits, the order of use, and a value a line. [`Dram`] has banks with
//! open rows and a data bus a channel and serves in order; [`ReorderingDram`] has a controller
//! that does not. [`LastLevel`] is a cache above memory, from which dirty
//! lines reach it. [`PrivateMemory`] is the hierarchy of a single core and implements
//! [`MemorySystem`], with a last level of its own or one that it shares ([`SharedLast`]); the
//! coherent hierarchy of several cores is in the machine crate and is made of the same arrays.

mod cache;
#[cfg(test)]
mod cache_tests;
mod dram;
mod hierarchy;
mod last;
mod limits;
#[cfg(test)]
mod limits_tests;
#[cfg(test)]
mod next_line_tests;
mod reorder;
mod replacement;
mod shared;

pub use cache::{Cache, CacheConfig, LINE_BYTES, MOST_WAYS, Victim};
pub use dram::{Dram, DramConfig};
pub use hierarchy::{HitCounts, MemoryConfig, PrivateMemory};
pub use last::{LastLevel, MainMemory};
pub use limits::LimitsConfig;
pub use reorder::{Arrival, ReorderConfig, ReorderingDram};
pub use replacement::CachePolicy;
pub use shared::{LastCounts, LastPort, SharedLast};

/// Why a machine cannot be built.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct BadParams {
    /// Name of the parameter.
    pub field: &'static str,
    /// What is wrong and what is accepted.
    pub reason: String,
}

impl BadParams {
    /// An error that names a parameter.
    pub fn new(field: &'static str, reason: impl Into<String>) -> Self {
        Self {
            field,
            reason: reason.into(),
        }
    }
}

/// Where a request found its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// First level.
    L1,
    /// Second level.
    L2,
    /// Last level.
    Llc,
    /// Main memory, below all caches.
    Dram,
}

/// Addresses that are read ahead at once.
pub const READ_AHEAD: usize = 64;

/// What a core asks of memory. Times are in core units; addresses are physical. Each request
/// returns when its data are there, and where they were.
pub trait MemorySystem {
    /// A load or a store's read for ownership.
    fn data(&mut self, pa: u64, write: bool, now: u64) -> (u64, Level);
    /// An instruction fetch.
    fn fetch(&mut self, pa: u64, now: u64) -> (u64, Level);
    /// A reference of the page walker.
    fn walk(&mut self, pa: u64, now: u64) -> (u64, Level);
    /// Reads what the model will need for accesses to come at these physical addresses and changes
    /// nothing, so that its host waits for several at once; returns something of it. At most
    /// [`READ_AHEAD`] addresses.
    fn read_ahead(&self, addresses: &[u64]) -> u64 {
        let _ = addresses;
        0
    }
}
