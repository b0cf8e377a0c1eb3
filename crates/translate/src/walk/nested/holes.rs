// SPDX-License-Identifier: MIT OR Apache-2.0
//! Perforated pages on a virtual machine: the joint entry of a guest's and a host's page, its joint
//! bitmap, and the holes of either side.

use super::{Host, HostLeaf, Reader};
use crate::mmu::Mmu;
use crate::os::space::Space;
use crate::stats::TranslationStats;
use crate::table::entry::{PageSize, bits};
use crate::table::holes::{HoleMap, filter_of, is_hole};
use crate::walk::descent::{Fault, descend};
use crate::walk::native::Walked;
use crate::walk::port::Port;
use crate::walk::ways::HostWay;

impl Host {
    /// The joint perforated entry of a guest block and the host page behind it; None if the host
    /// maps the block with small pages.
    pub(super) fn combined_entry(
        &self,
        gpa: u64,
        guest_holes: Option<HoleMap>,
        host_holes: Option<HoleMap>,
    ) -> Option<u64> {
        let block = gpa & !(PageSize::M2.bytes() - 1);
        let base = match self.space.segment.and_then(|s| s.translate(block)) {
            Some(pa) => pa,
            None => {
                let leaf = self.space.table.find(gpa)?;
                if leaf.size < PageSize::M2 {
                    return None;
                }
                (leaf.entry & bits::FRAME & !(leaf.size.bytes() - 1))
                    + (block & (leaf.size.bytes() - 1))
            }
        };
        if base & (PageSize::M2.bytes() - 1) != 0 {
            return None;
        }
        let filter = filter_of(&guest_holes.unwrap_or_default())
            | filter_of(&host_holes.unwrap_or_default());
        Some(base | bits::PERFORATED | u64::from(filter) << bits::FILTER_SHIFT)
    }

    /// Translates a block's start for the joint entry: the host's walk to its 2 MB-level entry.
    pub(super) fn translate_block<P: Port + ?Sized>(
        &mut self,
        stats: &mut TranslationStats,
        gpa: u64,
        now: u64,
        port: &mut P,
    ) -> Result<HostLeaf, Fault> {
        if self.holes_at(gpa).is_none() {
            return self.translate(stats, gpa, now, port);
        }
        let mut reader = Reader {
            stats,
            port,
            refs: 0,
            time: now + self.pwc_time,
        };
        let cached = self.pwc.deepest(gpa, 0, 3);
        let from = cached.map_or(self.space.table.levels(), |(level, _)| level - 1);
        let at = (gpa, 0);
        let reached = descend(
            &mut self.space.table,
            &mut self.pwc,
            at,
            cached,
            0,
            |pa, level| {
                reader.host(pa, level);
                Ok(())
            },
        )?;
        Ok(HostLeaf {
            pa: reached.entry & bits::FRAME,
            size: PageSize::M2,
            refs: reader.refs,
            done: reader.time,
            way: HostWay::walk(from, reached.level),
        })
    }

    /// Whether `va` is a hole of the guest's page that `walked` found: by the filter, or by the
    /// bitmap, which is read at a guest-physical address.
    pub(super) fn asks_guest_bitmap<P: Port + ?Sized>(
        &mut self,
        mmu: &mut Mmu,
        guest: &Space,
        va: u64,
        walked: &mut Walked,
        map: &HoleMap,
        port: &mut P,
    ) -> Result<bool, Fault> {
        let index = va >> 12 & 511;
        if filter_of(map) >> (index / 64) & 1 == 0 {
            return Ok(false);
        }
        mmu.stats.bitmap_loads += 1;
        let frame = (walked.entry & bits::FRAME) >> 21;
        let place = guest.bitmap_pa(frame, index).ok_or(Fault::NotPresent)?;
        let host = self.translate(&mut mmu.stats, place, walked.done, port)?;
        let (answered, hit) = port.read(host.pa, host.done);
        mmu.stats.refs_at[0][hit as usize] += 1;
        walked.refs += host.refs + 1;
        walked.done = answered;
        Ok(is_hole(map, index))
    }

    /// Reads the shadow entry of the guest's hole at `va`, at a guest-physical address.
    pub(super) fn guest_hole<P: Port + ?Sized>(
        &mut self,
        mmu: &mut Mmu,
        guest: &Space,
        va: u64,
        walked: &mut Walked,
        port: &mut P,
    ) -> Result<u64, Fault> {
        let leaf = guest.table.find(va).ok_or(Fault::NotPresent)?;
        let shadow = guest.table.shadow(leaf.place).ok_or(Fault::NotPresent)?;
        let place = guest.table.entry_pa(shadow, va, 1);
        let host = self.translate(&mut mmu.stats, place, walked.done, port)?;
        let (answered, hit) = port.read(host.pa, host.done);
        mmu.stats.refs_by_level[1] += 1;
        mmu.stats.refs_at[1][hit as usize] += 1;
        walked.refs += host.refs + 1;
        walked.done = answered;
        let entry = guest.table.entry(shadow, va, 1);
        if entry & bits::PRESENT == 0 {
            return Err(Fault::NotPresent);
        }
        Ok(entry)
    }

    /// The joint bitmap group of the perforated block around `va` (guest and host, combined bit
    /// by bit), with the reads it takes: the guest's bitmap at a guest-physical address that the
    /// host translates first, the host's directly.
    ///
    /// # Errors
    /// If nothing is mapped at `va`.
    pub fn bitmap_group(
        &mut self,
        mmu: &mut Mmu,
        guest: &Space,
        va: u64,
        now: u64,
        port: &mut dyn Port,
    ) -> Result<(u64, u64), Fault> {
        let leaf = guest.table.find(va).ok_or(Fault::NotPresent)?;
        let index = va >> 12 & 511;
        let group = index as usize / 64;
        let mut time = now;
        let mut value = 0;
        let frame = (leaf.entry & bits::FRAME & !(leaf.size.bytes() - 1)) >> 21;
        if leaf.entry & bits::PERFORATED != 0 {
            value |= guest.hole_map(frame)[group];
            let place = guest.bitmap_pa(frame, index).ok_or(Fault::NotPresent)?;
            let host = self.translate(&mut mmu.stats, place, time, port)?;
            let (answered, hit) = port.read(host.pa, host.done);
            mmu.stats.refs_at[0][hit as usize] += 1;
            time = answered;
        }
        let gpa = (frame << 21) + (va & (leaf.size.bytes() - 1));
        if let Some(map) = self.holes_at(gpa) {
            value |= map[group];
            let host = self.space.table.find(gpa).ok_or(Fault::NotPresent)?;
            let frame = (host.entry & bits::FRAME) >> 21;
            let place = self.space.bitmap_pa(frame, index);
            let (answered, hit) = port.read(place.ok_or(Fault::NotPresent)?, time);
            mmu.stats.host_refs_at[0][hit as usize] += 1;
            time = answered;
        }
        Ok((value, time))
    }

    /// Resolves one 4 KB page of a joint perforated entry that is a hole on either side.
    ///
    /// # Errors
    /// If the hole is unallocated.
    pub fn hole(
        &mut self,
        mmu: &mut Mmu,
        guest: &Space,
        va: u64,
        now: u64,
        port: &mut dyn Port,
    ) -> Result<(u64, u64), Fault> {
        let leaf = guest.table.find(va).ok_or(Fault::NotPresent)?;
        let mut walked = Walked {
            entry: leaf.entry,
            level: 2,
            node: 0,
            refs: 0,
            done: now,
        };
        let mut rights = leaf.entry & bits::RIGHTS;
        let mut gpa =
            (leaf.entry & bits::FRAME & !(leaf.size.bytes() - 1)) | (va & (leaf.size.bytes() - 1));
        if leaf.entry & bits::PERFORATED != 0 {
            let map = guest.hole_map((leaf.entry & bits::FRAME) >> 21);
            if is_hole(&map, va >> 12 & 511) {
                let entry = self.guest_hole(mmu, guest, va, &mut walked, port)?;
                rights = entry & bits::RIGHTS;
                gpa = entry & bits::FRAME | va & 0xfff;
            }
        }
        let host = self.translate(&mut mmu.stats, gpa, walked.done, port)?;
        Ok((host.pa & bits::FRAME | rights, host.done))
    }
}
