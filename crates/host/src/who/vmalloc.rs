// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that the kernel maps page by page: who called `vmalloc()`.
//!
//! No symbol leads to the kernel's tree of areas, but each area is an object of a slab cache
//! (`struct vmap_area`, `mm/vmalloc.c`), and the pages of that cache are known. An object counts
//! when its `vm_struct` points back at its first address.

use super::OwnerKind;
use super::claims::Claims;
use super::kernel::{FRAME_BYTES, KernelMemory, is_kernel_address};
use super::owners::OwnerName;
use super::tables::KernelMapping;
use crate::{HostError, KernelSymbols};
use ample_pfn::{Pfn, PfnRange};

/// One area: addresses, and the return address of whoever asked for it (0: nobody is on record).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VmapArea {
    pub start: u64,
    pub end: u64,
    pub caller: u64,
}

/// A slab cache whose objects may be areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VmapCache {
    /// Distance between objects.
    pub stride_bytes: u64,
    /// Pages of one slab.
    pub slab_pages: u64,
}

/// The areas in slab pages of caches that may hold them, ascending.
///
/// # Errors
/// When the kernel lacks a field that this cannot do without.
pub fn areas(
    kernel: &mut dyn KernelMemory,
    slabs: &[(PfnRange, VmapCache)],
) -> Result<Vec<VmapArea>, HostError> {
    let (start, end, vm) = (
        kernel.field("vmap_area.va_start")?,
        kernel.field("vmap_area.va_end")?,
        kernel.field("vmap_area.vm")?,
    );
    let (addr, caller) = (
        kernel.field("vm_struct.addr")?,
        kernel.field("vm_struct.caller")?,
    );
    let mut objects = Vec::new();
    for (range, cache) in slabs {
        let per_slab = cache.slab_pages * FRAME_BYTES / cache.stride_bytes;
        for slab in (range.start.0..range.end.0).step_by(cache.slab_pages as usize) {
            let base = kernel.direct_map() + slab * FRAME_BYTES;
            objects.extend((0..per_slab).map(|index| base + index * cache.stride_bytes));
        }
    }
    let starts = kernel.follow(&objects, start)?;
    let ends = kernel.follow(&objects, end)?;
    let structs = kernel.follow(&objects, vm)?;
    let plausible: Vec<usize> = (0..objects.len())
        .filter(|&at| is_kernel_address(starts[at]) && starts[at] < ends[at])
        .filter(|&at| is_kernel_address(structs[at]))
        .collect();
    let candidates: Vec<u64> = plausible.iter().map(|&at| structs[at]).collect();
    let addresses = kernel.follow(&candidates, addr)?;
    let callers = kernel.follow(&candidates, caller)?;
    let mut areas: Vec<VmapArea> = plausible
        .into_iter()
        .zip(addresses.into_iter().zip(callers))
        .filter(|&(at, (address, _))| address == starts[at])
        .map(|(at, (_, caller))| VmapArea {
            start: starts[at],
            end: ends[at],
            caller,
        })
        .collect();
    areas.sort_unstable();
    areas.dedup_by_key(|area| area.start);
    Ok(areas)
}

/// Callers that say more about the use than their names do.
const USES: [(&str, OwnerKind, &str); 12] = [
    ("kernel_clone", OwnerKind::KernelStack, "kernel stacks"),
    ("copy_process", OwnerKind::KernelStack, "kernel stacks"),
    ("dup_task_struct", OwnerKind::KernelStack, "kernel stacks"),
    (
        "alloc_thread_stack_node",
        OwnerKind::KernelStack,
        "kernel stacks",
    ),
    (
        "irq_init_percpu_irqstack",
        OwnerKind::KernelStack,
        "interrupt stacks",
    ),
    ("map_irq_stack", OwnerKind::KernelStack, "interrupt stacks"),
    ("pcpu_get_vm_areas", OwnerKind::Vmalloc, "per-CPU areas"),
    ("pcpu_create_chunk", OwnerKind::Vmalloc, "per-CPU areas"),
    ("bpf_prog_pack_alloc", OwnerKind::Vmalloc, "BPF programs"),
    (
        "bpf_prog_alloc_no_stats",
        OwnerKind::Vmalloc,
        "BPF programs",
    ),
    (
        "bpf_jit_binary_pack_alloc",
        OwnerKind::Vmalloc,
        "BPF programs",
    ),
    ("__bpf_map_area_alloc", OwnerKind::Vmalloc, "BPF maps"),
];

/// What a caller stands for; the function with its module where no use is known.
fn use_of(symbols: &KernelSymbols, modules: &[KernelModule], caller: u64) -> OwnerName {
    let function = symbols.name(caller);
    if let Some((_, kind, name)) = USES.iter().find(|(name, ..)| *name == function) {
        return OwnerName::new(*kind, *name);
    }
    let mut modules = modules.iter();
    let module = modules.find(|own| (own.start..own.end).contains(&caller));
    let module = module.map_or(String::new(), |own| format!(" [{}]", own.name));
    OwnerName::new(OwnerKind::Vmalloc, format!("{function}{module}"))
}

/// A kernel module and the addresses that it fills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelModule {
    pub name: String,
    pub start: u64,
    pub end: u64,
}

/// Claims what the kernel maps: the memory map, then modules, then areas by their callers.
pub fn claim_mappings(
    claims: &mut Claims,
    mappings: &[KernelMapping],
    memory_map: std::ops::Range<u64>,
    modules: &[KernelModule],
    areas: &[VmapArea],
    symbols: &KernelSymbols,
) {
    let map = OwnerName::new(OwnerKind::MemoryMap, "struct page");
    for mapping in mappings {
        let end = mapping.address + mapping.frames * FRAME_BYTES;
        let overlaps = |from: u64, to: u64| from < end && mapping.address < to;
        let mut uses = vec![(memory_map.start, memory_map.end, map.clone())];
        uses.extend(modules.iter().map(|own| {
            let owner = OwnerName::new(OwnerKind::KernelModule, &own.name);
            (own.start, own.end, owner)
        }));
        let first = areas.partition_point(|area| area.end <= mapping.address);
        let inside = areas[first..].iter().take_while(|area| area.start < end);
        uses.extend(
            inside.map(|area| (area.start, area.end, use_of(symbols, modules, area.caller))),
        );
        for (from, to, owner) in uses
            .into_iter()
            .filter(|(from, to, _)| overlaps(*from, *to))
        {
            let owner = claims.id(owner);
            let (from, to) = (from.max(mapping.address), to.min(end));
            let first = mapping.frame + (from - mapping.address) / FRAME_BYTES;
            let frames = (to - from).div_ceil(FRAME_BYTES);
            claims.add(PfnRange::new(Pfn(first), Pfn(first + frames)), owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{DIRECT_MAP, FakeKernel};
    use super::*;

    const AREA: u64 = 0xffff_c900_0000_1000;

    /// Two objects in the slab at frame 5: one in use, one freed whose `vm_struct` is another's.
    fn kernel() -> FakeKernel {
        let mut kernel = FakeKernel::default();
        let fields = [
            ("vmap_area.va_start", 0),
            ("vmap_area.va_end", 8),
            ("vmap_area.vm", 16),
            ("vm_struct.addr", 8),
            ("vm_struct.caller", 56),
        ];
        kernel.offsets.extend(fields);
        let (slab, vm) = (DIRECT_MAP + 5 * FRAME_BYTES, DIRECT_MAP + 0x9000);
        for (object, start) in [(slab, AREA), (slab + 2048, AREA + (1 << 20))] {
            kernel.words.extend([
                (object, start),
                (object + 8, start + 0x3000),
                (object + 16, vm),
            ]);
        }
        kernel
            .words
            .extend([(vm + 8, AREA), (vm + 56, 0xffff_ffff_8100_0104)]);
        kernel
    }

    #[test]
    fn areas_count_when_their_other_half_points_back() {
        let cache = VmapCache {
            stride_bytes: 2048,
            slab_pages: 1,
        };
        let slab = PfnRange::new(Pfn(5), Pfn(6));
        let found = areas(&mut kernel(), &[(slab, cache)]).unwrap();
        let expected = VmapArea {
            start: AREA,
            end: AREA + 0x3000,
            caller: 0xffff_ffff_8100_0104,
        };
        assert_eq!(found, [expected]);
        let mut claims = Claims::default();
        let mapping = KernelMapping {
            address: AREA,
            frame: 100,
            frames: 8,
        };
        let symbols = KernelSymbols::parse("ffffffff81000100 t kernel_clone\n".into());
        claim_mappings(&mut claims, &[mapping], 0..0, &[], &found, &symbols);
        let stacks = OwnerName::new(OwnerKind::KernelStack, "kernel stacks");
        let owner = Some(claims.id(stacks));
        let seen: Vec<bool> = (99..105)
            .map(|n| claims.at(Pfn(n), Pfn(200)).0 == owner)
            .collect();
        assert_eq!(seen, [false, true, true, true, false, false]);
    }
}
