// SPDX-License-Identifier: MIT OR Apache-2.0
//! Walks of page tables: whose table a frame is, and what the kernel maps where.
//!
//! Layout of entries and addresses: Intel SDM volume 3, 4.5; the kernel's half of the address
//! space: `Documentation/arch/x86/x86_64/mm.rst`.

use super::claims::Claims;
use super::kernel::{FRAME_BYTES, KernelMemory};
use super::owners::OwnerId;
use crate::HostError;
use ample_pfn::{Pfn, PfnRange};
use std::collections::HashSet;
use std::ops::Range;

const ENTRIES: usize = 512;
const PRESENT: u64 = 1;
const LARGE: u64 = 1 << 7;
const TABLES_AT_ONCE: usize = 1 << 12;
/// Bits 12 to 51: the frame. Bits above 46 are used for encryption by some processors.
const FRAME_MASK: u64 = 0x0000_7fff_ffff_f000;

/// One table that is to be read, and the addresses that it translates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFrame {
    pub frame: u64,
    /// First address that it translates.
    pub address: u64,
    pub owner: OwnerId,
}

/// A stretch of addresses mapped to as many frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelMapping {
    pub address: u64,
    pub frame: u64,
    pub frames: u64,
}

/// Which half of the addresses of the top tables is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceHalf {
    /// Tables of processes. The last level is claimed and not read.
    User,
    /// Tables of the kernel, but for the last level below the direct map, which holds so many
    /// frames.
    Kernel {
        /// Frames from the first to the last of memory.
        frames: u64,
    },
}

impl SpaceHalf {
    fn direct_frames(self) -> u64 {
        match self {
            SpaceHalf::User => 0,
            SpaceHalf::Kernel { frames } => frames,
        }
    }
}

/// Follows tables from their tops, `levels` (4 or 5) deep, and claims them all. Only frames for
/// which `is_table` holds are followed: a table that is freed meanwhile leads nowhere.
/// Returns what the kernel's half maps outside the direct map.
///
/// # Errors
/// When the program cannot be run.
pub fn walk(
    kernel: &mut dyn KernelMemory,
    claims: &mut Claims,
    mut tables: Vec<TableFrame>,
    levels: u32,
    half: SpaceHalf,
    is_table: &dyn Fn(u64) -> bool,
) -> Result<Vec<KernelMapping>, HostError> {
    let mut walk = Walk {
        direct: kernel.direct_map()..kernel.direct_map() + half.direct_frames() * FRAME_BYTES,
        levels,
        half,
        below: Vec::new(),
        mappings: Vec::new(),
    };
    let mut seen = HashSet::new();
    for level in (1..=levels).rev() {
        tables.retain(|table| is_table(table.frame) && seen.insert(table.frame));
        for table in &tables {
            let frame = PfnRange::new(Pfn(table.frame), Pfn(table.frame + 1));
            claims.add(frame, table.owner);
        }
        if level == 1 {
            tables.retain(|table| half != SpaceHalf::User && !walk.direct.contains(&table.address));
        }
        for part in tables.chunks(TABLES_AT_ONCE) {
            let address = |table: &TableFrame| kernel.direct_map() + table.frame * FRAME_BYTES;
            let addresses: Vec<u64> = part.iter().map(address).collect();
            let read = kernel.gather(&addresses, FRAME_BYTES as usize)?;
            for (table, entries) in part.iter().zip(read.chunks(ENTRIES)) {
                walk.read(table, entries, level);
            }
        }
        tables = std::mem::take(&mut walk.below);
    }
    walk.mappings
        .sort_unstable_by_key(|mapping| mapping.address);
    Ok(walk.mappings)
}

/// What a walk has found so far.
struct Walk {
    direct: Range<u64>,
    levels: u32,
    half: SpaceHalf,
    /// Tables of the next level.
    below: Vec<TableFrame>,
    mappings: Vec<KernelMapping>,
}

impl Walk {
    /// Takes in the entries of one table of a level, 1 being the last.
    fn read(&mut self, table: &TableFrame, entries: &[u64], level: u32) {
        let shift = 12 + 9 * (level - 1);
        let wanted = match (level == self.levels, self.half) {
            (true, SpaceHalf::User) => 0..ENTRIES / 2,
            (true, SpaceHalf::Kernel { .. }) => ENTRIES / 2..ENTRIES,
            (false, _) => 0..ENTRIES,
        };
        for index in wanted.filter(|&index| entries[index] & PRESENT != 0) {
            let (entry, frames) = (entries[index], 1u64 << (shift - 12));
            let frame = (entry & FRAME_MASK) / FRAME_BYTES;
            let address = canonical(table.address | (index as u64) << shift);
            // Below the fourth level a set bit says that no further table follows.
            let leaf = level == 1 || entry & LARGE != 0 && level < 4;
            if !leaf {
                self.below.push(TableFrame {
                    frame,
                    address,
                    owner: table.owner,
                });
            } else if self.half != SpaceHalf::User && !self.direct.contains(&address) {
                map(&mut self.mappings, address, frame & !(frames - 1), frames);
            }
        }
    }
}

fn map(mappings: &mut Vec<KernelMapping>, address: u64, frame: u64, frames: u64) {
    match mappings.last_mut() {
        Some(last)
            if last.address + last.frames * FRAME_BYTES == address
                && last.frame + last.frames == frame =>
        {
            last.frames += frames;
        }
        _ => mappings.push(KernelMapping {
            address,
            frame,
            frames,
        }),
    }
}

/// The address with its highest used bit copied upwards: 48 bits, or 57 where a fifth level set
/// bits above.
fn canonical(address: u64) -> u64 {
    let bits = if address >> 48 == 0 { 48 } else { 57 };
    let unused = 64 - bits;
    (((address << unused) as i64) >> unused) as u64
}

#[cfg(test)]
mod tests {
    use super::super::OwnerKind;
    use super::super::owners::OwnerName;
    use super::super::testing::{DIRECT_MAP, FakeKernel};
    use super::*;

    fn entry(kernel: &mut FakeKernel, table: u64, index: u64, value: u64) {
        kernel
            .words
            .insert(DIRECT_MAP + table * FRAME_BYTES + 8 * index, value);
    }

    /// A top at frame 1, lower tables at 2, 3, 4; frame 9 is no table any more.
    fn kernel(top: u64) -> FakeKernel {
        let mut kernel = FakeKernel::default();
        entry(&mut kernel, 1, top, 2 << 12 | PRESENT);
        entry(&mut kernel, 2, 0, 3 << 12 | PRESENT);
        entry(&mut kernel, 3, 1, 4 << 12 | PRESENT);
        entry(&mut kernel, 3, 2, 512 << 12 | PRESENT | LARGE);
        entry(&mut kernel, 3, 3, 9 << 12 | PRESENT);
        entry(&mut kernel, 4, 5, 77 << 12 | PRESENT);
        entry(&mut kernel, 4, 6, 78 << 12 | PRESENT);
        kernel
    }

    fn claimed(kernel: &mut FakeKernel, half: SpaceHalf) -> (Vec<u64>, Vec<KernelMapping>) {
        let mut claims = Claims::default();
        let owner = claims.id(OwnerName::new(OwnerKind::PageTable, "own"));
        let top = TableFrame {
            frame: 1,
            address: 0,
            owner,
        };
        let mappings = walk(kernel, &mut claims, vec![top], 4, half, &|frame| frame < 9).unwrap();
        let tables = (0..600).filter(|&frame| claims.at(Pfn(frame), Pfn(600)).0.is_some());
        (tables.collect(), mappings)
    }

    #[test]
    fn tables_of_a_process_are_claimed_and_the_last_level_is_not_read() {
        assert_eq!(
            claimed(&mut kernel(3), SpaceHalf::User),
            (vec![1, 2, 3, 4], vec![])
        );
        // The kernel's half of a process belongs to the kernel.
        assert_eq!(claimed(&mut kernel(300), SpaceHalf::User).0, [1]);
    }

    #[test]
    fn mappings_of_the_kernel_join_where_frames_follow() {
        let (vmalloc, all) = (
            0xffff_c900_0000_0000u64,
            SpaceHalf::Kernel { frames: 1 << 20 },
        );
        let (tables, mappings) = claimed(&mut kernel(vmalloc >> 39 & 511), all);
        assert_eq!(tables, [1, 2, 3, 4]);
        let mapping = |address, frame, frames| KernelMapping {
            address,
            frame,
            frames,
        };
        let small = mapping(vmalloc + (2 << 20) + (5 << 12), 77, 2);
        assert_eq!(mappings, [small, mapping(vmalloc + (4 << 20), 512, 512)]);
        // Below the direct map tables are claimed; what they map is no owner.
        let (tables, mappings) = claimed(&mut kernel(DIRECT_MAP >> 39 & 511), all);
        assert_eq!((tables, mappings), (vec![1, 2, 3, 4], vec![]));
    }
}
