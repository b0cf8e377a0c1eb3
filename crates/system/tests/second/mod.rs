// SPDX-License-Identifier: MIT OR Apache-2.0
//! A second count of TLB misses that shares nothing with the model but the words: every array a
//! list of sets, each a list of entries with the last one used in front, of the preset `skylake`.

use ample_system::wire::{CpuEvent, CpuWatcher, TablePath};
use ample_trace::{Access, AccessKind};
use std::collections::HashMap;

const WRITE: u64 = 2;
const USER: u64 = 4;
const DIRTY: u64 = 1 << 6;
const LARGE: u64 = 1 << 7;
const GLOBAL: u64 = 1 << 8;
const NO_EXECUTE: u64 = 1 << 63;
const FRAME: u64 = 0x000f_ffff_ffff_f000;
/// Bits of a page's address below it, by size.
const SHIFTS: [u32; 3] = [12, 21, 30];

/// A page as the words tell of it: first frame's address, size, rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Page {
    frame: u64,
    size: usize,
    rights: u64,
    dirty: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    number: u64,
    size: usize,
    global: bool,
    dirty: bool,
}

/// One array: the sizes that it holds, its ways, its sets.
struct Array {
    sizes: &'static [usize],
    ways: usize,
    sets: Vec<Vec<Entry>>,
}

impl Array {
    fn new(sizes: &'static [usize], entries: usize, ways: usize) -> Self {
        let sets = vec![Vec::new(); entries / ways];
        Array { sizes, ways, sets }
    }

    fn set(&mut self, number: u64) -> &mut Vec<Entry> {
        let at = number % self.sets.len() as u64;
        &mut self.sets[at as usize]
    }

    /// The entry for an address, in front of its set now.
    fn get(&mut self, va: u64) -> Option<Entry> {
        for &size in self.sizes {
            let number = number(va, size);
            let set = self.set(number);
            let at = set
                .iter()
                .position(|e| e.number == number && e.size == size);
            if let Some(at) = at {
                let entry = set.remove(at);
                set.insert(0, entry);
                return Some(entry);
            }
        }
        None
    }

    fn put(&mut self, entry: Entry) {
        let ways = self.ways;
        let set = self.set(entry.number);
        set.retain(|e| (e.number, e.size) != (entry.number, entry.size));
        set.insert(0, entry);
        set.truncate(ways);
    }

    fn keep(&mut self, keep: impl Fn(&Entry) -> bool) {
        self.sets.iter_mut().for_each(|set| set.retain(&keep));
    }
}

fn number(va: u64, size: usize) -> u64 {
    (va & ((1 << 57) - 1)) >> SHIFTS[size]
}

/// A CPU's TLBs.
pub struct Second {
    l1d: Vec<Array>,
    l1i: Vec<Array>,
    l2: Vec<Array>,
    /// Known pages by root (0: the kernel's half), number and size.
    pages: HashMap<(u64, u64, usize), Page>,
    root: u64,
    counting: bool,
    /// First-level misses and walks of data, then of fetches.
    pub counts: [u64; 4],
    /// Accesses to pages that nothing was told of.
    pub unknown: u64,
}

impl Second {
    pub fn new() -> Self {
        Second {
            l1d: vec![
                Array::new(&[0], 64, 4),
                Array::new(&[1], 32, 4),
                Array::new(&[2], 4, 4),
            ],
            l1i: vec![Array::new(&[0], 128, 8), Array::new(&[1], 8, 8)],
            l2: vec![Array::new(&[0, 1], 1536, 12), Array::new(&[2], 16, 4)],
            pages: HashMap::new(),
            root: 0,
            counting: false,
            counts: [0; 4],
            unknown: 0,
        }
    }

    fn arrays(&mut self) -> impl Iterator<Item = &mut Array> {
        self.l1d.iter_mut().chain(&mut self.l1i).chain(&mut self.l2)
    }

    fn half(&self, va: u64) -> u64 {
        if va >> 63 == 1 { 0 } else { self.root }
    }

    fn key(&self, va: u64) -> Option<(u64, u64, usize)> {
        let half = self.half(va);
        (0..3)
            .map(|size| (half, number(va, size), size))
            .find(|key| self.pages.contains_key(key))
    }

    /// Drops what TLBs hold of the page of this size around an address.
    fn drop_page(&mut self, va: u64, size: usize) {
        let whole = number(va, size);
        self.arrays().for_each(|array| {
            array.keep(|e| {
                let shift = SHIFTS[size].saturating_sub(SHIFTS[e.size]);
                e.size > size || e.number >> shift != whole
            });
        });
    }

    fn tell(&mut self, va: u64, page: Page) {
        let key = (self.half(va), number(va, page.size), page.size);
        let same = |old: &Page| (old.frame, old.rights) == (page.frame, page.rights);
        if self.pages.get(&key).is_some_and(same) {
            self.pages.insert(key, page);
            return;
        }
        // A page of another size that was there, or pages inside this one, are no more.
        while let Some(old) = self.key(va) {
            self.pages.remove(&old);
            self.drop_page(va, old.2);
        }
        if page.size > 0 {
            let half = self.half(va);
            let inside = |&(h, n, s): &(u64, u64, usize)| {
                h == half && s < page.size && n >> (SHIFTS[page.size] - SHIFTS[s]) == key.1
            };
            let gone: Vec<_> = self
                .pages
                .keys()
                .filter(|key| inside(key))
                .copied()
                .collect();
            if !gone.is_empty() {
                for key in &gone {
                    self.pages.remove(key);
                }
                self.drop_page(va, page.size);
            }
        }
        self.pages.insert(key, page);
    }

    fn mapping(&mut self, mapping: &TablePath<'_>) {
        let entries: Vec<u64> = mapping.path.chunks(2).map(|pair| pair[1]).collect();
        let (leaf, upper) = entries.split_last().unwrap();
        let and = upper.iter().fold(WRITE | USER, |all, entry| all & entry);
        let or = upper.iter().fold(0, |all, entry| all | entry & NO_EXECUTE);
        let size = 4 - entries.len();
        let page = |entry: u64| Page {
            frame: entry & FRAME & !((1 << SHIFTS[size]) - 1),
            size,
            rights: entry & and & (WRITE | USER) | (entry | or) & NO_EXECUTE | entry & GLOBAL,
            dirty: entry & DIRTY != 0,
        };
        assert!(size == 0 || leaf & LARGE != 0);
        self.tell(mapping.va, page(*leaf));
        if size == 0 {
            let first = mapping.va & !0x7fff;
            for (at, &entry) in mapping.line.iter().enumerate() {
                let va = first + ((at as u64) << 12);
                if va >> 12 == mapping.va >> 12 {
                    continue;
                }
                if entry & 1 != 0 {
                    self.tell(va, page(entry));
                } else if let Some(key) = self.key(va) {
                    self.pages.remove(&key);
                    self.drop_page(va, 0);
                }
            }
        }
    }

    fn look(&mut self, va: u64, store: bool, fetch: bool) {
        let first = if fetch { &mut self.l1i } else { &mut self.l1d };
        if let Some(entry) = first.iter_mut().find_map(|array| array.get(va)) {
            if !store || entry.dirty {
                return;
            }
            // The hardware sets the dirty bit and reads the entry again.
            if let Some(page) = self.key(va).and_then(|key| self.pages.get_mut(&key)) {
                page.dirty = true;
            }
            // Instruction TLBs do not look at it.
            let data = self.l1d.iter_mut().chain(&mut self.l2);
            data.for_each(|a| a.keep(|e| e.number != entry.number || e.size != entry.size));
        }
        self.counts[if fetch { 2 } else { 0 }] += 1;
        let found = self.l2.iter_mut().find_map(|array| array.get(va));
        let Some(key) = self.key(va) else {
            self.unknown += 1;
            return;
        };
        let page = self.pages.get_mut(&key).unwrap();
        let mut entry = found.unwrap_or(Entry {
            number: key.1,
            size: key.2,
            global: page.rights & GLOBAL != 0,
            dirty: page.dirty,
        });
        if found.is_none() {
            self.counts[if fetch { 3 } else { 1 }] += 1;
            self.l2
                .iter_mut()
                .filter(|a| a.sizes.contains(&entry.size))
                .for_each(|a| a.put(entry));
        }
        if store {
            page.dirty = true;
            entry.dirty = true;
        }
        let first = if fetch { &mut self.l1i } else { &mut self.l1d };
        match first
            .iter_mut()
            .find(|array| array.sizes.contains(&entry.size))
        {
            Some(array) => array.put(entry),
            None => {
                let (number, size) = (number(va, 0), 0);
                first[0].put(Entry {
                    number,
                    size,
                    ..entry
                });
            }
        }
    }
}

impl CpuWatcher for Second {
    fn access(&mut self, access: Access, _: bool) {
        if self.counting {
            let fetch = access.kind == AccessKind::Fetch;
            self.look(access.va, access.kind == AccessKind::Store, fetch);
        }
    }

    fn event(&mut self, event: CpuEvent<'_>) {
        match event {
            CpuEvent::Begin { cr3, .. } => {
                self.root = cr3 & FRAME;
                self.arrays().for_each(|array| array.keep(|_| false));
                self.counting = true;
            }
            CpuEvent::End { .. } => self.counting = false,
            CpuEvent::Cr3(cr3) => {
                self.root = cr3 & FRAME;
                self.arrays().for_each(|array| array.keep(|e| e.global));
            }
            CpuEvent::Invlpg(va) => {
                if let Some(key) = self.key(va) {
                    self.pages.remove(&key);
                    self.drop_page(va, key.2);
                }
            }
            CpuEvent::Flush => self.arrays().for_each(|array| array.keep(|_| false)),
            CpuEvent::Mapping(mapping) => self.mapping(&mapping),
            _ => {}
        }
    }
}
