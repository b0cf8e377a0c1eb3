// SPDX-License-Identifier: MIT OR Apache-2.0
//! The translation hardware of one core: TLBs, page-walk caches and the walker. Schemes build
//! their look-up paths from these parts.

use crate::config::MmuConfig;
use crate::error::ConfigError;
use crate::os::space::{Inval, Space};
use crate::stats::TranslationStats;
use crate::table::entry::{PageSize, bits, fragment};
use crate::tlb::array::{Tlb, TlbArray};
use crate::tlb::arrivals::{Arrival, Arrivals};
use crate::tlb::key::{index_of, kind};
use crate::walk::cache::WalkCache;
use crate::walk::descent::Fault;
use crate::walk::native::{self, Walked};
use crate::walk::port::Port;

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

/// The arrays that an access through plain paging meets.
pub(crate) struct Arrays<'a> {
    pub(crate) l1d: &'a mut [Tlb],
    pub(crate) l1i: &'a mut [Tlb],
    pub(crate) l2: &'a mut [Tlb],
    pub(crate) pwc: &'a mut WalkCache,
}

/// The translation hardware of one core at work.
#[derive(Clone, Debug)]
pub struct Mmu {
    l1d: Vec<Tlb>,
    l1i: Vec<Tlb>,
    l2: Vec<Tlb>,
    pub(crate) pwc: WalkCache,
    last: Last,
    /// As [`whole_sizes`](Self::whole_sizes) has them.
    whole: [u8; 2],
    arrivals: Arrivals,
    /// Time units of an L2 TLB look-up.
    pub l2_time: u64,
    /// Time units of a page-walk-cache look-up.
    pub pwc_time: u64,
    /// Time units of the walker for each reference.
    pub(crate) reference_time: u64,
    /// What has happened so far.
    pub stats: TranslationStats,
    /// Walks to data addresses in this range are counted apart.
    pub watched: std::ops::Range<u64>,
    config: MmuConfig,
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
        let (mut l1d, mut l1i) = (
            build(&config.l1d, "L1 D-TLB")?,
            build(&config.l1i, "L1 I-TLB")?,
        );
        Tlb::take_rest(&mut l1d);
        Tlb::take_rest(&mut l1i);
        let l2 = build(&config.l2, "L2 TLB")?;
        let is_cut = |size: &PageSize| l2.iter().any(|tlb| tlb.piece_of(*size).is_some());
        let cut = PageSize::ALL.into_iter().filter(is_cut);
        let cut = cut.fold(0, |all, size| all | 1 << size as u8);
        let sizes = |tlbs: &[Tlb]| tlbs.iter().fold(0, |all, tlb| all | tlb.sizes());
        Ok(Mmu {
            whole: [&l1d, &l1i].map(|tlbs| sizes(tlbs) & !cut),
            l1d,
            l1i,
            l2,
            pwc: WalkCache::new(&config.pwc, config.levels)?,
            last: NO_LAST,
            arrivals: Arrivals::new(),
            l2_time: u64::from(config.l2_cycles) * units_per_cycle,
            pwc_time: u64::from(config.pwc_cycles) * units_per_cycle,
            reference_time: u64::from(config.reference_cycles) * units_per_cycle,
            stats: TranslationStats::default(),
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

    /// The page that holds a data address just translated, as its first address and, below, the
    /// bits of its offset. The 4 KB page where no first-level entry answered.
    #[inline(always)]
    pub fn page_of(&self, va: u64) -> (u64, u32) {
        match va & self.last.mask == self.last.base {
            true => (self.last.base, self.last.mask.trailing_zeros()),
            false => (va & !0xfff, 12),
        }
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

    /// Installs a translation in the first level. Of a size that no array holds whole (2 MB in an
    /// I-TLB without such entries, say) it gets the piece around `va`.
    #[inline(always)]
    pub fn l1_install(&mut self, va: u64, asid: u16, fetch: bool, fill: &Fill) -> u64 {
        let arrays = if fetch { &mut self.l1i } else { &mut self.l1d };
        let holds = |t: &&mut Tlb| t.holds(fill.size);
        let (size, entry) = (fill.size, fill.entry);
        if let Some(tlb) = arrays.iter_mut().find(holds) {
            tlb.put_new(size as u8, index_of(va, size.shift()), asid, entry);
            if !fetch {
                let mask = !(size.bytes() - 1);
                let base = va & mask;
                // Where each use counts, the next one has to be looked up.
                self.last = match tlb.counts_uses() {
                    false => Last { base, mask, entry },
                    true => NO_LAST,
                };
            }
            return (entry & bits::FRAME & !(size.bytes() - 1)) | (va & (size.bytes() - 1));
        }
        self.last = NO_LAST;
        let Some((tlb, piece)) = Tlb::in_pieces(arrays, size) else {
            return (fragment(entry, va, size, PageSize::K4) & bits::FRAME) | (va & 0xfff);
        };
        let entry = fragment(entry, va, size, piece);
        tlb.put(piece as u8, index_of(va, piece.shift()), asid, entry);
        (entry & bits::FRAME) | (va & (piece.bytes() - 1))
    }

    /// Sends a translation on its way to the first level, where it is from `fill.done` on.
    pub(crate) fn l1_send(&mut self, va: u64, asid: u16, fetch: bool, fill: &Fill) -> u64 {
        let arrays = if fetch { &self.l1i } else { &self.l1d };
        let (size, entry) = match arrays.iter().any(|tlb| tlb.holds(fill.size)) {
            true => (fill.size, fill.entry),
            false => {
                let piece = arrays.iter().find_map(|tlb| tlb.piece_of(fill.size));
                let piece = piece.unwrap_or(PageSize::K4);
                (piece, fragment(fill.entry, va, fill.size, piece))
            }
        };
        let arrival = Arrival {
            va,
            asid,
            fetch,
            size,
            entry,
            at: fill.done,
        };
        if let Some(early) = self.arrivals.add(arrival) {
            self.l1_arrived(&early);
        }
        arrival.pa(va)
    }

    /// The entry on its way to the first level that translates an address.
    #[inline(always)]
    pub(crate) fn coming(&self, va: u64, asid: u16, fetch: bool) -> Option<Arrival> {
        self.arrivals.find(va, asid, fetch)
    }

    /// Takes in what has arrived by `now`.
    #[inline(always)]
    pub(crate) fn arrive(&mut self, now: u64) {
        if self.arrivals.next() <= now {
            self.take_arrivals(now);
        }
    }

    #[inline(never)]
    fn take_arrivals(&mut self, now: u64) {
        while let Some(arrival) = self.arrivals.take(now) {
            self.l1_arrived(&arrival);
        }
    }

    /// An entry is the latest of its set, whatever was used last.
    fn l1_arrived(&mut self, arrival: &Arrival) {
        let Arrival {
            va,
            asid,
            size,
            entry,
            ..
        } = *arrival;
        self.last = NO_LAST;
        let arrays = match arrival.fetch {
            true => &mut self.l1i,
            false => &mut self.l1d,
        };
        if let Some(tlb) = arrays.iter_mut().find(|tlb| tlb.holds(size)) {
            tlb.put_new(size as u8, index_of(va, size.shift()), asid, entry);
        }
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

    /// Installs a page that the second level was asked for in vain, or the piece of it around
    /// `va`, if it holds that size.
    #[inline(always)]
    pub fn l2_install(&mut self, va: u64, asid: u16, size: PageSize, entry: u64) {
        if let Some(tlb) = self.l2.iter_mut().find(|t| t.holds(size)) {
            tlb.put_new(size as u8, index_of(va, size.shift()), asid, entry);
        } else if let Some((tlb, piece)) = Tlb::in_pieces(&mut self.l2, size) {
            let entry = fragment(entry, va, size, piece);
            tlb.put_new(piece as u8, index_of(va, piece.shift()), asid, entry);
        }
    }

    /// The second-level array that holds pages of `size`: where a scheme keeps further kinds of
    /// entries. None if there is no such array.
    #[inline]
    pub fn l2_array(&mut self, size: PageSize) -> Option<&mut Tlb> {
        self.l2.iter_mut().find(|t| t.holds(size))
    }

    /// Walks the page table of `space` as `native::walk` does, after a look-up of the page-walk
    /// cache. `now` is when the walker has started.
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
        native::walk(
            &mut space.table,
            &mut self.pwc,
            &mut self.stats,
            (va, asid),
            now + self.pwc_time,
            port,
        )
    }

    /// The arrays, to be asked from outside: what was used last is no longer known.
    pub(crate) fn arrays(&mut self) -> Arrays<'_> {
        self.last = NO_LAST;
        Arrays {
            l1d: &mut self.l1d,
            l1i: &mut self.l1i,
            l2: &mut self.l2,
            pwc: &mut self.pwc,
        }
    }

    /// Whether each use of a first-level entry counts, so that the second of two accesses to a page
    /// is one more event.
    pub(crate) fn counts_uses(&self) -> bool {
        self.l1d.iter().chain(&self.l1i).any(Tlb::counts_uses)
    }

    /// The page sizes, a bit each, that the first level holds whole and the second not in pieces:
    /// for data, for fetches.
    pub(crate) fn whole_sizes(&self) -> [u8; 2] {
        self.whole
    }

    /// Whether TLBs for data may hold entries that are older than a dirty bit.
    pub(crate) fn has_clean(&self) -> bool {
        self.l1d.iter().chain(&self.l2).any(Tlb::has_clean)
    }

    /// Whether a TLB for data holds another entry under a key than this.
    pub(crate) fn holds_other(&self, key: u64, entry: u64) -> bool {
        let mut tlbs = self.l1d.iter().chain(&self.l2);
        tlbs.any(|tlb| tlb.peek(key).is_some_and(|held| held != entry))
    }

    /// All TLB arrays.
    fn tlbs(&mut self) -> impl Iterator<Item = &mut Tlb> {
        let first = self.l1d.iter_mut().chain(&mut self.l1i);
        first.chain(&mut self.l2)
    }

    /// Applies one invalidation for one address space to everything in this module.
    pub fn invalidate(&mut self, inval: &Inval, asid: u16) {
        self.stats.invalidations += 1;
        self.settle();
        match *inval {
            Inval::Page { va, size } => {
                self.forget_page(va, size, asid);
                self.pwc.flush(Some(asid));
            }
            Inval::Holes { va } => {
                for tlb in self.tlbs() {
                    tlb.drop_entry(PageSize::K4 as u8, index_of(va, 12), asid);
                    tlb.drop_entry(kind::PERFORATED, index_of(va, 21), asid);
                    tlb.drop_entry(kind::BITMAP, index_of(va, 18), asid);
                }
            }
            Inval::Space | Inval::Segment => self.flush(Some(asid)),
        }
    }

    /// Drops what the TLBs know of one page: its entry, and entries of other kinds made of it.
    pub(crate) fn forget_page(&mut self, va: u64, size: PageSize, asid: u16) {
        self.settle();
        let base = index_of(va, size.shift());
        for tlb in self.tlbs() {
            tlb.drop_entry(size as u8, base, asid);
            if size == PageSize::K4 {
                tlb.drop_runs(index_of(va, 15), asid);
            } else {
                // Fragments cut from the page, if any level cannot hold its size.
                tlb.drop_inside(va, size, asid);
            }
        }
    }

    /// Keeps the TLB entries for which `keep(asid, entry)` is true; page-walk caches stay.
    pub(crate) fn retain(&mut self, keep: impl Fn(u16, u64) -> bool) {
        self.settle();
        self.tlbs().for_each(|tlb| tlb.retain(&keep));
    }

    /// Forgets all entries of an address space, or all.
    pub fn flush(&mut self, asid: Option<u16>) {
        self.settle();
        self.tlbs().for_each(|tlb| tlb.flush(asid));
        self.pwc.flush(asid);
    }

    /// Drops the entries by which a write to `va` was translated, whose dirty bit was not set; what
    /// the I-TLB holds of the page stays.
    pub fn drop_written(&mut self, va: u64, asid: u16) {
        self.stats.invalidations += 1;
        self.settle();
        for tlb in self.l1d.iter_mut().chain(&mut self.l2) {
            for size in PageSize::ALL {
                tlb.drop_entry(size as u8, index_of(va, size.shift()), asid);
            }
            tlb.drop_entry(kind::PERFORATED, index_of(va, 21), asid);
            tlb.drop_entry(kind::BITMAP, index_of(va, 18), asid);
        }
    }

    /// Before entries are dropped: all that are on their way are there, and none was used last.
    fn settle(&mut self) {
        self.arrive(u64::MAX - 1);
        self.last = NO_LAST;
    }

    /// Called when another address space becomes current.
    pub fn switched(&mut self) {
        self.last = NO_LAST;
    }
}
