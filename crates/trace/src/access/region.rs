// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated process's address space as its programs see it: named regions.

use serde::{Deserialize, Serialize};

/// What stands behind a region; decides whether it may lie in a primary region
/// (Direct Segments, section 3.2.1) and how it is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backing {
    /// Anonymous memory, read-write: heap and large `mmap`s.
    Anonymous,
    /// Static data (`.data`, `.bss`) of the program.
    Static,
    /// A thread's stack.
    Stack,
    /// Executable code, read-only.
    Code,
    /// A file mapping.
    File,
    /// The kernel's direct map of physical memory.
    DirectMap,
    /// Kernel memory at variable addresses (vmalloc, modules).
    Vmalloc,
}

/// One contiguous range of virtual addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// What the program calls it.
    pub name: String,
    /// First byte.
    pub base: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// What stands behind it.
    pub backing: Backing,
}

impl Region {
    /// First address after the region.
    pub fn end(&self) -> u64 {
        self.base + self.bytes
    }
}

/// Hands out regions from the bottom of the heap upwards and keeps their list.
#[derive(Clone, Debug)]
pub struct RegionLayout {
    regions: Vec<Region>,
    next: u64,
}

/// Where the primary region starts: 1 GB aligned, so that every page size fits from its start.
pub const PRIMARY_BASE: u64 = 0x0000_1000_0000_0000;
const STATIC_BASE: u64 = 0x0000_0000_0040_0000;
const STACK_TOP: u64 = 0x0000_7fff_f000_0000;
const FILE_BASE: u64 = 0x0000_7f00_0000_0000;
/// Where x86-64 Linux has had its direct map and its vmalloc area since 2.6.31.
const DIRECT_MAP_BASE: u64 = 0xffff_8800_0000_0000;
const VMALLOC_BASE: u64 = 0xffff_c900_0000_0000;

impl RegionLayout {
    /// An empty address space.
    pub fn new() -> Self {
        RegionLayout {
            regions: Vec::new(),
            next: PRIMARY_BASE,
        }
    }

    fn add(&mut self, name: &str, base: u64, bytes: u64, backing: Backing) -> u64 {
        self.regions.push(Region {
            name: name.to_owned(),
            base,
            bytes,
            backing,
        });
        base
    }

    /// Anonymous read-write memory, next to the anonymous memory before it as the allocator of
    /// a primary region places it; 4 KB aligned. Returns its base.
    pub fn anonymous(&mut self, name: &str, bytes: u64) -> u64 {
        let bytes = bytes.max(1).next_multiple_of(4096);
        let base = self.next;
        self.next += bytes;
        self.add(name, base, bytes, Backing::Anonymous)
    }

    fn below_or_after(&self, start: u64, backing: &[Backing]) -> u64 {
        let used = self.regions.iter().filter(|r| backing.contains(&r.backing));
        used.map(Region::end)
            .max()
            .unwrap_or(start)
            .next_multiple_of(1 << 21)
    }

    /// Code or static data of the program.
    pub fn image(&mut self, name: &str, bytes: u64, backing: Backing) -> u64 {
        let base = self.below_or_after(STATIC_BASE, &[Backing::Code, Backing::Static]);
        self.add(name, base, bytes.next_multiple_of(4096), backing)
    }

    /// A thread's stack.
    pub fn stack(&mut self, name: &str, bytes: u64) -> u64 {
        let stacks = self
            .regions
            .iter()
            .filter(|r| r.backing == Backing::Stack)
            .count() as u64;
        let bytes = bytes.next_multiple_of(4096);
        let base = STACK_TOP - (stacks + 1) * bytes.next_multiple_of(1 << 21);
        self.add(name, base, bytes, Backing::Stack)
    }

    /// A file mapping.
    pub fn file(&mut self, name: &str, bytes: u64) -> u64 {
        let base = self.below_or_after(FILE_BASE, &[Backing::File]);
        self.add(name, base, bytes.next_multiple_of(4096), Backing::File)
    }

    /// The direct map of `bytes` bytes of physical memory.
    pub fn direct_map(&mut self, bytes: u64) -> u64 {
        let bytes = bytes.next_multiple_of(1 << 21);
        self.add("direct map", DIRECT_MAP_BASE, bytes, Backing::DirectMap)
    }

    /// Kernel memory outside the direct map.
    pub fn vmalloc(&mut self, name: &str, bytes: u64) -> u64 {
        let base = self.below_or_after(VMALLOC_BASE, &[Backing::Vmalloc]);
        self.add(name, base, bytes.next_multiple_of(4096), Backing::Vmalloc)
    }

    /// The regions, in the order they were made.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }
}

impl Default for RegionLayout {
    fn default() -> Self {
        RegionLayout::new()
    }
}
