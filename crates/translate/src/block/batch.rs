// SPDX-License-Identifier: MIT OR Apache-2.0
//! The accesses of a batch that TLBs are asked for, and what the page table says of them.

use crate::engine::Intent;
use crate::mmu::Mmu;
use crate::os::space::Space;
use crate::table::entry::{PageSize, bits, level_shift, tlb_entry};
use crate::table::page_table::{PageTable, ROOT};
use crate::tlb::array::writable;
use crate::tlb::ask::Pages;
use crate::tlb::key::{index_of, key_of};

/// Heads of a batch: a bit of a word each.
const HEADS: usize = 64;

/// Parts of addresses that are told apart at once.
pub(super) const FEW: usize = 4;

/// Accesses in their order. A data access to the 4 KB page of the data access before it, and a
/// fetch from that of the fetch before it, hit the latest entry of the first level and change
/// nothing: of each such run the first access, its head, stands for all.
pub(super) struct Batch {
    /// How many heads it has.
    count: usize,
    /// Accesses that it stands for.
    pub(super) accesses: usize,
    /// Which heads are fetches.
    pub(super) fetches: u64,
    /// Which heads have entries that a write cannot use as they are.
    pub(super) clean: u64,
    /// Which heads lie in pages of each size.
    pub(super) sizes: [u64; 3],
    /// Addresses of the heads.
    pub(super) va: [u64; HEADS],
    /// Numbers of the accesses.
    at: [u16; HEADS],
    /// Places of the leaf entries.
    place: [usize; HEADS],
    /// Which levels they are of, a bit each.
    levels: u32,
    /// Whether the parts of all addresses above level 3 are known to be the same.
    pub(super) one_region: bool,
    /// A bit for each part of the addresses above level 2 modulo 64, or 0 where two may share one.
    gigabytes: u64,
    /// Levels of the leaf entries.
    pub(super) level: [u8; HEADS],
    /// What TLBs keep, under which keys: the leaf entries themselves until they are seen to be
    /// ordinary.
    pub(super) pages: Pages,
}

impl Batch {
    pub(super) fn new() -> Self {
        Batch {
            count: 0,
            accesses: 0,
            fetches: 0,
            clean: 0,
            sizes: [0; 3],
            va: [0; HEADS],
            at: [0; HEADS],
            place: [0; HEADS],
            levels: 0,
            one_region: false,
            gigabytes: 0,
            level: [0; HEADS],
            pages: Pages::new(),
        }
    }

    /// The node that the leaf entry of a head is in.
    #[inline(always)]
    pub(super) fn node(&self, head: usize) -> u32 {
        (self.place[head] >> 9) as u32
    }

    /// A word with the bits of all heads.
    pub(super) fn heads(&self) -> u64 {
        first(self.count)
    }

    /// Takes accesses from the start of a block, as many as it has heads for.
    pub(super) fn gather<A>(&mut self, block: &[A], of: impl Fn(&A) -> (u64, Intent) + Copy) {
        let block = &block[..block.len().min(usize::from(u16::MAX))];
        self.fetches = 0;
        if !self.gather_data(block, of) {
            self.gather_all(block, of);
        }
    }

    /// As [`gather`](Self::gather) where there are no fetches; false if it has met one.
    fn gather_data<A>(&mut self, block: &[A], of: impl Fn(&A) -> (u64, Intent)) -> bool {
        let is_fetch = |intents: u8| intents & Intent::Fetch as u8 != 0;
        let (mut count, mut last, mut intents) = (0, u64::MAX, 0);
        self.accesses = block.len();
        for (at, access) in block.iter().enumerate() {
            let (va, intent) = of(access);
            if va >> 12 != last {
                if count >= HEADS || is_fetch(intents) {
                    self.accesses = at;
                    break;
                }
                last = va >> 12;
                (self.va[count], self.at[count]) = (va, at as u16);
                count += 1;
            }
            // A bit each but for reads: the branch is for heads alone.
            intents |= intent as u8;
        }
        self.count = count;
        !is_fetch(intents)
    }

    fn gather_all<A>(&mut self, block: &[A], of: impl Fn(&A) -> (u64, Intent)) {
        let (mut count, mut fetches) = (0, 0);
        let (mut data, mut fetched) = (u64::MAX, u64::MAX);
        self.accesses = block.len();
        for (at, access) in block.iter().enumerate() {
            let (va, intent) = of(access);
            let is_fetch = intent == Intent::Fetch;
            let last = if is_fetch { &mut fetched } else { &mut data };
            if *last != va >> 12 {
                if count == HEADS {
                    self.accesses = at;
                    break;
                }
                *last = va >> 12;
                (self.va[count], self.at[count]) = (va, at as u16);
                fetches |= u64::from(is_fetch) << count;
                count += 1;
            }
        }
        (self.count, self.fetches) = (count, fetches);
    }

    /// Whether [`all_among`](Self::all_among) takes a few instructions for a level.
    pub(super) fn tells_quickly(&self, level: u8) -> bool {
        level == 3 && self.gigabytes != 0
    }

    /// Whether the part of each address above an entry of `level`, 3 or higher, is one of these.
    pub(super) fn all_among(&self, parts: [u64; FEW], level: u8) -> bool {
        if self.tells_quickly(level) {
            return word_of(parts.map(|part| part as usize % 64).into_iter()) == self.gigabytes;
        }
        // Half of the bits tell them apart: the highest are all alike.
        let shift = level_shift(level);
        let parts = parts.map(|part| part as u32);
        let is_other = |va: &u64| {
            let part = (va >> shift) as u32;
            let same = parts.map(|other| u32::from(part == other));
            (same[0] | same[1] | same[2] | same[3]) ^ 1
        };
        let others = self.va[..self.count].iter().map(is_other);
        others.fold(0, |any, other| any | other) == 0
    }

    /// Finds what TLBs keep of the heads, and ends the batch before the first access that is out of
    /// the ordinary; false if there is one. `writes` says of an access whether it writes.
    pub(super) fn resolve(
        &mut self,
        space: &Space,
        mmu: &Mmu,
        writes: impl Fn(usize) -> bool,
    ) -> bool {
        let used = self.descend(&space.table);
        let mut odd = self.look(space.asid) | self.not_allowed(mmu);
        if used & bits::ACCESSED == 0 {
            let unused = |&va: &u64| !is_used_above(&space.table, va);
            odd |= mask(&self.va[..self.count], unused);
        }
        let mut end = self.accesses;
        if odd != 0 {
            end = usize::from(self.at[odd.trailing_zeros() as usize]);
        }
        let unready = self.unready(writes);
        end = end.min(unready.unwrap_or(end));
        let whole = end == self.accesses;
        if whole {
            return true;
        }
        self.accesses = end;
        let at = self.at[..self.count].iter();
        self.count = at.take_while(|&&at| usize::from(at) < end).count();
        let heads = self.heads();
        let others = [&mut self.fetches, &mut self.clean];
        let masks = self.sizes.iter_mut().chain(others);
        masks.for_each(|mask| *mask &= heads);
        false
    }

    /// The first access that writes where TLBs have entries that a write cannot use as they are.
    fn unready(&self, writes: impl Fn(usize) -> bool) -> Option<usize> {
        let data = self.heads() & !self.fetches;
        ones(self.clean & data).find_map(|head| {
            let next = data & !first(head + 1);
            let end = match next {
                0 => self.accesses,
                _ => usize::from(self.at[next.trailing_zeros() as usize]),
            };
            (usize::from(self.at[head])..end).find(|&at| writes(at))
        })
    }

    /// Goes down to the leaf entries of all heads, and then reads them in a loop so short that many
    /// reads are on their way at once. Returns what is set in all entries above them.
    fn descend(&mut self, table: &PageTable) -> u64 {
        let count = self.count.min(HEADS);
        self.levels = 1 << 1;
        let first = self.va[0];
        let differs = self.va[..count]
            .iter()
            .fold(0, |all, va| all | (va ^ first));
        self.one_region = differs >> 39 == 0;
        let small = match self.one_region {
            true => self.descend_small::<true>(table, count),
            false => self.descend_small::<false>(table, count),
        };
        if differs >> 36 != 0 {
            self.gigabytes = 0;
        }
        let used = match small {
            Some(used) => used,
            None => self.descend_any(table, count),
        };
        for head in 0..count {
            self.pages.values[head] = table.entry_at(self.place[head]);
        }
        used
    }

    /// Where all leaves are of level 1; None if one is not. With `ONE`, the parts of all addresses
    /// above level 3 are the same.
    fn descend_small<const ONE: bool>(&mut self, table: &PageTable, count: usize) -> Option<u64> {
        let nodes = table.nodes();
        let mut region = self.va[0] >> 39;
        let (start, mut used) = third_level(table, self.va[0]);
        let mut start = &nodes[start as usize];
        let (mut any, mut gigabytes) = (0, 0);
        for head in 0..count {
            let va = self.va[head];
            if !ONE && va >> 39 != region {
                region = va >> 39;
                let (node, above) = third_level(table, va);
                (start, used) = (&nodes[node as usize], used & above);
            }
            gigabytes |= 1 << (va >> 30 & 63);
            let third = start[PageTable::slot(va, 3) as usize];
            // What is no node may lead anywhere; that it is one is seen for all at the end.
            let second = nodes.get(PageTable::child(third) as usize)?;
            let second = second[PageTable::slot(va, 2) as usize];
            (any, used) = (any | third | second, used & third & second);
            self.place[head] = PageTable::place(PageTable::child(second), va, 1);
        }
        (self.level, self.gigabytes) = ([1; HEADS], gigabytes);
        (any & bits::LARGE == 0 && used & bits::PRESENT != 0).then_some(used)
    }

    /// Whatever the levels of the leaves.
    fn descend_any(&mut self, table: &PageTable, count: usize) -> u64 {
        let mut region = self.va[0] >> 39;
        let (mut start, mut used) = third_level(table, self.va[0]);
        (self.levels, self.gigabytes) = (0, 0);
        for head in 0..count {
            let va = self.va[head];
            if va >> 39 != region {
                region = va >> 39;
                let (node, above) = third_level(table, va);
                (start, used) = (node, used & above);
            }
            let (mut node, mut level) = (start, 3);
            while level > 1 {
                let entry = table.entry(node, va, level);
                if !is_node(entry) {
                    break;
                }
                (used, node, level) = (used & entry, PageTable::child(entry), level - 1);
            }
            self.levels |= 1 << level;
            self.level[head] = level;
            self.place[head] = PageTable::place(node, va, level);
        }
        used
    }

    /// Makes keys and TLB entries of the leaf entries; returns the heads whose entries are not
    /// present, not accessed yet, or perforated.
    fn look(&mut self, asid: u16) -> u64 {
        let count = self.count.min(HEADS);
        let entries = self.pages.values[..count].iter();
        let (all, any) = entries.fold((u64::MAX, 0), |(all, any), e| (all & e, any | e));
        let needs = bits::PRESENT | bits::ACCESSED;
        let mut odd = 0;
        if all & needs != needs || any & bits::PERFORATED != 0 {
            let is_odd = |&entry: &u64| entry & (needs | bits::PERFORATED) != needs;
            odd = mask(&self.pages.values[..count], is_odd);
        }
        self.clean = match writable(all) {
            true => 0,
            false => mask(&self.pages.values[..count], |&entry| !writable(entry)),
        };
        self.sizes = [0; 3];
        for size in PageSize::ALL {
            if self.levels == 1 << size.level() {
                // The commonest case by far, in loops without a branch.
                self.sizes[size as usize] = self.heads();
                for head in 0..count {
                    self.keep(head, size.level(), asid);
                }
                return odd;
            }
        }
        for head in 0..count {
            let level = self.level[head];
            self.sizes[usize::from(level - 1)] |= 1 << head;
            self.keep(head, level, asid);
        }
        odd
    }

    #[inline(always)]
    fn keep(&mut self, head: usize, level: u8, asid: u16) {
        self.pages.keys[head] =
            key_of(index_of(self.va[head], level_shift(level)), asid, level - 1);
        self.pages.values[head] = tlb_entry(self.pages.values[head], level);
    }

    /// Heads of whose pages a level holds pieces, fetches from data, and data of which a TLB may
    /// hold an older entry.
    fn not_allowed(&self, mmu: &Mmu) -> u64 {
        let heads = self.heads();
        let mut odd = 0;
        let [data, fetch] = mmu.whole_sizes();
        for size in PageSize::ALL {
            let its = self.sizes[size as usize];
            for (held, its) in [(data, its & !self.fetches), (fetch, its & self.fetches)] {
                odd |= if held >> size as u8 & 1 == 0 { its } else { 0 };
            }
        }
        for head in ones(self.fetches) {
            odd |= u64::from(self.pages.values[head] & bits::NO_EXECUTE != 0) << head;
        }
        if mmu.has_clean() {
            for head in ones(heads) {
                odd |= u64::from(mmu.holds_other(self.pages.keys[head], self.pages.values[head]))
                    << head;
            }
        }
        odd
    }
}

/// Whether there is a node below an entry above level 1.
#[inline(always)]
fn is_node(entry: u64) -> bool {
    entry & (bits::PRESENT | bits::LARGE) == bits::PRESENT
}

/// A bit for each value of which something is true.
fn mask<T>(values: &[T], is: impl Fn(&T) -> bool) -> u64 {
    let values = values.iter().enumerate();
    values.fold(0, |all, (at, value)| all | u64::from(is(value)) << at)
}

/// The first `count` bits.
#[inline(always)]
fn first(count: usize) -> u64 {
    match count {
        HEADS => u64::MAX,
        _ => (1 << count) - 1,
    }
}

/// The numbers of the bits that are set.
#[inline(always)]
pub(super) fn ones(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = (word != 0).then(|| word.trailing_zeros() as usize);
        word &= word.wrapping_sub(1);
        at
    })
}

/// Whether a walk has used all entries above the leaf of `va`.
fn is_used_above(table: &PageTable, va: u64) -> bool {
    let (mut node, mut used) = third_level(table, va);
    for level in [3, 2] {
        let entry = table.entry(node, va, level);
        if !is_node(entry) {
            break;
        }
        (used, node) = (used & entry, PageTable::child(entry));
    }
    used & bits::ACCESSED != 0
}

/// A word in which these bits are set.
pub(super) fn word_of(numbers: impl Iterator<Item = usize>) -> u64 {
    numbers.fold(0, |all, at| all | 1 << at)
}

/// The node of level 3 on the way to `va`, and what is set in all entries above it; nothing where
/// the way ends before.
fn third_level(table: &PageTable, va: u64) -> (u32, u64) {
    if !table.is_canonical(va) {
        return (ROOT, 0);
    }
    let (mut node, mut used) = (ROOT, u64::MAX);
    for level in (4..=table.levels()).rev() {
        let entry = table.entry(node, va, level);
        if entry & bits::PRESENT == 0 {
            return (ROOT, 0);
        }
        (used, node) = (used & entry, PageTable::child(entry));
    }
    (node, used)
}
