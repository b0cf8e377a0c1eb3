// SPDX-License-Identifier: MIT OR Apache-2.0
//! One TLB array at work.

use super::ask::Pages;
use super::associative::AssocArray;
use super::geometry::Geometry;
use super::key::{asid_of, index_of, key_of, kind, kind_of, number_of};
use crate::error::ConfigError;
use crate::table::entry::{PageSize, bits};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One TLB array and the page sizes it holds. A size in no array of the second level is not cached
/// there; of one in no array of a first level, the 4 KB around an address are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlbArray {
    /// Page sizes that share the array, each indexed by its own page number.
    pub sizes: Vec<PageSize>,
    /// Page sizes that it holds in pieces, with the size of these: an entry for each piece that was
    /// asked for, as hardware keeps large pages in arrays of 4 KB entries.
    #[serde(default)]
    pub pieces: BTreeMap<PageSize, PageSize>,
    /// Entries, ways and replacement.
    pub geometry: Geometry,
}

impl TlbArray {
    /// An array for the given sizes.
    pub fn new(sizes: &[PageSize], geometry: Geometry) -> Self {
        TlbArray {
            sizes: sizes.to_vec(),
            pieces: BTreeMap::new(),
            geometry,
        }
    }

    /// Of the arrays of a level: the first that says of a page size that it holds it in pieces and
    /// cannot, by its number, with that size and with what would be valid.
    pub fn wrong_pieces(arrays: &[TlbArray]) -> Option<(usize, PageSize, String)> {
        let holds = |array: &TlbArray, size| {
            array.sizes.contains(&size) || array.pieces.contains_key(&size)
        };
        let wrong = |number: usize, page: PageSize, piece: PageSize| {
            let (name, size) = (page.name(), piece.name());
            if piece >= page {
                return Some(format!("pieces of {size}; valid: smaller ones than {name}"));
            }
            if !arrays[number].sizes.contains(&piece) {
                return Some(format!("pieces of {size}; valid: one of the array's sizes"));
            }
            let mut others = arrays.iter().enumerate().filter(|(at, _)| *at != number);
            let other = match arrays[number].sizes.contains(&page) {
                true => Some(number),
                false => others
                    .find(|(_, array)| holds(array, page))
                    .map(|(at, _)| at),
            };
            other.map(|at| {
                let valid = "valid: each size in one array of a level, whole or in pieces";
                format!("{name} pages are held by array {at} already; {valid}")
            })
        };
        let pieces = |(number, array): (usize, &TlbArray)| {
            let mut all = array.pieces.iter();
            all.find_map(|(&page, &piece)| Some((number, page, wrong(number, page, piece)?)))
        };
        arrays.iter().enumerate().find_map(pieces)
    }
}

/// One TLB array: which sizes it holds and which have been seen, so that a look-up skips the rest.
#[derive(Clone, Debug)]
pub struct Tlb {
    assoc: AssocArray,
    /// Bit per page size it is for.
    sizes: u8,
    /// The size of the pieces that it holds pages of each size in.
    pieces: [Option<PageSize>; 3],
    /// Bit per kind of entry ever put in; others cannot hit.
    seen: u16,
    /// Whether an entry was ever put in that a write cannot use as it is.
    clean: bool,
}

/// Whether a write can use an entry as it is: it has the right to, and the dirty bit is set.
#[inline(always)]
pub(crate) fn writable(entry: u64) -> bool {
    let needs = bits::WRITE | bits::DIRTY;
    entry & needs == needs
}

impl Tlb {
    /// An empty array; `what` names it in messages.
    pub(crate) fn new(array: &TlbArray, what: &str) -> Result<Self, ConfigError> {
        let bits = array.sizes.iter().map(|&size| 1 << size as u8);
        Ok(Tlb {
            assoc: AssocArray::new(array.geometry, what)?,
            sizes: bits.fold(0, |all, bit: u8| all | bit),
            pieces: PageSize::ALL.map(|size| array.pieces.get(&size).copied()),
            seen: 0,
            clean: false,
        })
    }

    /// Whether it is for pages of `size`.
    #[inline(always)]
    pub(crate) fn holds(&self, size: PageSize) -> bool {
        self.sizes >> size as u8 & 1 != 0
    }

    /// The size of the pieces that it holds pages of `size` in, if it does.
    #[inline]
    pub(crate) fn piece_of(&self, size: PageSize) -> Option<PageSize> {
        self.pieces[size as usize]
    }

    /// Holds what no array of a first level does in pieces of 4 KB, if it is for these.
    pub(crate) fn take_rest(tlbs: &mut [Tlb]) {
        for size in [PageSize::M2, PageSize::G1] {
            let has_place = |tlb: &Tlb| tlb.holds(size) || tlb.piece_of(size).is_some();
            if !tlbs.iter().any(has_place)
                && let Some(tlb) = tlbs.iter_mut().find(|tlb| tlb.holds(PageSize::K4))
            {
                tlb.pieces[size as usize] = Some(PageSize::K4);
            }
        }
    }

    /// Of the arrays of a level, that which holds pages of `size` in pieces, and their size.
    #[inline]
    pub(crate) fn in_pieces(tlbs: &mut [Tlb], size: PageSize) -> Option<(&mut Tlb, PageSize)> {
        tlbs.iter_mut().find_map(|tlb| {
            let piece = tlb.piece_of(size)?;
            Some((tlb, piece))
        })
    }

    /// Whether each use of an entry counts.
    #[inline(always)]
    pub(crate) fn counts_uses(&self) -> bool {
        self.assoc.counts_uses()
    }

    /// Bit per page size that was ever put in and is looked for.
    pub(super) fn seen_pages(&self) -> u8 {
        self.sizes & self.seen as u8
    }

    /// Bit per page size it is for.
    pub(crate) fn sizes(&self) -> u8 {
        self.sizes
    }

    /// Whether it may hold entries that a write cannot use as they are.
    pub(crate) fn has_clean(&self) -> bool {
        self.clean
    }

    /// What it holds under a key.
    pub(crate) fn peek(&self, key: u64) -> Option<u64> {
        self.assoc.peek(number_of(key), key)
    }

    /// Asks for the pages whose bit is set in `heads`, in their order, puts in what is not held,
    /// and returns which that was.
    pub(crate) fn ask(&mut self, heads: u64, pages: &Pages) -> u64 {
        self.assoc.ask(heads, heads, pages)
    }

    /// Notes that pages of these sizes, a bit each, have been put in; `clean`: a write cannot use
    /// one of them as it is.
    pub(crate) fn note(&mut self, sizes: u8, clean: bool) {
        debug_assert!(
            sizes & !self.sizes == 0,
            "sizes {sizes:#b} of {:#b}",
            self.sizes
        );
        self.seen |= u16::from(sizes);
        self.clean |= clean;
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

    /// Looks for the coalesced entry that holds page `page` of a group: that of a run which begins
    /// there or before, and for which `holds(value)` is true. Entries of other runs of the group
    /// stay as recently used as they were: their tags match and their valid bits do not.
    pub(crate) fn get_run(
        &mut self,
        group: u64,
        page: u8,
        asid: u16,
        holds: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        if self.seen >> kind::COALESCED == 0 {
            return None;
        }
        let key = |first: u8| key_of(group, asid, kind::COALESCED + first);
        let found = (0..=page).rev().find(|&first| {
            let value = self.assoc.peek(group, key(first));
            value.is_some_and(&holds)
        })?;
        self.get(kind::COALESCED + found, group, asid)
    }

    /// Drops all coalesced entries of a group.
    pub(crate) fn drop_runs(&mut self, group: u64, asid: u16) {
        if self.seen >> kind::COALESCED != 0 {
            for first in 0..kind::RUNS {
                self.drop_entry(kind::COALESCED + first, group, asid);
            }
        }
    }

    /// Puts an entry of a kind in.
    #[inline(always)]
    pub fn put(&mut self, kind: u8, index: u64, asid: u16, value: u64) {
        self.seen |= 1 << kind;
        self.clean |= !writable(value);
        self.assoc.insert(index, key_of(index, asid, kind), value);
    }

    /// As [`put`](Self::put), for an entry just looked for in vain.
    #[inline(always)]
    pub(crate) fn put_new(&mut self, kind: u8, index: u64, asid: u16, value: u64) {
        self.seen |= 1 << kind;
        self.clean |= !writable(value);
        self.assoc
            .insert_new(index, key_of(index, asid, kind), value);
    }

    /// Looks for a page of any size around `va`.
    #[inline(always)]
    pub(crate) fn get_page(&mut self, va: u64, asid: u16) -> Option<(PageSize, u64)> {
        let mut present = self.seen_pages();
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

    /// Drops one entry; true if it was held.
    pub fn drop_entry(&mut self, kind: u8, index: u64, asid: u16) -> bool {
        self.assoc.remove(index, key_of(index, asid, kind))
    }

    /// Drops every entry, of any kind but whole pages of `size`, that lies inside the page at
    /// `va`: what other sizes and schemes have cut from that page.
    pub(crate) fn drop_inside(&mut self, va: u64, size: PageSize, asid: u16) {
        if self.seen & !(1 << size as u16) == 0 {
            return;
        }
        let page = index_of(va, size.shift());
        self.assoc.retain(|key, _| {
            let shift = match kind_of(key) {
                0 => 12,
                1 | kind::PERFORATED => 21,
                2 => 30,
                kind::BITMAP => 18,
                _ => return asid_of(key) != asid,
            };
            let outside =
                || shift > size.shift() || number_of(key) >> (size.shift() - shift) != page;
            asid_of(key) != asid || outside()
        });
    }

    /// Keeps the entries for which `keep(asid, value)` is true.
    pub(crate) fn retain(&mut self, keep: impl Fn(u16, u64) -> bool) {
        self.assoc.retain(|key, value| keep(asid_of(key), value));
    }

    /// Forgets all entries of an address space, or all.
    pub(crate) fn flush(&mut self, asid: Option<u16>) {
        self.assoc
            .retain(|key, _| asid.is_some_and(|asid| asid_of(key) != asid));
    }
}
