// SPDX-License-Identifier: MIT OR Apache-2.0
//! The walk of a guest's page table through the host's.

use super::Host;
use crate::mmu::Mmu;
use crate::os::space::{Space, USER_RW};
use crate::table::entry::{PageSize, bits};
use crate::walk::descent::{Fault, Reached, descend};
use crate::walk::native::Walked;
use crate::walk::port::Port;
use crate::walk::ways::{HostWay, NestedWay};

impl Host {
    /// The two-dimensional walk. What comes back looks like a native leaf with host-physical
    /// frames, of the smaller of the two page sizes; if either side is perforated and both are
    /// 2 MB or more, a perforated entry with both filters in one.
    ///
    /// # Errors
    /// If either side maps nothing.
    pub fn walk<P: Port + ?Sized>(
        &mut self,
        mmu: &mut Mmu,
        guest: &mut Space,
        va: u64,
        asid: u16,
        now: u64,
        port: &mut P,
    ) -> Result<Walked, Fault> {
        if let Some(gpa) = guest.segment_for(va).and_then(|s| s.translate(va)) {
            // Second form: the segment is the guest's; one dimension is left.
            let leaf = self.translate(&mut mmu.stats, gpa, now + mmu.pwc_time, port)?;
            let mut way = NestedWay::default();
            way.page(leaf.way);
            mmu.stats.nested_ways.count(way);
            mmu.stats.longest_walk_refs = mmu.stats.longest_walk_refs.max(leaf.refs);
            let flags = USER_RW;
            // The two ranges need not be aligned to each other beyond 4 KB.
            let entry = leaf.pa & !0xfff | flags;
            return Ok(Walked {
                entry,
                level: 1,
                node: 0,
                refs: leaf.refs,
                done: leaf.done,
            });
        }
        if !guest.table.is_canonical(va) {
            return Err(Fault::NotPresent);
        }
        let mut time = now + mmu.pwc_time;
        let (mut refs, mut way) = (0, NestedWay::default());
        let cached = mmu.pwc.deepest(va, asid, 2);
        mmu.stats.pwc_hits[cached.map_or(0, |(level, _)| level as usize)] += 1;
        let mut known = cached.is_some();
        let (stats, table) = (&mut mmu.stats, &mut guest.table);
        let Reached { entry, level, node } =
            descend(table, &mut mmu.pwc, (va, asid), cached, 0, |gpa, level| {
                let (pa, host) = if known {
                    // The page-walk cache holds the node's host-physical address.
                    (self.lookup(gpa).ok_or(Fault::NotPresent)?, HostWay::HELD)
                } else {
                    let leaf = self.translate(stats, gpa, time, port)?;
                    refs += leaf.refs;
                    time = leaf.done;
                    (leaf.pa, leaf.way)
                };
                known = false;
                let (answered, hit) = port.read(pa, time);
                time = answered;
                refs += 1;
                way.reference(level, host, hit);
                stats.refs_by_level[level as usize] += 1;
                stats.refs_at[level as usize][hit as usize] += 1;
                Ok(())
            })?;
        let mut walked = Walked {
            entry,
            level,
            node,
            refs,
            done: time,
        };
        way.page(self.combine(mmu, guest, va, &mut walked, port)?);
        mmu.stats.nested_ways.count(way);
        mmu.stats.longest_walk_refs = mmu.stats.longest_walk_refs.max(walked.refs);
        Ok(walked)
    }

    /// Joins a guest leaf with the host's mapping of the page it points at; says how the host found
    /// that.
    fn combine<P: Port + ?Sized>(
        &mut self,
        mmu: &mut Mmu,
        guest: &Space,
        va: u64,
        walked: &mut Walked,
        port: &mut P,
    ) -> Result<HostWay, Fault> {
        let guest_size = walked.size();
        let mut gpa = (walked.entry & bits::FRAME & !(guest_size.bytes() - 1))
            | (va & (guest_size.bytes() - 1));
        let guest_holes = (walked.entry & bits::PERFORATED != 0)
            .then(|| guest.hole_map((walked.entry & bits::FRAME) >> 21));
        let mut rights = walked.entry & bits::RIGHTS;
        let host_perforated = self.holes_at(gpa);
        if guest_holes.is_some() || host_perforated.is_some() && guest_size >= PageSize::M2 {
            if let Some(entry) = self.combined_entry(gpa, guest_holes, host_perforated) {
                // One host translation of the block, then the joint entry; the 4 KB page is
                // resolved by the scheme, from filter and bitmap.
                let leaf = self.translate_block(&mut mmu.stats, gpa, walked.done, port)?;
                walked.refs += leaf.refs;
                walked.done = leaf.done;
                walked.entry = entry | rights | bits::PRESENT | bits::LARGE;
                walked.level = 2;
                return Ok(leaf.way);
            }
            // The host has only small pages here: look the one page up in the guest's bitmap.
            if let Some(map) = guest_holes
                && self.asks_guest_bitmap(mmu, guest, va, walked, &map, port)?
            {
                mmu.stats.hole_walks += 1;
                let entry = self.guest_hole(mmu, guest, va, walked, port)?;
                gpa = entry & bits::FRAME | va & 0xfff;
                rights = entry & bits::RIGHTS;
            }
        }
        let leaf = self.translate(&mut mmu.stats, gpa, walked.done, port)?;
        walked.refs += leaf.refs;
        walked.done = leaf.done;
        let guest_size = if guest_holes.is_some() {
            PageSize::K4
        } else {
            guest_size
        };
        let mut size = guest_size.min(leaf.size);
        // A segment's offset need not keep the alignment a large TLB entry wants.
        while (leaf.pa ^ va) & (size.bytes() - 1) != 0 && size > PageSize::K4 {
            size = PageSize::ALL[size as usize - 1];
        }
        walked.level = size.level();
        walked.entry = leaf.pa & bits::FRAME & !(size.bytes() - 1) | rights | bits::PRESENT;
        Ok(leaf.way)
    }
}
