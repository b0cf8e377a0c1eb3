// SPDX-License-Identifier: MIT OR Apache-2.0
//! The translation hardware of one core: TLBs, page-walk caches and the walker. Schemes build
//! their look-up paths from these parts.

use crate::assoc::Assoc;
use crate::config::{MmuConfig, Pwc, TlbArray, asid_of, index_of, key_of};
use crate::descent::{Reached, descend};
use crate::error::ConfigError;
use crate::pagetable::{PageSize, bits, level_shift};
use crate::space::{Inval, Space};
use crate::stats::{HitLevel, Stats};

/// Kinds of entries in a key, beside the page sizes 0 to 2.
pub mod kind {
    /// A perforated 2 MB entry.
    pub const PERFORATED: u8 = 3;
    /// Eight bytes of a hole bitmap.
    pub const BITMAP: u8 = 4;
    /// A coalesced group of 4 KB pages.
    pub const COALESCED: u8 = 5;
}

/// The way from the walker to memory. Times are in the core's own unit (see [`Mmu::new`]).
pub trait Port {
    /// Waits for a free walker; returns when the walk can start.
    fn walk_start(&mut self, now: u64) -> u64;
    /// Reads 8 bytes at a physical address; returns when they are there and where they were.
    fn read(&mut self, pa: u64, now: u64) -> (u64, HitLevel);
    /// A walk that took from `start` to `end` is over.
    fn walk_end(&mut self, start: u64, end: u64);
}

/// A port without caches or time: for functional runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMemory;

impl Port for NoMemory {
    #[inline]
    fn walk_start(&mut self, now: u64) -> u64 {
        now
    }

    #[inline]
    fn read(&mut self, _pa: u64, now: u64) -> (u64, HitLevel) {
        (now, HitLevel::Unknown)
    }

    #[inline]
    fn walk_end(&mut self, _start: u64, _end: u64) {}
}

/// Why an access cannot be translated as things stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is mapped.
    NotPresent,
    /// A write to a read-only page, or a fetch from data.
    Protection,
}

/// A translation ready for the L1 TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Size of the entry to install.
    pub size: PageSize,
    /// Physical base and rights, laid out like a page-table entry.
    pub entry: u64,
    /// When it is there.
    pub done: u64,
}

/// One TLB array: which sizes it holds and which have been seen, so that a look-up skips the rest.
#[derive(Clone, Debug)]
pub struct Tlb {
    assoc: Assoc,
    /// Bit per page size it is for.
    sizes: u8,
    /// Bit per kind of entry ever put in since the last clear; others cannot hit.
    seen: u8,
}

impl Tlb {
    fn new(array: &TlbArray, what: &str) -> Result<Self, ConfigError> {
        let bits = array.sizes.iter().map(|&size| 1 << size as u8);
        Ok(Tlb {
            assoc: Assoc::new(array.geometry, what)?,
            sizes: bits.fold(0, |all, bit: u8| all | bit),
            seen: 0,
        })
    }

    #[inline(always)]
    fn holds(&self, size: PageSize) -> bool {
        self.sizes >> size as u8 & 1 != 0
    }

    /// Entries held now.
    pub fn len(&self) -> usize {
        self.assoc.len()
    }

    /// True if nothing is held.
    pub fn is_empty(&self) -> bool {
        self.assoc.is_empty()
    }

    /// Looks for an entry of a kind with a page number.
    #[inline(always)]
    pub fn get(&mut self, kind: u8, index: u64, asid: u16) -> Option<u64> {
        if self.seen >> kind & 1 == 0 {
            return None;
        }
        self.assoc
            .lookup(index, key_of(index, asid, kind))
            .map(|(_, value)| value)
    }

    /// Puts an entry of a kind in.
    #[inline(always)]
    pub fn put(&mut self, kind: u8, index: u64, asid: u16, value: u64) {
        self.seen |= 1 << kind;
        self.assoc.insert(index, key_of(index, asid, kind), value);
    }

    /// As [`put`](Self::put), for an entry just looked for in vain.
    #[inline(always)]
    fn put_new(&mut self, kind: u8, index: u64, asid: u16, value: u64) {
        self.seen |= 1 << kind;
        self.assoc
            .insert_new(index, key_of(index, asid, kind), value);
    }

    #[inline(always)]
    fn get_page(&mut self, va: u64, asid: u16) -> Option<(PageSize, u64)> {
        let mut present = self.sizes & self.seen;
        while present != 0 {
            let size = PageSize::ALL[present.trailing_zeros() as usize];
            let index = index_of(va, size.shift());
            let found = self.assoc.lookup(index, key_of(index, asid, size as u8));
            if let Some((_, value)) = found {
                return Some((size, value));
            }
            present &= present - 1;
        }
        None
    }

    /// Drops one entry.
    pub fn drop_entry(&mut self, kind: u8, index: u64, asid: u16) -> bool {
        self.assoc.remove(index, key_of(index, asid, kind))
    }
}

/// The last data translation: a hit on it changes no recency order, so nothing is looked up.
#[derive(Clone, Copy, Debug)]
struct Last {
    base: u64,
    mask: u64,
    entry: u64,
}

const NO_LAST: Last = Last {
    base: 1,
    mask: 0,
    entry: 0,
};

/// The hardware.
#[derive(Clone, Debug)]
pub struct Mmu {
    l1d: Vec<Tlb>,
    l1i: Vec<Tlb>,
    l2: Vec<Tlb>,
    pub(crate) pwc: Pwc,
    last: Last,
    /// Time units of an L2 TLB look-up.
    pub l2_time: u64,
    /// Time units of a page-walk-cache look-up.
    pub pwc_time: u64,
    /// Counters.
    pub stats: Stats,
    /// Walks to data addresses in this range are counted apart.
    pub watched: std::ops::Range<u64>,
    config: MmuConfig,
}

/// A leaf as the walker found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walked {
    /// The entry.
    pub entry: u64,
    /// Its level (1, 2 or 3).
    pub level: u8,
    /// The node it stands in.
    pub node: u32,
    /// References taken.
    pub refs: u64,
    /// When the last one was answered.
    pub done: u64,
}

impl Walked {
    /// Page size of the leaf.
    #[inline(always)]
    pub fn size(&self) -> PageSize {
        PageSize::ALL[self.level as usize - 1]
    }
}

impl Mmu {
    /// Builds the hardware; `units_per_cycle`: how many units of [`Port`] time make a cycle.
    ///
    /// # Errors
    /// If the configuration is impossible.
    pub fn new(config: &MmuConfig, units_per_cycle: u64) -> Result<Self, ConfigError> {
        config.check()?;
        let build = |arrays: &[TlbArray], what: &str| {
            arrays
                .iter()
                .map(|a| Tlb::new(a, what))
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(Mmu {
            l1d: build(&config.l1d, "L1 D-TLB")?,
            l1i: build(&config.l1i, "L1 I-TLB")?,
            l2: build(&config.l2, "L2 TLB")?,
            pwc: Pwc::new(&config.pwc, config.levels)?,
            last: NO_LAST,
            l2_time: u64::from(config.l2_cycles) * units_per_cycle,
            pwc_time: u64::from(config.pwc_cycles) * units_per_cycle,
            stats: Stats::default(),
            watched: 0..0,
            config: config.clone(),
        })
    }

    /// What it was built from.
    #[inline(always)]
    pub fn config(&self) -> &MmuConfig {
        &self.config
    }

    /// Looks a data address up in the first level. A hit counts as used.
    #[inline(always)]
    pub fn l1_data(&mut self, va: u64, asid: u16) -> Option<(u64, u64)> {
        if va & self.last.mask == self.last.base {
            let last = self.last;
            return Some(((last.entry & bits::FRAME) | (va & !last.mask), last.entry));
        }
        for tlb in &mut self.l1d {
            if let Some((size, entry)) = tlb.get_page(va, asid) {
                let mask = !(size.bytes() - 1);
                self.last = Last {
                    base: va & mask,
                    mask,
                    entry,
                };
                return Some(((entry & bits::FRAME) | (va & !mask), entry));
            }
        }
        None
    }

    /// Looks a fetch address up in the first level.
    #[inline]
    pub fn l1_fetch(&mut self, va: u64, asid: u16) -> Option<(u64, u64)> {
        for tlb in &mut self.l1i {
            if let Some((size, entry)) = tlb.get_page(va, asid) {
                return Some(((entry & bits::FRAME) | (va & (size.bytes() - 1)), entry));
            }
        }
        None
    }

    /// Installs a translation in the first level. A size that no array holds (2 MB in an I-TLB
    /// without such entries, say) is cut down to the 4 KB page around `va`.
    #[inline(always)]
    pub fn l1_install(&mut self, va: u64, asid: u16, fetch: bool, fill: &Fill) -> u64 {
        let arrays = if fetch { &mut self.l1i } else { &mut self.l1d };
        let holds = |t: &&mut Tlb| t.holds(fill.size);
        let (size, entry) = (fill.size, fill.entry);
        if let Some(tlb) = arrays.iter_mut().find(holds) {
            tlb.put_new(size as u8, index_of(va, size.shift()), asid, entry);
            if !fetch {
                let mask = !(size.bytes() - 1);
                self.last = Last {
                    base: va & mask,
                    mask,
                    entry,
                };
            }
            return (entry & bits::FRAME & !(size.bytes() - 1)) | (va & (size.bytes() - 1));
        }
        let entry = fragment(entry, va, size, PageSize::K4);
        if let Some(tlb) = arrays.iter_mut().find(|t| t.holds(PageSize::K4)) {
            tlb.put(0, index_of(va, 12), asid, entry);
        }
        self.last = NO_LAST;
        (entry & bits::FRAME) | (va & 0xfff)
    }

    /// Looks for a page of any size in the second level.
    #[inline(always)]
    pub fn l2_page(&mut self, va: u64, asid: u16) -> Option<(PageSize, u64)> {
        for tlb in &mut self.l2 {
            if let Some(found) = tlb.get_page(va, asid) {
                return Some(found);
            }
        }
        None
    }

    /// Installs a page that the second level was asked for in vain, if it holds that size.
    #[inline(always)]
    pub fn l2_install(&mut self, va: u64, asid: u16, size: PageSize, entry: u64) {
        if let Some(tlb) = self.l2.iter_mut().find(|t| t.holds(size)) {
            tlb.put_new(size as u8, index_of(va, size.shift()), asid, entry);
        }
    }

    /// The second-level array that holds pages of `size`: where a scheme keeps further kinds of
    /// entries. None if there is no such array.
    #[inline]
    pub fn l2_array(&mut self, size: PageSize) -> Option<&mut Tlb> {
        self.l2.iter_mut().find(|t| t.holds(size))
    }

    /// Walks a page table from the deepest page-walk-cache hit down to its leaf, every reference
    /// through `port`. `now` is when the walker has started.
    ///
    /// # Errors
    /// If the walk ends at an entry that is not present.
    #[inline(always)]
    pub fn walk<P: Port + ?Sized>(
        &mut self,
        space: &mut Space,
        va: u64,
        asid: u16,
        now: u64,
        port: &mut P,
    ) -> Result<Walked, Fault> {
        if !space.table.is_canonical(va) {
            return Err(Fault::NotPresent);
        }
        let mut time = now + self.pwc_time;
        let cached = self.pwc.deepest(va, asid, 2);
        self.stats.pwc_hits[cached.map_or(0, |(level, _)| level as usize)] += 1;
        let mut trajectory = 0u64;
        let mut refs = 0;
        let stats = &mut self.stats;
        let Reached { entry, level, node } = descend(
            &space.table,
            &mut self.pwc,
            (va, asid),
            cached,
            0,
            |pa, level| {
                let (answered, hit) = port.read(pa, time);
                time = answered;
                trajectory = trajectory << 3 | hit as u64;
                stats.refs_by_level[level as usize] += 1;
                stats.refs_by_hit[hit as usize] += 1;
                refs += 1;
                Ok(())
            },
        )?;
        if entry & bits::ACCESSED == 0 && entry & bits::PERFORATED == 0 {
            space.table.set_bits(node, va, level, bits::ACCESSED);
        }
        self.stats.trajectory(trajectory);
        self.stats.longest_walk_refs = self.stats.longest_walk_refs.max(refs);
        Ok(Walked {
            entry,
            level,
            node,
            refs,
            done: time,
        })
    }

    /// Applies one invalidation for one address space to everything in this module.
    pub fn invalidate(&mut self, inval: &Inval, asid: u16) {
        self.stats.invalidations += 1;
        self.last = NO_LAST;
        match *inval {
            Inval::Page { va, size } => {
                let base = index_of(va, size.shift());
                for tlb in self.l1d.iter_mut().chain(&mut self.l1i).chain(&mut self.l2) {
                    tlb.drop_entry(size as u8, base, asid);
                    if size == PageSize::K4 {
                        tlb.drop_entry(kind::COALESCED, index_of(va, 15), asid);
                    } else {
                        // Fragments cut from the page, if any level cannot hold its size.
                        drop_range(tlb, va, size, asid);
                    }
                }
                self.pwc.flush(Some(asid));
            }
            Inval::Holes { va } => {
                for tlb in self.l1d.iter_mut().chain(&mut self.l1i).chain(&mut self.l2) {
                    tlb.drop_entry(PageSize::K4 as u8, index_of(va, 12), asid);
                    tlb.drop_entry(kind::PERFORATED, index_of(va, 21), asid);
                    tlb.drop_entry(kind::BITMAP, index_of(va, 18), asid);
                }
            }
            Inval::Space | Inval::Segment => self.flush(Some(asid)),
        }
    }

    /// Forgets all entries of an address space, or all.
    pub fn flush(&mut self, asid: Option<u16>) {
        self.last = NO_LAST;
        for tlb in self.l1d.iter_mut().chain(&mut self.l1i).chain(&mut self.l2) {
            tlb.assoc
                .retain(|key, _| asid.is_some_and(|asid| asid_of(key) != asid));
        }
        self.pwc.flush(asid);
    }

    /// Drops the whole-page entries of one size around `va`, in both levels.
    pub fn drop_page(&mut self, va: u64, size: PageSize, asid: u16) {
        self.last = NO_LAST;
        for tlb in self.l1d.iter_mut().chain(&mut self.l2) {
            tlb.drop_entry(size as u8, index_of(va, size.shift()), asid);
        }
    }

    /// Called when another address space becomes current.
    pub fn switched(&mut self) {
        self.last = NO_LAST;
    }
}

/// Drops every entry, of any kind but whole pages of `size`, that lies inside the page at `va`.
fn drop_range(tlb: &mut Tlb, va: u64, size: PageSize, asid: u16) {
    if tlb.seen & !(1 << size as u8) == 0 {
        return;
    }
    let page = index_of(va, size.shift());
    tlb.assoc.retain(|key, _| {
        let index = key >> 16;
        let shift = match (key & 15) as u8 {
            0 => 12,
            1 | kind::PERFORATED => 21,
            2 => 30,
            kind::BITMAP => 18,
            _ => return asid_of(key) != asid,
        };
        asid_of(key) != asid || shift > size.shift() || index >> (size.shift() - shift) != page
    });
}

/// The part of a larger entry that maps the `to`-sized page around `va`.
#[inline]
pub fn fragment(entry: u64, va: u64, from: PageSize, to: PageSize) -> u64 {
    let inside = va & (from.bytes() - 1) & !(to.bytes() - 1);
    let base = entry & bits::FRAME & !(from.bytes() - 1);
    (entry & bits::RIGHTS) | (base + inside)
}

/// What a TLB keeps of a leaf entry.
#[inline(always)]
pub fn tlb_entry(entry: u64, level: u8) -> u64 {
    entry & (bits::RIGHTS | (bits::FRAME & !((1 << level_shift(level)) - 1)))
}
