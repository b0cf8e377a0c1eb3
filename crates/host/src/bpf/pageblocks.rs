// SPDX-License-Identifier: MIT OR Apache-2.0
//! Migratetypes of pageblocks, from the sections of the sparse memory model.
//!
//! `/sys/kernel/vmcoreinfo` gives the physical address of a note that names the kernel symbol
//! `mem_section` (`kernel/vmcore_info.c`); the note is read through the direct map, whose base is
//! found by looking for the note. Every section must point back at the memory map that the
//! reader uses, so a wrong turn anywhere ends in an error and never in a wrong type.

use super::kernel::{BpfPrograms, types};
use crate::HostError;
use crate::reader::PageblockRun;
use ample_pfn::{MigrateType, PAGES_PER_PAGEBLOCK, PfnRange};

/// Base of the direct map without randomisation (`Documentation/arch/x86/x86_64/mm.rst`).
const DIRECT_MAP_BASE: u64 = 0xffff_8880_0000_0000;
/// Randomisation moves the base by multiples of this.
const DIRECT_MAP_ALIGN: u64 = 1 << 30;
/// Bases tried at most: 16 TB of memory.
const MAX_BASES: u64 = 1 << 14;
const NOTE_BYTES: u64 = 4096;
const POINTER_BYTES: u64 = 8;
/// Flags in the low bits of `section_mem_map`.
const SECTION_MAP_FLAGS: u64 = 0xfff;
const SECTION_PAGES: u64 = 1 << 15;
const BLOCKS_PER_SECTION: u64 = SECTION_PAGES / PAGES_PER_PAGEBLOCK;
const KERNEL_PAGE_BYTES: u64 = 4096;
/// Low bits of a pageblock's flags that are its migratetype: `PB_migratetype_bits`.
const TYPE_MASK: u64 = 7;

fn fail<T>(what: impl Into<String>) -> Result<T, HostError> {
    Err(HostError::Bpf(what.into()))
}

/// Migratetypes of all pageblocks that overlap `ram`, ascending.
pub fn read(
    kernel: &mut BpfPrograms,
    memory_map: u64,
    ram: &[PfnRange],
) -> Result<Vec<PageblockRun>, HostError> {
    let layout = kernel.layout();
    let bits = layout
        .pageblock_bits
        .checked_next_power_of_two()
        .unwrap_or(0);
    if !(4..=16).contains(&bits) || layout.section_bytes < 16 || layout.section_bytes > 64 {
        return fail("the kernel keeps the types of pageblocks otherwise than Linux 6.12 to 6.18");
    }
    let (note, _) = find_note(kernel)?;
    // The kernel prints the value of this pointer, as if it were an array.
    let roots = symbol(&note, "mem_section")
        .ok_or_else(|| HostError::Bpf("vmcoreinfo does not name mem_section".into()))?;
    let mut sections = Sections {
        kernel,
        layout,
        bits,
        roots,
        memory_map,
    };
    let mut runs: Vec<PageblockRun> = Vec::new();
    let mut next = 0;
    for range in ram {
        let first = (range.start.0 / PAGES_PER_PAGEBLOCK).max(next);
        next = range.end.0.div_ceil(PAGES_PER_PAGEBLOCK);
        sections.blocks(first, next, &mut runs)?;
    }
    Ok(runs)
}

struct Sections<'a> {
    kernel: &'a mut BpfPrograms,
    layout: types::layout,
    bits: u32,
    /// Address of the array of pointers to sections.
    roots: u64,
    memory_map: u64,
}

impl Sections<'_> {
    /// Appends the pageblocks `first..end`.
    fn blocks(
        &mut self,
        first: u64,
        end: u64,
        runs: &mut Vec<PageblockRun>,
    ) -> Result<(), HostError> {
        let mut block = first;
        while block < end {
            let section = block / BLOCKS_PER_SECTION;
            let flags = self.flags(section)?;
            let section_end = ((section + 1) * BLOCKS_PER_SECTION).min(end);
            for at in block..section_end {
                let bit = at % BLOCKS_PER_SECTION * u64::from(self.bits);
                let value = flags[(bit / 64) as usize] >> (bit % 64) & TYPE_MASK;
                push(
                    runs,
                    at * PAGES_PER_PAGEBLOCK,
                    self.migratetype(value as u32)?,
                );
            }
            block = section_end;
        }
        Ok(())
    }

    /// Flags of all pageblocks of a section.
    fn flags(&mut self, section: u64) -> Result<Vec<u64>, HostError> {
        let bytes = u64::from(self.layout.section_bytes);
        let per_root = KERNEL_PAGE_BYTES / bytes;
        let missing = || HostError::Bpf(format!("section {section} has no memory map"));
        let root = word(self.kernel, self.roots + section / per_root * POINTER_BYTES)?
            .filter(|&root| root != 0)
            .ok_or_else(missing)?;
        let at = root + section % per_root * bytes;
        let map = word(self.kernel, at)?.ok_or_else(missing)?;
        if map & !SECTION_MAP_FLAGS != self.memory_map {
            return fail(format!("section {section} belongs to another memory map"));
        }
        let usage =
            word(self.kernel, at + u64::from(self.layout.section_usage))?.ok_or_else(missing)?;
        let flag_bytes = BLOCKS_PER_SECTION * u64::from(self.bits) / 8;
        if !self
            .kernel
            .copy(usage + u64::from(self.layout.usage_flags), flag_bytes)?
        {
            return Err(missing());
        }
        Ok(self.kernel.buffer()[..flag_bytes as usize / 8].to_vec())
    }

    fn migratetype(&self, value: u32) -> Result<MigrateType, HostError> {
        let named = [
            (0, MigrateType::Unmovable),
            (1, MigrateType::Movable),
            (2, MigrateType::Reclaimable),
            (self.layout.migrate_highatomic, MigrateType::HighAtomic),
            (self.layout.migrate_cma, MigrateType::Cma),
            (self.layout.migrate_isolate, MigrateType::Isolate),
        ];
        match named.iter().find(|row| row.0 == value) {
            Some((_, migratetype)) => Ok(*migratetype),
            None => fail(format!("unknown migratetype {value}")),
        }
    }
}

fn push(runs: &mut Vec<PageblockRun>, start_pfn: u64, migratetype: MigrateType) {
    match runs.last_mut() {
        Some(run)
            if run.migratetype == migratetype
                && run.start_pfn + run.blocks * PAGES_PER_PAGEBLOCK == start_pfn =>
        {
            run.blocks += 1;
        }
        _ => runs.push(PageblockRun {
            start_pfn,
            blocks: 1,
            migratetype,
        }),
    }
}

/// One word of kernel memory; `None` when it is not mapped.
fn word(kernel: &mut BpfPrograms, address: u64) -> Result<Option<u64>, HostError> {
    Ok(kernel
        .copy(address, POINTER_BYTES)?
        .then(|| kernel.buffer()[0]))
}

/// Text of the vmcoreinfo note, and the base of the direct map that it was found through.
pub fn find_note(kernel: &mut BpfPrograms) -> Result<(String, u64), HostError> {
    let path = std::path::Path::new("/sys/kernel/vmcoreinfo");
    let text = std::fs::read_to_string(path).map_err(|error| HostError::io(path, error))?;
    let address = text
        .split_whitespace()
        .next()
        .and_then(|word| word.strip_prefix("0x"));
    let Some(address) = address.and_then(|hex| u64::from_str_radix(hex, 16).ok()) else {
        return Err(HostError::parse(path, 1, "expected 0xADDRESS SIZE"));
    };
    // The task lies above the base, by less than the size of memory.
    let top = kernel.task()? & !(DIRECT_MAP_ALIGN - 1);
    let below = (0..MAX_BASES).map(|step| top.wrapping_sub(step * DIRECT_MAP_ALIGN));
    for base in std::iter::once(DIRECT_MAP_BASE).chain(below) {
        if kernel.copy(base.wrapping_add(address), NOTE_BYTES)? {
            let words = &kernel.buffer()[..NOTE_BYTES as usize / 8];
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let note = String::from_utf8_lossy(&bytes).into_owned();
            if note.contains("VMCOREINFO") && note.contains("SYMBOL(") {
                return Ok((note, base));
            }
        }
    }
    fail("the vmcoreinfo note is not where the kernel says")
}

/// Address that a line `SYMBOL(name)=hex` of the note gives.
pub fn symbol(note: &str, name: &str) -> Option<u64> {
    let start = format!("SYMBOL({name})=");
    let line = note
        .lines()
        .find_map(|line| line.strip_prefix(start.as_str()))?;
    u64::from_str_radix(line.trim(), 16).ok()
}
