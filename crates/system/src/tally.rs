// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one CPU did and what its translation cost, by address space and by whose code it was.

use ample_trace::AccessKind;
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
    pub(crate) fn access(&mut self, kind: AccessKind) {
        let kind = match kind {
            AccessKind::Load => &mut self.loads,
            AccessKind::Store => &mut self.stores,
            AccessKind::Fetch => &mut self.fetches,
        };
        *kind += 1;
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

/// Where in the upper half of addresses Linux on x86-64 keeps what, with four levels of page tables
/// and no randomization (Documentation/arch/x86/x86_64/mm.rst, 6.12): the first address of each
/// area.
const KERNEL_AREAS: [(u64, &str); 6] = [
    (0xffff_8880_0000_0000, "direct map"),
    (0xffff_c900_0000_0000, "vmalloc and stacks"),
    (0xffff_ea00_0000_0000, "struct page"),
    (0xffff_fe00_0000_0000, "entry area"),
    (0xffff_ffff_8000_0000, "kernel image"),
    (0xffff_ffff_a000_0000, "modules and fixed maps"),
];

/// Number of areas that are told apart.
const AREAS: usize = KERNEL_AREAS.len();

/// TLB misses of one area of the kernel's addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AreaCounts {
    /// Accesses that missed the first-level TLB, fetches included.
    pub l1_misses: u64,
    /// Page walks.
    pub walks: u64,
    /// Time with a walk under way, in the core's units; 0 without a timed core.
    pub walk_units: u64,
}

/// The same for all areas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelAreas([AreaCounts; AREAS]);

impl KernelAreas {
    /// Counts a miss of the first level at `va`, if that is the kernel's.
    pub(crate) fn miss(&mut self, va: u64, walked: bool, walk_units: u64) {
        let below = KERNEL_AREAS.iter().take_while(|(first, _)| *first <= va);
        let Some(area) = below.count().checked_sub(1) else {
            return;
        };
        let counts = &mut self.0[area];
        counts.l1_misses += 1;
        counts.walks += u64::from(walked);
        counts.walk_units += walk_units;
    }

    /// Each area's name and counts.
    pub fn by_name(&self) -> impl Iterator<Item = (&'static str, AreaCounts)> {
        let names = KERNEL_AREAS.iter().map(|(_, name)| *name);
        names.zip(self.0)
    }
}

impl AddAssign for KernelAreas {
    fn add_assign(&mut self, other: Self) {
        for (mine, others) in self.0.iter_mut().zip(other.0) {
            mine.l1_misses += others.l1_misses;
            mine.walks += others.walks;
            mine.walk_units += others.walk_units;
        }
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
    /// Turns that the emulator gave the CPU, of those in which it did something.
    pub turns: u64,
}

impl AddAssign<&EventCounts> for EventCounts {
    fn add_assign(&mut self, other: &EventCounts) {
        self.cr3_writes += other.cr3_writes;
        self.invlpg += other.invlpg;
        self.flushes += other.flushes;
        self.returns += other.returns;
        self.mappings += other.mappings;
        self.moved += other.moved;
        self.turns += other.turns;
        for (&vector, &count) in &other.interrupts {
            *self.interrupts.entry(vector).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_belong_to_the_area_of_their_address() {
        let mut areas = KernelAreas::default();
        let addresses = [
            0x7fff_ffff_f000,
            0xffff_8880_0000_0000,
            0xffff_c87f_ffff_ffff,
            0xffff_c900_0000_0000,
            0xffff_ea00_1234_0000,
            0xffff_ffff_8100_0000,
            0xffff_ffff_ff5f_d000,
        ];
        for (at, va) in addresses.into_iter().enumerate() {
            areas.miss(va, at % 2 == 1, at as u64);
        }
        let found: Vec<[u64; 3]> = areas
            .by_name()
            .map(|(_, counts)| [counts.l1_misses, counts.walks, counts.walk_units])
            .collect();
        let expected = [
            [2, 1, 3],
            [1, 1, 3],
            [1, 0, 4],
            [0; 3],
            [1, 1, 5],
            [1, 0, 6],
        ];
        assert_eq!(found, expected);
        areas += areas;
        assert_eq!(areas.by_name().next().unwrap().1.l1_misses, 4);
    }
}
