// SPDX-License-Identifier: MIT OR Apache-2.0
//! A toy guest with real page tables in its own memory, and a recorder that tells an engine what a
//! full-system emulator would: accesses, flushes, and the path of every page that is not known.

use ample_kit::random::SplitMix64;
use ample_translate::*;
use std::collections::HashMap;

/// Bits that Linux uses for itself, and that mean other things to the model.
const SOFTWARE: u64 = 7 << 9 | 0x7ff << 52;
const PAT_SMALL: u64 = 1 << 7;
const PAT_LARGE: u64 = 1 << 12;
const TABLE_FRAMES: u64 = 1 << 9;
const UPPER: u64 = bits::PRESENT | bits::WRITE | bits::USER;

/// First addresses of 2 MB blocks: neighbours, in one gigabyte, far apart; then of the kernel.
const USER_BLOCKS: [u64; 5] = [
    0x40_0000_0000,
    0x40_0020_0000,
    0x40_4000_0000,
    0x7f00_0000_0000,
    0x7fff_ffe0_0000,
];
const KERNEL_BLOCKS: [u64; 4] = [
    0xffff_8880_0000_0000,
    0xffff_8880_0020_0000,
    0xffff_8880_4000_0000,
    0xffff_ffff_ffe0_0000,
];

/// The guest: page tables in memory, several roots that share the kernel half.
pub struct Guest {
    memory: Vec<u64>,
    free: Vec<u64>,
    pub levels: u8,
    pub roots: Vec<u64>,
    pub current: usize,
    /// Kernel leaves are global.
    pub global: bool,
    /// The kernel half has a block of its own under every root.
    pub private: bool,
    pub random: SplitMix64,
}

/// A page as the guest's own walk finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub pa: u64,
    pub base: u64,
    pub level: u8,
    pub write: bool,
    pub execute: bool,
    pub global: bool,
}

impl Seen {
    pub fn allows(&self, intent: Intent) -> bool {
        match intent {
            Intent::Read => true,
            Intent::Write => self.write,
            Intent::Fetch => self.execute,
        }
    }

    pub fn bytes(&self) -> u64 {
        1 << shift(self.level)
    }
}

fn shift(level: u8) -> u32 {
    3 + 9 * u32::from(level)
}

fn is_leaf(entry: u64, level: u8) -> bool {
    level == 1 || entry & bits::LARGE != 0
}

pub fn is_kernel(va: u64) -> bool {
    va >> 63 == 1
}

impl Guest {
    pub fn new(seed: u64, levels: u8, roots: usize, global: bool, private: bool) -> Guest {
        let mut random = SplitMix64::scattered(seed);
        let mut free: Vec<u64> = (0..TABLE_FRAMES).collect();
        for at in (1..free.len()).rev() {
            free.swap(at, random.below(at as u64 + 1) as usize);
        }
        let mut guest = Guest {
            memory: vec![0; (TABLE_FRAMES << 9) as usize],
            free,
            levels,
            roots: Vec::new(),
            current: 0,
            global,
            private,
            random,
        };
        let first = guest.take();
        guest.roots.push(first);
        // The kernel's upper tables are there before any root is copied, and never go.
        for va in KERNEL_BLOCKS {
            let slot = va >> shift(levels) & 511;
            if guest.memory[(first << 9 | slot) as usize] == 0 {
                let node = guest.take();
                guest.memory[(first << 9 | slot) as usize] = node << 12 | UPPER;
            }
        }
        for _ in 1..roots {
            let root = guest.fork();
            guest.roots.push(root);
        }
        guest
    }

    fn take(&mut self) -> u64 {
        let frame = self.free.pop().expect("tables are few");
        self.memory[(frame << 9) as usize..][..512].fill(0);
        frame
    }

    /// A new root with the kernel half of the first.
    fn fork(&mut self) -> u64 {
        let root = self.take();
        for va in KERNEL_BLOCKS {
            let slot = va >> shift(self.levels) & 511;
            self.memory[(root << 9 | slot) as usize] =
                self.memory[(self.roots[0] << 9 | slot) as usize];
        }
        root
    }

    fn private_block(&self) -> u64 {
        [0xffff_9600_0000_0000, 0xff20_0000_0000_0000][usize::from(self.levels == 5)]
    }

    /// Whether all roots map `va` by the same tables.
    pub fn is_shared(&self, va: u64) -> bool {
        is_kernel(va) && va & !((1 << 39) - 1) != self.private_block()
    }

    pub fn root(&self) -> u64 {
        self.roots[self.current]
    }

    /// An address: mostly one of a few pages, so that events and accesses meet.
    pub fn address(&mut self) -> u64 {
        let draw = self.random.next_u64();
        let block = match draw % 16 {
            0 if self.private => self.private_block(),
            n if n < 7 => KERNEL_BLOCKS[(draw >> 8) as usize % KERNEL_BLOCKS.len()],
            _ => USER_BLOCKS[(draw >> 8) as usize % USER_BLOCKS.len()],
        };
        let page = match draw >> 16 & 3 {
            0 => (draw >> 20 & 31) * 16 + 15,
            _ => draw >> 20 & 15,
        };
        block + (page << 12) + (draw >> 40 & 0xff8)
    }

    pub fn read(&self, pa: u64) -> u64 {
        self.memory[(pa >> 3) as usize]
    }

    /// The entries of a walk, root first, to the first that is not present or a page.
    pub fn path(&self, root: u64, va: u64) -> Vec<(u64, u64)> {
        let mut path = Vec::new();
        let mut node = root;
        for level in (1..=self.levels).rev() {
            let pa = node << 12 | (va >> shift(level) & 511) << 3;
            let entry = self.read(pa);
            path.push((pa, entry));
            if entry & 1 == 0 || is_leaf(entry, level) {
                break;
            }
            node = (entry & bits::FRAME) >> 12;
        }
        path
    }

    /// What the guest's hardware makes of a path.
    pub fn seen(&self, va: u64, path: &[(u64, u64)]) -> Option<Seen> {
        let level = self.levels + 1 - path.len() as u8;
        let leaf = path.last().unwrap().1;
        if leaf & 1 == 0 {
            return None;
        }
        let inside = (1 << shift(level)) - 1;
        Some(Seen {
            pa: leaf & bits::FRAME & !inside | va & inside,
            base: va & !inside,
            level,
            write: path.iter().all(|e| e.1 & bits::WRITE != 0),
            execute: path.iter().all(|e| e.1 >> 63 == 0),
            global: leaf & bits::GLOBAL != 0,
        })
    }

    /// Sets accessed and dirty bits as the guest's hardware does.
    pub fn touch(&mut self, path: &mut [(u64, u64)], write: bool) {
        let last = path.len() - 1;
        for (index, (pa, entry)) in path.iter_mut().enumerate() {
            *entry |= bits::ACCESSED;
            if write && index == last {
                *entry |= bits::DIRTY;
            }
            self.memory[(*pa >> 3) as usize] = *entry;
        }
    }

    /// A leaf for a random frame and random rights.
    fn leaf(&mut self, va: u64, level: u8) -> u64 {
        let draw = self.random.next_u64();
        let size = 1u64 << shift(level);
        // Frames often follow the addresses, so that neighbours continue each other.
        let frame = match draw & 3 {
            0 => (draw >> 8 & ((1 << 40) - 1)) << 12,
            _ => (draw >> 2 & 3) << 34 | va & ((1 << 34) - 1),
        };
        let mut entry = frame & !(size - 1) & bits::FRAME | bits::PRESENT | draw & SOFTWARE;
        if level > 1 {
            entry |= bits::LARGE | if draw >> 4 & 1 != 0 { PAT_LARGE } else { 0 };
        } else if draw >> 4 & 3 == 0 {
            entry |= PAT_SMALL;
        }
        if draw >> 6 & 3 != 0 {
            entry |= bits::WRITE;
        }
        if draw >> 63 == 0 {
            entry |= bits::NO_EXECUTE * (draw >> 50 & 1);
        }
        if !is_kernel(va) {
            entry |= bits::USER;
        } else if self.is_shared(va) && self.global {
            entry |= bits::GLOBAL;
        }
        entry
    }

    /// Maps the page of a level around `va` anew under a root. True if what was there before was
    /// one page at most, as large or larger: a single INVLPG can make hardware forget it.
    pub fn map(&mut self, root: u64, va: u64, level: u8) -> bool {
        let mut node = root;
        for upper in (level + 1..=self.levels).rev() {
            let at = (node << 9 | va >> shift(upper) & 511) as usize;
            let entry = self.memory[at];
            node = if entry & 1 == 0 {
                let child = self.take();
                let draw = self.random.next_u64();
                let rights = if draw & 7 == 0 {
                    UPPER & !bits::WRITE
                } else {
                    UPPER
                };
                self.memory[at] = child << 12 | rights | draw & SOFTWARE;
                child
            } else if is_leaf(entry, upper) {
                self.split(at, upper)
            } else {
                (entry & bits::FRAME) >> 12
            };
        }
        let at = (node << 9 | va >> shift(level) & 511) as usize;
        let old = self.memory[at];
        self.memory[at] = self.leaf(va, level);
        let was_node = old & 1 != 0 && !is_leaf(old, level);
        if was_node {
            self.release((old & bits::FRAME) >> 12, level - 1);
        }
        !was_node
    }

    /// Replaces a large page by a table of smaller ones on the same frames; returns the table.
    fn split(&mut self, at: usize, level: u8) -> u64 {
        let old = self.memory[at];
        let child = self.take();
        let size = 1u64 << shift(level - 1);
        let mut flags = old & !bits::FRAME;
        if level == 2 {
            flags &= !bits::LARGE;
        }
        let base = old & bits::FRAME & !((1 << shift(level)) - 1);
        for slot in 0..512 {
            self.memory[(child << 9 | slot) as usize] = (base + slot * size) | flags;
        }
        self.memory[at] = child << 12 | UPPER;
        child
    }

    fn release(&mut self, node: u64, level: u8) {
        for slot in 0..512 {
            let entry = self.memory[(node << 9 | slot) as usize];
            if entry & 1 != 0 && !is_leaf(entry, level) {
                self.release((entry & bits::FRAME) >> 12, level - 1);
            }
        }
        self.free.push(node);
    }

    /// Ends the program of a root but the first and starts another, most likely in the same
    /// frame.
    pub fn replace(&mut self, index: usize) {
        let root = self.roots[index];
        for slot in 0..512 {
            let entry = self.memory[(root << 9 | slot) as usize];
            let first = self.memory[(self.roots[0] << 9 | slot) as usize];
            let shared = (entry ^ first) & bits::FRAME == 0;
            if entry & 1 != 0 && !shared {
                self.release((entry & bits::FRAME) >> 12, self.levels - 1);
            }
        }
        self.free.push(root);
        self.roots[index] = self.fork();
    }

    /// Changes an entry on the way to `va`: `pick` chooses which, root side first. The root's own
    /// for the kernel half stays, since each root has a copy. True if it was the last.
    pub fn change(&mut self, root: u64, va: u64, pick: u64, edit: impl Fn(u64) -> u64) -> bool {
        let path = self.path(root, va);
        let kept = usize::from(is_kernel(va) && path.len() > 1);
        let at = kept + pick as usize % (path.len() - kept);
        let (pa, entry) = path[at];
        if entry & 1 != 0 {
            self.memory[(pa >> 3) as usize] = edit(entry);
        }
        at + 1 == path.len()
    }

    /// The eight entries of the line around an entry.
    pub fn line(&self, pa: u64) -> [u64; 8] {
        std::array::from_fn(|i| self.read((pa & !63) + 8 * i as u64))
    }

    /// Scribbles into bits that only the guest's software reads.
    pub fn scribble(&mut self, va: u64) {
        let draw = self.random.next_u64();
        let root = self.root();
        self.change(root, va, draw, |entry| entry ^ draw & SOFTWARE);
    }
}

/// A port that writes down what a walker reads.
#[derive(Default)]
pub struct Reads(pub Vec<u64>);

impl Port for Reads {
    fn walk_start(&mut self, now: u64) -> u64 {
        now
    }

    fn read(&mut self, pa: u64, now: u64) -> (u64, HitLevel) {
        self.0.push(pa);
        (now, HitLevel::Unknown)
    }

    fn walk_end(&mut self, _start: u64, _end: u64) {}
}

/// The recorder: what it has told the engine since hardware last forgot it, by 4 KB page.
#[derive(Default)]
pub struct Recorder {
    pub known: HashMap<u64, Seen>,
    /// Global pages stay known over a load of CR3.
    pub keeps_global: bool,
    /// Neighbours are sent too.
    pub lines: bool,
}

impl Recorder {
    /// Tells the engine of a page if it has to; true if it did.
    pub fn tell(
        &mut self,
        guest: &Guest,
        engine: &mut Engine,
        va: u64,
        intent: Intent,
    ) -> Result<bool, String> {
        let path = guest.path(guest.root(), va);
        let Some(seen) = guest.seen(va, &path) else {
            return Ok(false);
        };
        let known = self.known.get(&(va >> 12));
        if known.is_some_and(|k| k.allows(intent) || !seen.allows(intent)) {
            return Ok(false);
        }
        engine.mirror(va, &path).map_err(|e| e.to_string())?;
        if self.lines && seen.level == 1 {
            let line = guest.line(path.last().unwrap().0);
            engine.mirror_line(va, &line).map_err(|e| e.to_string())?;
        }
        self.known.insert(va >> 12, seen);
        Ok(true)
    }

    pub fn load_root(&mut self, guest: &Guest, engine: &mut Engine) {
        engine.load_root(guest.root());
        let keeps = self.keeps_global;
        self.known.retain(|_, seen| keeps && seen.global);
    }

    pub fn invalidate_page(&mut self, engine: &mut Engine, va: u64) {
        engine.invalidate_page(va);
        self.known
            .retain(|_, seen| va.wrapping_sub(seen.base) >= seen.bytes());
    }

    pub fn flush_all(&mut self, engine: &mut Engine) {
        engine.flush_all();
        self.known.clear();
    }
}
