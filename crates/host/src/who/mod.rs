// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who holds the unmovable pages of a running system, by name, and which blocks each spoils.

#[cfg(feature = "bpf")]
pub(crate) mod claims;
#[cfg(feature = "bpf")]
pub(crate) mod evidence;
#[cfg(feature = "bpf")]
mod files;
#[cfg(feature = "bpf")]
mod kernel;
mod owners;
pub(crate) mod recorded;
#[cfg(feature = "bpf")]
pub(crate) mod resolve;
#[cfg(feature = "bpf")]
mod sockets;
#[cfg(feature = "bpf")]
mod tables;
mod tally;
#[cfg(feature = "bpf")]
mod tasks;
#[cfg(all(test, feature = "bpf"))]
mod testing;
#[cfg(feature = "bpf")]
mod text;
#[cfg(feature = "bpf")]
mod vmalloc;

#[cfg(feature = "bpf")]
pub(crate) use kernel::KernelMemory;

use ample_pfn::Pfn;
use serde::{Deserialize, Serialize};

/// What kind of use keeps pages in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnerKind {
    /// A slab cache.
    Slab,
    /// Page tables of processes, or the kernel's own.
    PageTable,
    /// Data in the queues of sockets.
    Socket,
    /// The page pool of a network device.
    PagePool,
    /// Data in pipes.
    Pipe,
    /// Stacks of tasks in the kernel.
    KernelStack,
    /// Memory of `vmalloc()` and its kin, by the function that asked.
    Vmalloc,
    /// Text and data of a kernel module.
    KernelModule,
    /// The array of `struct page`.
    MemoryMap,
    /// Text and data of the kernel.
    KernelImage,
    /// Other memory that was taken before the page allocator ran, or that firmware holds.
    Boot,
    /// Page cache that was allocated unmovable: metadata of file systems on a block device.
    FileSystem,
    /// User memory under a long-term pin.
    Pin,
    /// `kmalloc()` of more than two pages.
    LargeKmalloc,
    /// Kernel memory charged to a control group and not known otherwise.
    Charged,
    /// Kernel memory known by the function that allocated it only (page_owner).
    Allocation,
    /// Offline or taken out of use after a memory error.
    Offline,
    /// In use by the kernel, owner not visible.
    Unknown,
}

impl OwnerKind {
    /// Name as printed; the same as in JSON, with blanks.
    pub fn title(self) -> &'static str {
        match self {
            OwnerKind::Slab => "slab",
            OwnerKind::PageTable => "page table",
            OwnerKind::Socket => "socket",
            OwnerKind::PagePool => "page pool",
            OwnerKind::Pipe => "pipe",
            OwnerKind::KernelStack => "kernel stack",
            OwnerKind::Vmalloc => "vmalloc",
            OwnerKind::KernelModule => "module",
            OwnerKind::MemoryMap => "memory map",
            OwnerKind::KernelImage => "kernel image",
            OwnerKind::Boot => "boot",
            OwnerKind::FileSystem => "file system",
            OwnerKind::Pin => "pin",
            OwnerKind::LargeKmalloc => "large kmalloc",
            OwnerKind::Charged => "charged",
            OwnerKind::Allocation => "allocation",
            OwnerKind::Offline => "offline",
            OwnerKind::Unknown => "unknown",
        }
    }
}

/// One owner of unmovable pages. Blocks are aligned and without a hole; *alone* are those that
/// hold unmovable pages of no other owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageOwner {
    /// Kind of use.
    pub kind: OwnerKind,
    /// Slab cache, program, function, module, device; safe to print.
    pub name: String,
    /// Control group, where the kernel tells; safe to print.
    pub cgroup: Option<String>,
    /// How long its oldest process has run, where processes own it.
    pub age_seconds: Option<u64>,
    /// Pages that it holds.
    pub pages: u64,
    /// 2 MB blocks with a page of it.
    pub blocks_2m: u64,
    /// 2 MB blocks that it spoils alone.
    pub alone_2m: u64,
    /// 1 GB blocks with a page of it.
    pub blocks_1g: u64,
    /// 1 GB blocks that it spoils alone.
    pub alone_1g: u64,
}

/// Owners that hold the most of a stretch of memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnerCell {
    /// First frame of the stretch.
    pub start_pfn: u64,
    /// Index into [`Who::owners`] and pages, the most first; at most four.
    pub most: Vec<(u32, u32)>,
}

/// Who holds the unmovable pages of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Who {
    /// Owners, those that hold the most pages first.
    pub owners: Vec<PageOwner>,
    /// Frames that one cell stands for: a power of two.
    pub cell_pages: u64,
    /// Stretches with unmovable pages, ascending.
    pub cells: Vec<OwnerCell>,
    /// Pageblocks without a hole that hold unmovable pages, ascending by their first frame, with
    /// the owners (index into [`Who::owners`]). Not kept in files.
    #[serde(skip)]
    pub blocks: Vec<(Pfn, Vec<u32>)>,
    /// What is missing, and what would name it.
    pub hints: Vec<String>,
    /// What finding the names took beside the scan.
    pub duration_ns: u64,
}

impl Who {
    /// Checks what comes from a file: cells name owners that exist, and texts are safe to print.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), &'static str> {
        let texts = |owner: &PageOwner| [Some(owner.name.clone()), owner.cgroup.clone()];
        let texts = self.owners.iter().flat_map(texts).flatten();
        if texts
            .chain(self.hints.iter().cloned())
            .any(|text| text.contains(char::is_control))
        {
            return Err("a name has control characters");
        }
        let known = |&(owner, _): &(u32, u32)| (owner as usize) < self.owners.len();
        match self.cells.iter().all(|cell| cell.most.iter().all(known)) {
            true => Ok(()),
            false => Err("a cell names an owner that is not listed"),
        }
    }

    /// How many of these pageblocks, by first frame, each owner has a page in: the most first.
    pub fn in_blocks(&self, blocks: &[(Pfn, u32)]) -> Vec<(&PageOwner, u64)> {
        let mut counts = vec![0; self.owners.len()];
        for (first, _) in blocks {
            let held = self.blocks.binary_search_by_key(first, |(first, _)| *first);
            for &owner in held.iter().flat_map(|&at| &self.blocks[at].1) {
                counts[owner as usize] += 1;
            }
        }
        let mut held: Vec<_> = self.owners.iter().zip(counts).collect();
        held.retain(|(_, blocks)| *blocks > 0);
        held.sort_by_key(|(_, blocks)| std::cmp::Reverse(*blocks));
        held
    }

    /// Unmovable pages of all owners.
    pub fn pages(&self) -> u64 {
        self.owners.iter().map(|owner| owner.pages).sum()
    }

    /// Unmovable pages whose owner is not known.
    pub fn unknown_pages(&self) -> u64 {
        let unknown = self
            .owners
            .iter()
            .filter(|own| own.kind == OwnerKind::Unknown);
        unknown.map(|owner| owner.pages).sum()
    }
}
