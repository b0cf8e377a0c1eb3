// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way of a batch through the hardware, array by array.

use super::batch::{Batch, FEW, ones, word_of};
use super::tally::{DATA, FETCH, KINDS, Tally, WATCHED};
use crate::mmu::{Arrays, Mmu};
use crate::os::space::Space;
use crate::table::entry::{PageSize, level_shift};
use crate::table::page_table::PageTable;
use crate::tlb::array::Tlb;
use crate::tlb::ask::Pages;
use crate::tlb::associative::AssocArray;
use crate::walk::cache::{WalkCache, key_at};

/// Walks after which all entries have mostly been met.
const MET: u32 = 6;

/// Takes a batch through first level, second level and page-walk caches; returns how many heads
/// missed the first.
pub(super) fn run(mmu: &mut Mmu, space: &Space, batch: &Batch, tally: &mut Tally) -> u32 {
    let watched = mmu.watched.clone();
    let Arrays { l1d, l1i, l2, pwc } = mmu.arrays();
    let (heads, fetches) = (batch.heads(), batch.fetches);
    let missed_data = ask(l1d, batch, heads & !fetches);
    let missed_fetches = ask(l1i, batch, fetches);
    let missed = missed_data | missed_fetches;
    let walks = ask(l2, batch, missed);
    if walks != 0 {
        let seen = |&head: &usize| watched.contains(&batch.va[head]);
        let watched = match watched.is_empty() {
            true => 0,
            false => word_of(ones(walks & !fetches).filter(seen)),
        };
        let mut kinds = [0; KINDS];
        kinds[DATA] = walks & !fetches & !watched;
        kinds[FETCH] = walks & fetches;
        kinds[WATCHED] = watched;
        let walk = Walks {
            batch,
            walks,
            kinds,
            table: &space.table,
            asid: space.asid,
        };
        match pwc.per_level() {
            Some(arrays) => walk.by_level(arrays, tally),
            None => walk.one_by_one(pwc, tally),
        }
    }
    let count = |heads: u64| u64::from(heads.count_ones());
    tally.missed_data += count(missed_data);
    tally.missed_fetches += count(missed_fetches);
    tally.second_hits += count(missed & !walks);
    missed.count_ones()
}

/// The highest bit that is set, of a word that is not 0.
#[inline(always)]
fn last_of(word: u64) -> usize {
    63 - word.leading_zeros() as usize
}

/// Asks the arrays of a level for heads of a batch; returns those that they did not hold, which
/// they do now if one of them is for their size.
fn ask(tlbs: &mut [Tlb], batch: &Batch, heads: u64) -> u64 {
    let (mut left, mut missed) = (heads, 0);
    for tlb in tlbs {
        if left == 0 {
            break;
        }
        let (mut its, mut sizes) = (0, 0);
        for size in PageSize::ALL {
            let of_size = batch.sizes[size as usize] & left;
            if tlb.holds(size) && of_size != 0 {
                (its, sizes) = (its | of_size, sizes | 1 << size as u8);
            }
        }
        if its != 0 {
            let new = tlb.ask(its, &batch.pages);
            tlb.note(sizes, new & batch.clean != 0);
            (left, missed) = (left & !its, missed | new);
        }
    }
    missed | left
}

/// Walks of some heads of a batch. What they read is known; what counts is where they start.
struct Walks<'a> {
    batch: &'a Batch,
    walks: u64,
    /// Which of them are of each kind.
    kinds: [u64; KINDS],
    table: &'a PageTable,
    asid: u16,
}

impl Walks<'_> {
    /// The node behind the entry of `level` on the way of a head.
    #[inline(always)]
    fn child(&self, head: usize, level: u8) -> u32 {
        match self.batch.level[head] + 1 == level {
            true => self.batch.node(head),
            false => self.table.node_at(self.batch.va[head], level - 1),
        }
    }

    /// Through caches of which each is for one level.
    fn by_level(&self, arrays: &mut [AssocArray], tally: &mut Tally) {
        // Those that no array has answered yet pass all levels so far, down to their leaves.
        let (mut open, mut above, mut entries) = (self.walks, 0, Pages::new());
        for (level, array) in (2..).zip(arrays) {
            above |= self.batch.sizes.get(usize::from(level) - 2).unwrap_or(&0);
            let puts = open & above;
            let missed = match level > 2 && self.all_held(array, level) {
                true => 0,
                false => {
                    self.name(level, puts, &mut entries);
                    array.ask(self.walks, puts, &entries)
                }
            };
            self.started(level - 1, open & !missed, tally);
            open &= missed;
        }
        self.started(self.table.levels(), open, tally);
    }

    /// What to ask the array of a level for, and what to put in.
    fn name(&self, level: u8, puts: u64, entries: &mut Pages) {
        let Pages { keys, values } = entries;
        let count = self.batch.heads().count_ones() as usize;
        for (key, &va) in keys.iter_mut().zip(&self.batch.va[..count]) {
            (_, *key) = key_at(va, self.asid, level);
        }
        match level {
            // Below it are leaves alone.
            2 => (0..count).for_each(|head| values[head] = u64::from(self.batch.node(head))),
            _ => ones(puts).for_each(|head| values[head] = u64::from(self.child(head, level))),
        }
    }

    /// Asks an array whose level has few entries on the ways of all walks: if it holds them, what
    /// counts is in which order they were used last. False, and nothing asked, otherwise.
    fn all_held(&self, array: &mut AssocArray, level: u8) -> bool {
        let shift = level_shift(level);
        let part = |head: usize| self.batch.va[head] >> shift;
        let mut left = match level > 3 && self.batch.one_region {
            true => self.walks & self.walks.wrapping_neg(),
            false => self.walks,
        };
        // Parts in the order of their last uses, the latest first, and more often to fill it.
        let last = last_of(left);
        let (mut latest, mut count) = ([part(last); FEW], 1);
        left ^= 1 << last;
        let (mut tried, mut is_new, quick) = (1, true, self.batch.tells_quickly(level));
        while left != 0 {
            let asks = tried == MET || is_new && quick;
            if asks && self.batch.all_among(latest, level) {
                break;
            }
            let head = last_of(left);
            left ^= 1 << head;
            tried += 1;
            is_new = !latest.contains(&part(head));
            if is_new {
                if count == FEW {
                    return false;
                }
                latest[count] = part(head);
                count += 1;
            }
        }
        let place = |part: u64| key_at(part << shift, self.asid, level);
        let held = |&part: &u64| {
            let (index, key) = place(part);
            array.peek(index, key).is_some()
        };
        let latest = &latest[..count];
        if !latest.iter().all(held) {
            return false;
        }
        for &part in latest.iter().rev() {
            let (index, key) = place(part);
            array.lookup(index, key);
        }
        true
    }

    /// Counts walks by the level of their first reference, and their last.
    fn started(&self, from: u8, heads: u64, tally: &mut Tally) {
        for size in PageSize::ALL {
            let heads = heads & self.batch.sizes[size as usize];
            if heads == 0 {
                continue;
            }
            debug_assert!(from >= size.level(), "a node below a leaf");
            for (kind, its) in self.kinds.into_iter().enumerate() {
                // Most kinds have none, and to count bits takes long.
                if heads & its != 0 {
                    let count = (heads & its).count_ones();
                    tally.walked(kind, (from, size.level()), u64::from(count));
                }
            }
        }
    }

    /// Through one cache for all levels, in which each walk meets what the one before has left.
    fn one_by_one(&self, cache: &mut WalkCache, tally: &mut Tally) {
        for head in ones(self.walks) {
            let (va, leaf) = (self.batch.va[head], self.batch.level[head]);
            let cached = cache.deepest(va, self.asid, 2);
            let from = cached.map_or(self.table.levels(), |(level, _)| level - 1);
            for level in (leaf + 1..=from).rev() {
                cache.insert(va, self.asid, level, self.child(head, level));
            }
            self.started(from, 1 << head, tally);
        }
    }
}
