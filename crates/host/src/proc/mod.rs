// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text files of `/proc`: where memory lies and what the kernel counts.

mod iomem;
mod system;
mod tables;
mod zoneinfo;

#[cfg(feature = "bpf")]
pub(crate) use iomem::firmware_ram;
pub use iomem::system_ram;
pub use system::{System, processor_time_ns, zones};
pub use tables::{FreeBlocks, buddyinfo, key_values};
pub use zoneinfo::{ZoneCounters, zoneinfo};
