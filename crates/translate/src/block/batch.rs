// SPDX-License-Identifier: MIT OR Apache-2.0
//! The accesses of a batch that TLBs are asked for, and what the page table says of them.

use crate::engine::Intent;
use crate::mmu::Mmu;
use crate::os::space::Space;
use crate::table::entry::{PageSize, bits, level_shift, tlb_entry};
use crate::table::page_table::{PageTable, ROOT};
use crate::tlb::array::writable;
use crate::tlb::key::{index_of, key_of};

/// Heads of a batch: a bit of a word each.
const HEADS: usize = 64;

/// No access of a run writes.
const NEVER: u16 = u16::MAX;

/// Accesses in their order. A data access to the 4 KB page of the data access before it, and a
/// fetch from that of the fetch before it, hit the latest entry of the first level and change
/// nothing: of each such run the first access, its head, stands for all.
pub(super) struct Batch {
    /// Heads.
    count: usize,
    /// Accesses that it stands for.
    pub(super) accesses: usize,
    /// The most heads that the next one gets: one that ends early has gathered the rest in vain.
    limit: usize,
    /// Which heads are fetches.
    pub(super) fetches: u64,
    /// Which heads are of runs that write.
    writes: u64,
    /// Which heads have entries that a write cannot use as they are.
    pub(super) clean: u64,
    /// Which heads lie in pages of each size.
    pub(super) sizes: [u64; 3],
    /// Addresses of the heads.
    pub(super) va: [u64; HEADS],
    /// Numbers of the accesses.
    at: [u16; HEADS],
    /// Numbers of the first accesses of their runs that write.
    written: [u16; HEADS],
    /// Nodes of the leaf entries.
    pub(super) node: [u32; HEADS],
    /// Which levels they are of, a bit each.
    levels: u32,
    /// Times that the part of the address above level 3 changes from one head to the next, and one.
    pub(super) regions: u32,
    /// Levels of the leaf entries.
    pub(super) level: [u8; HEADS],
    /// What TLBs keep: the leaf entries themselves until they are seen to be ordinary.
    pub(super) entry: [u64; HEADS],
    /// Under which key.
    pub(super) key: [u64; HEADS],
}

impl Batch {
    pub(super) fn new() -> Self {
        Batch {
            count: 0,
            accesses: 0,
            limit: HEADS,
            fetches: 0,
            writes: 0,
            clean: 0,
            sizes: [0; 3],
            va: [0; HEADS],
            at: [0; HEADS],
            written: [NEVER; HEADS],
            node: [0; HEADS],
            levels: 0,
            regions: 0,
            level: [0; HEADS],
            entry: [0; HEADS],
            key: [0; HEADS],
        }
    }

    /// All heads.
    pub(super) fn heads(&self) -> u64 {
        first(self.count)
    }

    /// Takes accesses from the start of a block, as many as it has heads for.
    pub(super) fn gather<A>(&mut self, block: &[A], of: impl Fn(&A) -> (u64, Intent)) {
        let (mut count, mut fetches, mut writes) = (0, 0, 0u64);
        let (mut data_page, mut fetch_page) = (u64::MAX, u64::MAX);
        // The bit of the latest run of data accesses, until it writes.
        let mut unwritten = 0u64;
        let limit = self.limit.min(HEADS);
        let block = &block[..block.len().min(usize::from(NEVER))];
        self.accesses = block.len();
        for (at, access) in block.iter().enumerate() {
            let (va, intent) = of(access);
            let page = va >> 12;
            let fetch = intent == Intent::Fetch;
            if page != if fetch { fetch_page } else { data_page } {
                if count == limit {
                    self.accesses = at;
                    break;
                }
                self.va[count] = va;
                self.at[count] = at as u16;
                if fetch {
                    fetches |= 1 << count;
                    fetch_page = page;
                } else {
                    unwritten = 1 << count;
                    data_page = page;
                }
                count += 1;
            }
            if intent == Intent::Write && unwritten != 0 {
                writes |= unwritten;
                self.written[unwritten.trailing_zeros() as usize % HEADS] = at as u16;
                unwritten = 0;
            }
        }
        (self.count, self.fetches, self.writes) = (count, fetches, writes);
    }

    /// Finds what TLBs keep of the heads, and ends the batch before the first access that is out of
    /// the ordinary; false if there is one.
    pub(super) fn resolve(&mut self, space: &Space, mmu: &Mmu) -> bool {
        let used = self.descend(&space.table);
        let mut odd = self.look(space.asid) | self.not_allowed(mmu);
        if used & bits::ACCESSED == 0 {
            odd |= mask(&self.va[..self.count], |va| {
                !is_used_above(&space.table, va)
            });
        }
        let mut end = self.accesses;
        if odd != 0 {
            end = usize::from(self.at[odd.trailing_zeros() as usize]);
        }
        let unready = self.writes & self.clean;
        if unready != 0 {
            end = end.min(usize::from(self.written[unready.trailing_zeros() as usize]));
        }
        let whole = end == self.accesses;
        if whole {
            self.limit = (self.limit * 2).min(HEADS);
        } else {
            self.limit = (self.limit / 4).max(1);
            self.end_before(end);
        }
        whole
    }

    fn end_before(&mut self, end: usize) {
        self.accesses = end;
        let at = self.at[..self.count].iter();
        self.count = at.take_while(|&&at| usize::from(at) < end).count();
        let heads = self.heads();
        for mask in self
            .sizes
            .iter_mut()
            .chain([&mut self.fetches, &mut self.clean])
        {
            *mask &= heads;
        }
    }

    /// Goes down to the leaf entries of all heads, and then reads them in a loop so short that many
    /// reads are on their way at once. Returns what is set in all entries above them.
    fn descend(&mut self, table: &PageTable) -> u64 {
        let is_node = |entry: u64| entry & (bits::PRESENT | bits::LARGE) == bits::PRESENT;
        let (mut region, mut start) = (None, (ROOT, 0));
        let (mut used, mut levels) = (u64::MAX, 0);
        self.regions = 0;
        let count = self.count.min(HEADS);
        for head in 0..count {
            let va = self.va[head];
            if region != Some(va >> 39) {
                region = Some(va >> 39);
                self.regions += 1;
                start = third_level(table, va);
                used &= start.1;
            }
            let (mut node, mut level) = (start.0, 3);
            let entry = table.entry(node, va, 3);
            if is_node(entry) {
                (used, node, level) = (used & entry, PageTable::child(entry), 2);
                let entry = table.entry(node, va, 2);
                if is_node(entry) {
                    (used, node, level) = (used & entry, PageTable::child(entry), 1);
                }
            }
            levels |= 1 << level;
            (self.node[head], self.level[head]) = (node, level);
        }
        self.levels = levels;
        for head in 0..count {
            self.entry[head] = table.entry(self.node[head], self.va[head], self.level[head]);
        }
        used
    }

    /// Makes keys and TLB entries of the leaf entries; returns the heads whose entries are not
    /// present, not accessed yet, or perforated.
    fn look(&mut self, asid: u16) -> u64 {
        let count = self.count.min(HEADS);
        let entries = self.entry[..count].iter();
        let (all, any) = entries.fold((u64::MAX, 0), |(all, any), e| (all & e, any | e));
        let needs = bits::PRESENT | bits::ACCESSED;
        let mut odd = 0;
        if all & needs != needs || any & bits::PERFORATED != 0 {
            let is_odd = |entry: u64| entry & (needs | bits::PERFORATED) != needs;
            odd = mask(&self.entry[..count], is_odd);
        }
        self.clean = match writable(all) {
            true => 0,
            false => mask(&self.entry[..count], |entry| !writable(entry)),
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
        self.key[head] = key_of(index_of(self.va[head], level_shift(level)), asid, level - 1);
        self.entry[head] = tlb_entry(self.entry[head], level);
    }

    /// Heads whose pages the first level cannot hold whole, fetches from data, and data of which a
    /// TLB may hold an older entry.
    fn not_allowed(&self, mmu: &Mmu) -> u64 {
        let heads = self.heads();
        let mut odd = 0;
        let [data, fetch] = mmu.first_sizes();
        for size in PageSize::ALL {
            let its = self.sizes[size as usize];
            let not_held = |sizes: u8, heads: u64| {
                if sizes >> size as u8 & 1 == 0 {
                    heads
                } else {
                    0
                }
            };
            odd |= not_held(data, its & !self.fetches) | not_held(fetch, its & self.fetches);
        }
        for head in ones(self.fetches) {
            odd |= u64::from(self.entry[head] & bits::NO_EXECUTE != 0) << head;
        }
        if mmu.has_clean() {
            for head in ones(heads) {
                odd |= u64::from(mmu.holds_other(self.key[head], self.entry[head])) << head;
            }
        }
        odd
    }
}

/// A bit for each value of which something is true.
fn mask(values: &[u64], is: impl Fn(u64) -> bool) -> u64 {
    let bits = values.iter().enumerate();
    bits.fold(0, |all, (at, &value)| all | u64::from(is(value)) << at)
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
        if entry & (bits::PRESENT | bits::LARGE) != bits::PRESENT {
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
