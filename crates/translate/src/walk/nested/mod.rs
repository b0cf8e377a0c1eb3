// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two-dimensional translation: a guest's page table whose every reference is itself translated
//! by the host's. At most (levels + 1)² - 1 references a walk: 24 with four levels each.

mod guest;
mod holes;

use super::cache::{PwcKind, WalkCache};
use super::descent::{Fault, Reached, descend};
use super::port::Port;
use super::ways::HostWay;
use crate::config::MmuConfig;
use crate::error::ConfigError;
use crate::os::space::Space;
use crate::stats::TranslationStats;
use crate::table::entry::{PageSize, bits};
use crate::table::holes::{HoleMap, filter_of, is_hole};
use crate::table::page_table::PageTable;
use crate::tlb::associative::AssocArray;
use crate::tlb::key::{index_of, key_of};

/// The host side of a virtual machine: guest-physical to host-physical.
pub struct Host {
    /// The host's page table; its "virtual" addresses are guest-physical. A segment in it is the
    /// first of the three virtualised forms of Direct Segments, section 3.3.
    pub space: Space,
    tlb: Option<AssocArray>,
    /// Time units of a look-up of the nested TLB; 0 without one.
    tlb_time: u64,
    pwc: WalkCache,
    /// Time units of a look-up of the host's page-walk caches; 0 without any.
    pwc_time: u64,
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
    way: HostWay,
}

/// Level of a segment in the sizes of nested entries: anything up to 1 GB may be cached whole.
const SEGMENT_SIZE: PageSize = PageSize::G1;

impl Host {
    /// A host with an address space and the nested structures of `config`; `units_per_cycle` as
    /// for the engine.
    ///
    /// # Errors
    /// If an array cannot be built.
    pub fn new(
        space: Space,
        config: &MmuConfig,
        units_per_cycle: u64,
    ) -> Result<Self, ConfigError> {
        let tlb = config
            .nested_tlb
            .map(|g| AssocArray::new(g, "nested TLB"))
            .transpose()?;
        let (kind, pwc_cycles) = (config.host_pwc(), config.host_pwc_cycles());
        let pwc = WalkCache::new(kind, space.table.levels())?;
        let time =
            |there: bool, cycles: u32| u64::from(there) * u64::from(cycles) * units_per_cycle;
        Ok(Host {
            tlb_time: time(tlb.is_some(), config.nested_cycles),
            pwc_time: time(*kind != PwcKind::Absent, pwc_cycles),
            space,
            tlb,
            pwc,
        })
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
        stats: &mut TranslationStats,
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
                way: HostWay::SEGMENT,
            });
        }
        let now = now + self.tlb_time;
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
                        way: HostWay::NESTED_TLB,
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
        stats: &mut TranslationStats,
        gpa: u64,
        now: u64,
        port: &mut P,
    ) -> Result<HostLeaf, Fault> {
        let mut reader = Reader {
            stats,
            port,
            refs: 0,
            time: now + self.pwc_time,
        };
        let table = &mut self.space.table;
        let cached = self.pwc.deepest(gpa, 0, 2);
        let from = cached.map_or(table.levels(), |(level, _)| level - 1);
        let Reached { entry, level, node } =
            descend(table, &mut self.pwc, (gpa, 0), cached, 0, |pa, level| {
                reader.host(pa, level);
                Ok(())
            })?;
        let table = &self.space.table;
        let mut size = PageSize::ALL[level as usize - 1];
        let mut base = entry & bits::FRAME & !(size.bytes() - 1);
        if entry & bits::PERFORATED != 0 {
            let frame = base >> 21;
            let index = gpa >> 12 & 511;
            let map = self.space.hole_map(frame);
            if filter_of(&map) >> (index / 64) & 1 != 0 {
                reader.stats.bitmap_loads += 1;
                let place = self.space.bitmap_pa(frame, index);
                reader.host(place.ok_or(Fault::NotPresent)?, 0);
            }
            let hole = is_hole(&map, index);
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
            way: HostWay::walk(from, level),
        })
    }
}

/// Reads host entries and keeps count.
struct Reader<'a, P: Port + ?Sized> {
    stats: &'a mut TranslationStats,
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
        self.stats.host_refs_at[level as usize][hit as usize] += 1;
    }
}
