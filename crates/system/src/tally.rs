// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one CPU did and what its translation cost, by address space and by whose code it was.

use ample_trace::{Access, AccessKind};
use ample_translate::PageSize;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// Counts of accesses and walks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Data read.
    pub loads: u64,
    /// Data written.
    pub stores: u64,
    /// Fetches of another 64-byte line.
    pub fetches: u64,
    /// Instructions executed.
    pub instructions: u64,
    /// Data accesses that missed the first-level TLB.
    pub l1d_misses: u64,
    /// Fetches that missed the first-level TLB.
    pub l1i_misses: u64,
    /// Page walks for data.
    pub walks_data: u64,
    /// Page walks for fetches.
    pub walks_fetch: u64,
    /// References of all walks to page tables.
    pub walk_references: u64,
    /// Walks by the size of the page they found: 4 KB, 2 MB, 1 GB.
    pub walks_by_size: [u64; 3],
    /// Instructions whose time was measured; 0 without a timed core.
    pub timed_instructions: u64,
    /// Their time, in the core's units (a cycle ÷ its width).
    pub time_units: u64,
    /// The part of it with a walk under way.
    pub walk_units: u64,
}

impl Counts {
    /// Loads, stores and fetches.
    pub fn accesses(&self) -> u64 {
        self.loads + self.stores + self.fetches
    }

    /// Walks for data and fetches.
    pub fn walks(&self) -> u64 {
        self.walks_data + self.walks_fetch
    }

    /// Counts an access.
    #[inline(always)]
    pub(crate) fn access(&mut self, access: &Access) {
        let kind = match access.kind {
            AccessKind::Load => &mut self.loads,
            AccessKind::Store => &mut self.stores,
            AccessKind::Fetch => &mut self.fetches,
        };
        *kind += 1;
        self.instructions += access.instructions();
    }

    /// Counts a first-level miss and, if it walked, its walk.
    pub(crate) fn miss(&mut self, fetch: bool, walk: Option<(PageSize, u64)>) {
        let [misses, walks] = match fetch {
            true => [&mut self.l1i_misses, &mut self.walks_fetch],
            false => [&mut self.l1d_misses, &mut self.walks_data],
        };
        *misses += 1;
        if let Some((size, references)) = walk {
            *walks += 1;
            self.walks_by_size[size as usize] += 1;
            self.walk_references += references;
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.loads += other.loads;
        self.stores += other.stores;
        self.fetches += other.fetches;
        self.instructions += other.instructions;
        self.l1d_misses += other.l1d_misses;
        self.l1i_misses += other.l1i_misses;
        self.walks_data += other.walks_data;
        self.walks_fetch += other.walks_fetch;
        self.walk_references += other.walk_references;
        self.timed_instructions += other.timed_instructions;
        self.time_units += other.time_units;
        self.walk_units += other.walk_units;
        for (mine, others) in self.walks_by_size.iter_mut().zip(other.walks_by_size) {
            *mine += others;
        }
    }
}

/// Counts of one address space: of its program, and of the kernel's code that ran in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SpaceCounts {
    /// User mode.
    pub user: Counts,
    /// Kernel mode: system calls, faults, and interrupts that fell into it.
    pub kernel: Counts,
}

impl SpaceCounts {
    /// Walks of both modes.
    pub fn walks(&self) -> u64 {
        self.user.walks() + self.kernel.walks()
    }

    /// Accesses of both modes.
    pub fn accesses(&self) -> u64 {
        self.user.accesses() + self.kernel.accesses()
    }

    /// Instructions of both modes.
    pub fn instructions(&self) -> u64 {
        self.user.instructions + self.kernel.instructions
    }
}

impl AddAssign for SpaceCounts {
    fn add_assign(&mut self, other: Self) {
        self.user += other.user;
        self.kernel += other.kernel;
    }
}

/// What changes translation, and what interrupts a CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EventCounts {
    /// Loads of a root of page tables.
    pub cr3_writes: u64,
    /// Pages dropped one by one.
    pub invlpg: u64,
    /// Flushes of everything (CR0, CR4).
    pub flushes: u64,
    /// Returns from interrupts and exceptions.
    pub returns: u64,
    /// Interrupts and exceptions by vector.
    pub interrupts: BTreeMap<u8, u64>,
    /// Mappings told by the recorder.
    pub mappings: u64,
    /// Mappings whose page had moved or changed its size since it was last told.
    pub moved: u64,
}

impl AddAssign<&EventCounts> for EventCounts {
    fn add_assign(&mut self, other: &EventCounts) {
        self.cr3_writes += other.cr3_writes;
        self.invlpg += other.invlpg;
        self.flushes += other.flushes;
        self.returns += other.returns;
        self.mappings += other.mappings;
        self.moved += other.moved;
        for (&vector, &count) in &other.interrupts {
            *self.interrupts.entry(vector).or_default() += count;
        }
    }
}
