// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entries on their way into the first level.
//!
//! A translation that misses is not there before its look-up in the second level or its walk is
//! over. Until then the entry that it replaces still answers, and another access to its page waits
//! for it: that is no miss of its own.

use crate::table::entry::{PageSize, bits};
use crate::tlb::key::index_of;
use ample_kit::random::mix64;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Places, by a hash of the page. Where two want one, the older entry arrives early: a core with
/// that many misses under way would wait for the first of them.
const PLACES: usize = 64;

/// An entry on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) va: u64,
    pub(crate) asid: u16,
    pub(crate) fetch: bool,
    pub(crate) size: PageSize,
    pub(crate) entry: u64,
    /// When it is there.
    pub(crate) at: u64,
}

impl Arrival {
    /// Where an address that the entry translates lies.
    #[inline(always)]
    pub(crate) fn pa(&self, va: u64) -> u64 {
        let inside = self.size.bytes() - 1;
        (self.entry & bits::FRAME & !inside) | (va & inside)
    }
}

/// All entries on their way.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    places: Box<[Option<Arrival>; PLACES]>,
    /// Times with places; those whose place has another time are over.
    times: BinaryHeap<Reverse<(u64, usize)>>,
    /// Entries of each size.
    counts: [u32; 3],
}

impl Arrivals {
    pub(crate) fn new() -> Self {
        Arrivals {
            places: Box::new([None; PLACES]),
            times: BinaryHeap::new(),
            counts: [0; 3],
        }
    }

    pub(super) fn place(va: u64, size: PageSize, fetch: bool) -> usize {
        let page = index_of(va, size.shift());
        mix64(page << 3 | (size as u64) << 1 | u64::from(fetch)) as usize % PLACES
    }

    /// When the next entry arrives; the end of time where none is on its way.
    #[inline(always)]
    pub(crate) fn next(&self) -> u64 {
        self.times.peek().map_or(u64::MAX, |Reverse((at, _))| *at)
    }

    /// The entry on its way that translates an address.
    #[inline(always)]
    pub(crate) fn find(&self, va: u64, asid: u16, fetch: bool) -> Option<Arrival> {
        PageSize::ALL
            .into_iter()
            .filter(|size| self.counts[*size as usize] > 0)
            .find_map(|size| {
                let found = self.places[Self::place(va, size, fetch)]?;
                let same = index_of(found.va, size.shift()) == index_of(va, size.shift());
                let is = found.size == size && found.fetch == fetch && found.asid == asid;
                (same && is).then_some(found)
            })
    }

    /// Sends an entry on its way; the one that it takes the place of arrives now.
    pub(crate) fn add(&mut self, arrival: Arrival) -> Option<Arrival> {
        let place = Self::place(arrival.va, arrival.size, arrival.fetch);
        self.counts[arrival.size as usize] += 1;
        self.times.push(Reverse((arrival.at, place)));
        let old = self.places[place].replace(arrival);
        if let Some(old) = old {
            self.counts[old.size as usize] -= 1;
        }
        old
    }

    /// Takes the next entry that has arrived by `now`, in the order of their times.
    pub(crate) fn take(&mut self, now: u64) -> Option<Arrival> {
        while self.next() <= now {
            let Reverse((at, place)) = self.times.pop()?;
            if self.places[place].is_some_and(|arrival| arrival.at == at) {
                let arrival = self.places[place].take()?;
                self.counts[arrival.size as usize] -= 1;
                return Some(arrival);
            }
        }
        None
    }
}
