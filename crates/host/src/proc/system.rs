// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything about a machine that is not per page.

use super::iomem::memory;
use super::zoneinfo::layout_of;
use super::{ZoneCounters, buddyinfo, key_values, zoneinfo};
use crate::{HostError, Root};
use ample_pfn::{BASE_PAGE_BYTES, Layout, PfnRange};
use std::collections::BTreeMap;

/// Counters of `/proc/vmstat` that say how hard the kernel works for contiguity.
const VMSTAT_KEYS: [&str; 12] = [
    "compact_stall",
    "compact_fail",
    "compact_success",
    "compact_migrate_scanned",
    "compact_free_scanned",
    "htlb_buddy_alloc_fail",
    "pgmigrate_success",
    "pgmigrate_fail",
    "thp_fault_alloc",
    "thp_fault_fallback",
    "thp_collapse_alloc",
    "thp_collapse_alloc_failed",
];

/// Where memory lies and what the kernel counts.
#[derive(Clone, Debug)]
pub struct System {
    /// Nodes and zones.
    pub layout: Layout,
    /// Frames that are memory, ascending.
    pub ram: Vec<PfnRange>,
    /// Counters of the zones with memory.
    pub zones: Vec<ZoneCounters>,
    /// `/proc/meminfo` and a part of `/proc/vmstat`, by the kernel's own names.
    pub counters: BTreeMap<String, u64>,
    /// Kernel release.
    pub kernel: String,
    /// Host name, if it is known.
    pub hostname: Option<String>,
    /// Seconds since boot, if known.
    pub uptime_seconds: Option<u64>,
}

impl System {
    /// Reads the text files of a machine.
    ///
    /// # Errors
    /// [`HostError`] with the file that is missing, unreadable or malformed, or of a kernel whose
    /// pages are not of 4 KB. Optional files (vmstat, uptime, host name) may be missing.
    pub fn read(root: &Root) -> Result<System, HostError> {
        let zones = zones(root)?;
        let present = zones.iter().map(|zone| zone.present_pages).sum();
        let ram = memory(root, present)?;
        let mut counters = key_values(&root.read("proc/meminfo")?);
        require_small_pages(&counters, &zones, root)?;
        let vmstat = root
            .read("proc/vmstat")
            .map(|text| key_values(&text))
            .unwrap_or_default();
        counters.extend(
            VMSTAT_KEYS
                .iter()
                .filter_map(|&key| vmstat.get_key_value(key))
                .map(|(key, &value)| (key.clone(), value)),
        );
        let line = |file| {
            let text = root.read(file).ok()?;
            text.lines().next().map(|line| line.trim().to_string())
        };
        Ok(System {
            layout: layout_of(&zones, &root.path("proc/zoneinfo"))?,
            ram,
            zones,
            counters,
            kernel: line("proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into()),
            hostname: line("proc/sys/kernel/hostname"),
            uptime_seconds: line("proc/uptime")
                .and_then(|text| text.split('.').next()?.parse().ok()),
        })
    }

    /// Frames free in per-CPU lists, in pages.
    pub fn pcp_pages(&self) -> u64 {
        self.zones.iter().map(|zone| zone.pcp_pages).sum()
    }

    /// Free memory that the kernel counts but holds in no buddy list, in pages: memory whose
    /// `struct page` it has not initialised yet. Near 0 on a machine that has booted.
    pub fn unlisted_free_pages(&self) -> u64 {
        let free = self.counters.get("MemFree_bytes").copied().unwrap_or(0) / 4096;
        let listed: u64 = self.zones.iter().map(|zone| zone.free_pages).sum();
        free.saturating_sub(listed)
    }
}

/// Refuses kernels with pages of 16 or 64 KB (arm64 has them): every size would be wrong by that
/// factor. The same memory stands in bytes in `/proc/meminfo` and in pages in `/proc/zoneinfo`, so
/// that a saved tree of another machine is seen too. Present pages and not managed ones: a kernel
/// that initialises `struct page` late has most of its memory in `MemTotal`, but not yet managed.
fn require_small_pages(
    counters: &BTreeMap<String, u64>,
    zones: &[ZoneCounters],
    root: &Root,
) -> Result<(), HostError> {
    let pages: u64 = zones.iter().map(|zone| zone.present_pages).sum();
    let bytes = counters.get("MemTotal_bytes").copied().unwrap_or(0);
    let page_bytes = bytes.checked_div(pages).unwrap_or(BASE_PAGE_BYTES);
    if page_bytes < 3 * BASE_PAGE_BYTES {
        return Ok(());
    }
    let kib = (page_bytes + page_bytes / 2).next_power_of_two() / 2048;
    let what = format!("pages are of {kib} KiB; ample reads kernels with pages of 4 KiB only");
    Err(HostError::parse(&root.path("proc/zoneinfo"), 0, what))
}

/// Zones with their free lists: readable by everybody.
///
/// # Errors
/// [`HostError`] with the file that is missing or malformed.
pub fn zones(root: &Root) -> Result<Vec<ZoneCounters>, HostError> {
    let path = root.path("proc/zoneinfo");
    let mut zones = zoneinfo(&root.read("proc/zoneinfo")?, &path)?;
    let rows = buddyinfo(&root.read("proc/buddyinfo")?, &root.path("proc/buddyinfo"))?;
    for zone in &mut zones {
        let row = rows
            .iter()
            .find(|row| row.node == zone.node && row.zone == zone.name);
        zone.free_blocks = row.map(|row| row.blocks.clone()).unwrap_or_default();
    }
    Ok(zones)
}

/// Processor time of this process so far, user and system, in nanoseconds.
pub fn processor_time_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}
