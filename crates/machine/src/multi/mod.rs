// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory system with time: caches, ring, DRAM, and the protocol's messages with delays;
//! and a simple server on top of it.

mod below;
mod core;
mod deliver;
mod entries;
mod follow;
mod invalidation;
mod iommu;
mod lines;
mod llc;
mod machine;
mod memory;
mod nic;
mod os;
mod os_params;
mod params;
mod parts;
mod private;
mod ring;
mod rings;
mod shadow;
mod software;
mod view;
mod walks;
mod watch;
mod way;
mod workload;

pub use self::core::{Core, CoreAccess, CoreParams, Wait};
pub use ample_memory::{BadParams, CacheConfig, Dram, DramConfig};
pub use follow::LineDelays;
pub use machine::MultiCore;
pub use memory::{AccessStatus, CoherentMemory, MemoryCounters, PAGE_BYTES};
pub use os_params::{Mover, OsParams};
pub use params::{EngineParams, LINE_BYTES, MemoryParams, PAGE_LINES};
pub use parts::{CoreProgram, PagePlacement, Timeline};
pub use private::Completed;
pub use view::{LineView, PageView, Place};
pub use watch::SeenAccess;
pub use way::Way;
pub use workload::{Requests, Server, Service};

#[cfg(test)]
mod drawn_tests;
#[cfg(test)]
mod mover_tests;
#[cfg(test)]
mod tests;
