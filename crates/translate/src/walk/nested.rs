// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two-dimensional translation: a guest's page table whose every reference is itself translated
//! by the host's. At most (levels + 1)² - 1 references a walk: 24 with four levels each.

use crate::assoc::Assoc;
use crate::config::{MmuConfig, Pwc, index_of, key_of};
use crate::descent::{Reached, descend};
use crate::error::ConfigError;
use crate::mmu::{Fault, Mmu, Port, Walked};
use crate::pagetable::{PageSize, PageTable, bits};
use crate::space::{HoleMap, Space, filter_of};
use crate::stats::Stats;

/// The host side of a virtual machine: guest-physical to host-physical.
pub struct Host {
    /// The host's page table; its "virtual" addresses are guest-physical. A segment in it is the
    /// first of the three virtualised forms of Direct Segments, section 3.3.
    pub space: Space,
    tlb: Option<Assoc>,
    pwc: Pwc,
}

/// A guest-physical address translated by the host.
#[derive(Clone, Copy, Debug)]
struct HostLeaf {
    /// Host-physical address of what was asked for.
    pa: u64,
    /// Size of the host page (4 KB inside a hole).
    size: PageSize,
    refs: u64,
    done: u64,
}

/// Level of a segment in the sizes of nested entries: anything up to 1 GB may be cached whole.
const SEGMENT_SIZE: PageSize = PageSize::G1;

impl Host {
    /// A host with an address space and the nested structures of `config`.
    ///
    /// # Errors
    /// If an array cannot be built.
    pub fn new(space: Space, config: &MmuConfig) -> Result<Self, ConfigError> {
        let tlb = config
            .nested_tlb
            .map(|g| Assoc::new(g, "nested TLB"))
            .transpose()?;
        let pwc = Pwc::new(&config.pwc, space.table.levels())?;
        Ok(Host { space, tlb, pwc })
    }

    /// What a guest-physical address finally is, for tests and for software.
    pub fn lookup(&self, guest_pa: u64) -> Option<u64> {
        self.space.lookup(guest_pa).map(|m| m.pa)
    }

    /// Forgets the walker's own translations, after a change of the host's table.
    pub fn flush(&mut self) {
        if let Some(tlb) = &mut self.tlb {
            tlb.clear();
        }
        self.pwc.flush(None);
    }

    /// Translates one guest-physical address, through the nested TLB where there is one.
    fn translate<P: Port + ?Sized>(
        &mut self,
        stats: &mut Stats,
        gpa: u64,
        now: u64,
        port: &mut P,
    ) -> Result<HostLeaf, Fault> {
        if let Some(pa) = self.space.segment.and_then(|s| s.translate(gpa)) {
            let size = SEGMENT_SIZE;
            return Ok(HostLeaf {
                pa,
                size,
                refs: 0,
                done: now,
            });
        }
        if let Some(tlb) = &mut self.tlb {
            for size in PageSize::ALL {
                let index = index_of(gpa, size.shift());
                if let Some((_, base)) = tlb.lookup(index, key_of(index, 0, size as u8)) {
                    stats.nested_tlb_hits += 1;
                    let pa = base + (gpa & (size.bytes() - 1));
                    return Ok(HostLeaf {
                        pa,
                        size,
                        refs: 0,
                        done: now,
                    });
                }
            }
        }
        self.walk_host(stats, gpa, now, port)
    }

    /// The holes of the perforated host page around `gpa`, if it is one.
    fn holes_at(&self, gpa: u64) -> Option<HoleMap> {
        let leaf = self.space.table.find(gpa)?;
        (leaf.entry & bits::PERFORATED != 0)
            .then(|| self.space.hole_map((leaf.entry & bits::FRAME) >> 21))
    }

    fn walk_host<P: Port + ?Sized>(
        &mut self,
        stats: &mut Stats,
        gpa: u64,
        now: u64,
        port: &mut P,
    ) -> Result<HostLeaf, Fault> {
        let mut reader = Reader {
            stats,
            port,
            refs: 0,
            time: now,
        };
        let table = &self.space.table;
        let cached = self.pwc.deepest(gpa, 0, 2);
        let Reached { entry, level, node } =
            descend(table, &mut self.pwc, (gpa, 0), cached, 0, |pa, level| {
                reader.host(pa, level);
                Ok(())
            })?;
        let mut size = PageSize::ALL[level as usize - 1];
        let mut base = entry & bits::FRAME & !(size.bytes() - 1);
        if entry & bits::PERFORATED != 0 {
            let frame = base >> 21;
            let index = gpa >> 12 & 511;
            let map = self.space.hole_map(frame);
            if filter_of(&map) >> (index / 64) & 1 != 0 {
                reader.stats.bitmap_loads += 1;
                reader.host(self.space.bitmap_pa(frame, index), 0);
            }
            let hole = map[index as usize / 64] >> (index % 64) & 1 != 0;
            if hole {
                let place = u64::from(node) << 9 | PageTable::slot(gpa, 2);
                let shadow = table.shadow(place).ok_or(Fault::NotPresent)?;
                reader.host(table.entry_pa(shadow, gpa, 1), 1);
                let inner = table.entry(shadow, gpa, 1);
                if inner & bits::PRESENT == 0 {
                    return Err(Fault::NotPresent);
                }
                base = inner & bits::FRAME;
            } else {
                base += index << 12;
            }
            size = PageSize::K4;
        }
        if let Some(tlb) = &mut self.tlb {
            let index = index_of(gpa, size.shift());
            tlb.insert(index, key_of(index, 0, size as u8), base);
        }
        let pa = base + (gpa & (size.bytes() - 1));
        Ok(HostLeaf {
            pa,
            size,
            refs: reader.refs,
            done: reader.time,
        })
    }

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
            mmu.stats.longest_walk_refs = mmu.stats.longest_walk_refs.max(leaf.refs);
            let flags = crate::space::USER_RW;
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
        let mut refs = 0;
        let cached = mmu.pwc.deepest(va, asid, 2);
        mmu.stats.pwc_hits[cached.map_or(0, |(level, _)| level as usize)] += 1;
        let mut known = cached.is_some();
        let (stats, table) = (&mut mmu.stats, &guest.table);
        let Reached { entry, level, node } =
            descend(table, &mut mmu.pwc, (va, asid), cached, 0, |gpa, level| {
                let pa = if known {
                    // The page-walk cache holds the node's host-physical address.
                    self.lookup(gpa).ok_or(Fault::NotPresent)?
                } else {
                    let leaf = self.translate(stats, gpa, time, port)?;
                    refs += leaf.refs;
                    time = leaf.done;
                    leaf.pa
                };
                known = false;
                let (answered, hit) = port.read(pa, time);
                time = answered;
                refs += 1;
                stats.refs_by_level[level as usize] += 1;
                stats.refs_by_hit[hit as usize] += 1;
                Ok(())
            })?;
        if entry & bits::ACCESSED == 0 && entry & bits::PERFORATED == 0 {
            guest.table.set_bits(node, va, level, bits::ACCESSED);
        }
        let mut walked = Walked {
            entry,
            level,
            node,
            refs,
            done: time,
        };
        self.combine(mmu, guest, va, &mut walked, port)?;
        mmu.stats.longest_walk_refs = mmu.stats.longest_walk_refs.max(walked.refs);
        Ok(walked)
    }

    /// Joins a guest leaf with the host's mapping of the page it points at.
    fn combine<P: Port + ?Sized>(
        &mut self,
        mmu: &mut Mmu,
        guest: &Space,
        va: u64,
        walked: &mut Walked,
        port: &mut P,
    ) -> Result<(), Fault> {
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
                return Ok(());
            }
            // The host has only small pages here: look the one page up in the guest's bitmap.
            if let Some(map) = guest_holes {
                let hole = self.guest_hole(mmu, guest, va, walked, &map, port)?;
                if let Some(entry) = hole {
                    gpa = entry & bits::FRAME | va & 0xfff;
                    rights = entry & bits::RIGHTS;
                }
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
        Ok(())
    }

    /// The joint perforated entry of a guest block and the host page behind it; None if the host
    /// maps the block with small pages.
    fn combined_entry(
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
    fn translate_block<P: Port + ?Sized>(
        &mut self,
        stats: &mut Stats,
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
            time: now,
        };
        let cached = self.pwc.deepest(gpa, 0, 3);
        let at = (gpa, 0);
        let reached = descend(
            &self.space.table,
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
        })
    }

    /// Looks up in the guest's bitmap whether `va` is a hole and, if so, reads its shadow entry:
    /// both at guest-physical addresses. Returns the shadow entry of a hole.
    fn guest_hole<P: Port + ?Sized>(
        &mut self,
        mmu: &mut Mmu,
        guest: &Space,
        va: u64,
        walked: &mut Walked,
        map: &HoleMap,
        port: &mut P,
    ) -> Result<Option<u64>, Fault> {
        let index = va >> 12 & 511;
        if filter_of(map) >> (index / 64) & 1 == 0 {
            return Ok(None);
        }
        mmu.stats.bitmap_loads += 1;
        if map[index as usize / 64] >> (index % 64) & 1 == 0 {
            return Ok(None);
        }
        mmu.stats.hole_walks += 1;
        let leaf = guest.table.find(va).ok_or(Fault::NotPresent)?;
        let shadow = guest.table.shadow(leaf.place).ok_or(Fault::NotPresent)?;
        let place = guest.table.entry_pa(shadow, va, 1);
        let host = self.translate(&mut mmu.stats, place, walked.done, port)?;
        let (answered, hit) = port.read(host.pa, host.done);
        mmu.stats.refs_by_level[1] += 1;
        mmu.stats.refs_by_hit[hit as usize] += 1;
        walked.refs += host.refs + 1;
        walked.done = answered;
        let entry = guest.table.entry(shadow, va, 1);
        if entry & bits::PRESENT == 0 {
            return Err(Fault::NotPresent);
        }
        Ok(Some(entry))
    }

    /// The joint bitmap group of the perforated block around `va` (guest and host, combined bit
    /// by bit), with the reads it takes: the guest's bitmap at a guest-physical address, the
    /// host's directly.
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
            // The bitmaps lie in a segment of guest memory that the host maps by huge pages; the
            // paper finds this translation almost always cached.
            let (answered, hit) = port.read(guest.bitmap_pa(frame, index), time);
            mmu.stats.refs_by_hit[hit as usize] += 1;
            time = answered;
        }
        let gpa = (frame << 21) + (va & (leaf.size.bytes() - 1));
        if let Some(map) = self.holes_at(gpa) {
            value |= map[group];
            let host = self.space.table.find(gpa).ok_or(Fault::NotPresent)?;
            let frame = (host.entry & bits::FRAME) >> 21;
            let (answered, hit) = port.read(self.space.bitmap_pa(frame, index), time);
            mmu.stats.refs_by_hit[hit as usize] += 1;
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
            let hole = self.guest_hole(mmu, guest, va, &mut walked, &map, port)?;
            if let Some(entry) = hole {
                rights = entry & bits::RIGHTS;
                gpa = entry & bits::FRAME | va & 0xfff;
            }
        }
        let host = self.translate(&mut mmu.stats, gpa, walked.done, port)?;
        Ok((host.pa & bits::FRAME | rights, host.done))
    }
}

/// Reads host entries and keeps count.
struct Reader<'a, P: Port + ?Sized> {
    stats: &'a mut Stats,
    port: &'a mut P,
    refs: u64,
    time: u64,
}

impl<P: Port + ?Sized> Reader<'_, P> {
    #[inline]
    fn host(&mut self, pa: u64, level: u8) {
        let (answered, hit) = self.port.read(pa, self.time);
        self.time = answered;
        self.refs += 1;
        self.stats.host_refs_by_level[level as usize] += 1;
        self.stats.refs_by_hit[hit as usize] += 1;
    }
}
