// SPDX-License-Identifier: MIT OR Apache-2.0
//! A made guest: page tables, accesses and what changes them, as words of a ring.

use ample_kit::random::SplitMix64;
use std::collections::{HashMap, HashSet};

const PRESENT: u64 = 1;
const WRITE: u64 = 2;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;
const LARGE: u64 = 1 << 7;
const GLOBAL: u64 = 1 << 8;
const KERNEL: u64 = 0xffff_8880_0000_0000;

/// Its tables, by physical address of the entry, and the words so far.
pub struct Made {
    random: SplitMix64,
    tables: HashMap<u64, u64>,
    next_frame: u64,
    roots: Vec<u64>,
    root: u64,
    told: HashSet<u64>,
    pub words: Vec<u64>,
}

fn control(operation: u64, payload: u64) -> u64 {
    3 << 59 | operation << 48 | payload & 0xffff_ffff_ffff
}

impl Made {
    pub fn new(seed: u64, roots: usize) -> Self {
        let mut made = Made {
            random: SplitMix64::new(seed),
            tables: HashMap::new(),
            next_frame: 0x1000,
            roots: Vec::new(),
            root: 0,
            told: HashSet::new(),
            words: Vec::new(),
        };
        for _ in 0..roots {
            let root = made.frame(1);
            made.roots.push(root);
        }
        made.root = made.roots[0];
        made.words.extend([control(1, 0), 7, made.root, 0]);
        made
    }

    fn below(&mut self, most: u64) -> u64 {
        self.random.next_u64() % most
    }

    /// The address of fresh frames, aligned to their number.
    fn frame(&mut self, frames: u64) -> u64 {
        let first = self.next_frame.next_multiple_of(frames);
        self.next_frame = first + frames;
        first << 12
    }

    /// The way to an address: pairs of address and entry. What is not there is made: a 2 MB page in
    /// every third 2 MB of addresses, else a 4 KB page.
    fn path(&mut self, va: u64) -> Vec<(u64, u64)> {
        let kernel = va >> 63 == 1;
        let mut path = Vec::new();
        let mut table = self.root;
        for level in (1..=4u32).rev() {
            let slot = va >> (3 + 9 * level) & 511;
            // The kernel's half is one under all roots.
            let first = if kernel && level == 4 {
                self.roots[0]
            } else {
                table
            };
            let at = first + 8 * slot;
            let leaf = level == 1 || level == 2 && (va >> 21).is_multiple_of(3);
            if !self.tables.contains_key(&at) {
                let frames = if leaf && level == 2 { 512 } else { 1 };
                let own = [WRITE, 0][usize::from(leaf && (va >> 12).is_multiple_of(7))]
                    | if leaf && level == 2 { LARGE } else { 0 }
                    | if leaf && kernel { GLOBAL } else { 0 };
                let entry = self.frame(frames) | PRESENT | own;
                self.tables.insert(at, entry);
            }
            let entry = self.tables[&at];
            // Under each root the entry stands in that root's own frame.
            let seen = if level == 4 { table + 8 * slot } else { at };
            path.push((seen, entry));
            if leaf {
                break;
            }
            table = entry & 0x000f_ffff_ffff_f000;
        }
        path
    }

    /// An access, told of before if it has to be.
    pub fn access(&mut self) {
        let pages = [40, 700, 4000][self.below(3) as usize];
        let page = self.below(pages);
        let base = [0x40_0000, 0x7f00_0000_0000, KERNEL][self.below(3) as usize];
        let va = base + (page << 12) + self.below(512) * 8;
        let kind = self.below(3);
        let path = self.path(va);
        let (at, leaf) = *path.last().unwrap();
        let store = kind == 1 && leaf & WRITE != 0;
        // What the hardware of the guest itself sets.
        let set = ACCESSED | if store { DIRTY } else { 0 };
        *self.tables.get_mut(&at).unwrap() |= set;
        if self.told.insert(va >> 12) || self.below(50) == 0 {
            self.tell(va);
        }
        let kind = if kind == 1 && !store { 0 } else { kind };
        let mode = va >> 63;
        self.words
            .push(va & 0xffff_ffff_ffff | 3 << 56 | kind << 59 | mode << 61);
    }

    fn tell(&mut self, va: u64) {
        let path = self.path(va);
        self.words.push(control(9, va) | (path.len() as u64) << 56);
        self.words
            .extend(path.iter().flat_map(|&(at, entry)| [at, entry]));
        let first = path.last().unwrap().0 & !63;
        for at in 0..8 {
            let entry = self.tables.get(&(first + 8 * at)).copied().unwrap_or(0);
            self.words.push(entry);
        }
    }

    /// What an operating system does now and then.
    pub fn event(&mut self) {
        match self.below(40) {
            0..4 => {
                let at = self.below(self.roots.len() as u64) as usize;
                self.root = self.roots[at];
                self.words.extend([control(4, 0), self.root]);
                self.told.retain(|page| page >> 51 == 1);
            }
            4 => {
                self.words.push(control(6, 4));
                self.told.clear();
            }
            5..10 => self.move_page(),
            _ => {}
        }
    }

    /// Another frame for a page, and INVLPG.
    fn move_page(&mut self) {
        let base = [0x40_0000, KERNEL][self.below(2) as usize];
        let va = base + (self.below(700) << 12);
        let path = self.path(va);
        let (at, leaf) = *path.last().unwrap();
        let frames = if path.len() == 3 { 512 } else { 1 };
        let entry = self.frame(frames) | leaf & 0xfff & !DIRTY;
        self.tables.insert(at, entry);
        self.words.push(control(5, va));
        let shift = if path.len() == 3 { 9 } else { 0 };
        self.told.retain(|page| page >> shift != va >> 12 >> shift);
    }

    pub fn end(&mut self) {
        self.words.extend([control(2, 0), 7, 1 << 20]);
    }
}
