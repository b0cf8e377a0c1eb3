// SPDX-License-Identifier: MIT OR Apache-2.0
//! Translation as one would write it first: what the speed of the simulator is measured against,
//! and a second count to check it by. Page tables of 4 KB pages, a first and a second level of
//! TLB, page-walk caches; sets are searched from end to end, and the use that is longest ago
//! leaves. No time, no other page sizes, no rights.

use ample_trace::{Access, Consumer};
use ample_translate::{Geometry, MmuConfig, PageSize, PwcKind};
use anyhow::{Context, Result, bail};

/// Entries with their last uses; those of a set lie side by side.
struct Array {
    sets: u64,
    ways: usize,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy)]
struct Entry {
    key: u64,
    value: u64,
    used: u64,
}

impl Array {
    fn new(shape: Geometry) -> Array {
        let none = Entry {
            key: u64::MAX,
            value: 0,
            used: 0,
        };
        Array {
            sets: u64::from(shape.entries / shape.ways),
            ways: shape.ways as usize,
            entries: vec![none; shape.entries as usize],
        }
    }

    fn set(&mut self, key: u64) -> &mut [Entry] {
        let first = (key % self.sets) as usize * self.ways;
        &mut self.entries[first..first + self.ways]
    }

    fn get(&mut self, key: u64, now: u64) -> Option<u64> {
        let entry = self.set(key).iter_mut().find(|entry| entry.key == key)?;
        entry.used = now;
        Some(entry.value)
    }

    fn put(&mut self, key: u64, value: u64, now: u64) {
        let oldest = self.set(key).iter_mut().min_by_key(|entry| entry.used);
        *oldest.expect("a set has a way") = Entry {
            key,
            value,
            used: now,
        };
    }
}

/// The translation hardware of one core, 4 KB pages alone.
pub struct Naive {
    l1: Array,
    l2: Array,
    /// From level 2 upwards.
    walk_caches: Vec<Array>,
    nodes: Vec<[u64; 512]>,
    frames: u64,
    now: u64,
    /// Accesses that missed the first level.
    pub l1_misses: u64,
    /// Those that missed the second level, too.
    pub walks: u64,
    /// Entries that walks read.
    pub references: u64,
}

impl Naive {
    /// The hardware of `config`, as far as 4 KB pages go, with nothing mapped.
    ///
    /// # Errors
    /// If it has no arrays for 4 KB pages, or page-walk caches of another kind.
    pub fn new(config: &MmuConfig) -> Result<Naive> {
        let of = |arrays: &[ample_translate::TlbArray]| {
            let mut small = arrays.iter().filter(|a| a.sizes.contains(&PageSize::K4));
            let array = small.next().map(|array| Array::new(array.geometry));
            array.context("no TLB for 4 KB pages")
        };
        let PwcKind::PerLevel(levels) = &config.pwc else {
            bail!("the naive model has page-walk caches one a level");
        };
        Ok(Naive {
            l1: of(&config.l1d)?,
            l2: of(&config.l2)?,
            walk_caches: levels.iter().take(3).map(|&l| Array::new(l)).collect(),
            nodes: vec![[0; 512]],
            frames: 0,
            now: 0,
            l1_misses: 0,
            walks: 0,
            references: 0,
        })
    }

    /// Maps a page.
    pub fn map(&mut self, va: u64) {
        let mut node = 0;
        for level in [4, 3, 2] {
            let slot = slot_of(va, level);
            if self.nodes[node][slot] == 0 {
                self.nodes[node][slot] = self.nodes.len() as u64;
                self.nodes.push([0; 512]);
            }
            node = self.nodes[node][slot] as usize;
        }
        self.frames += 1;
        self.nodes[node][slot_of(va, 1)] = self.frames;
    }

    /// Translates an address; its frame, which is 0 where nothing is mapped.
    pub fn translate(&mut self, va: u64) -> u64 {
        self.now += 1;
        let (page, now) = (va >> 12, self.now);
        if let Some(frame) = self.l1.get(page, now) {
            return frame;
        }
        self.l1_misses += 1;
        let frame = match self.l2.get(page, now) {
            Some(frame) => frame,
            None => {
                let frame = self.walk(va);
                self.l2.put(page, frame, now);
                frame
            }
        };
        self.l1.put(page, frame, now);
        frame
    }

    fn walk(&mut self, va: u64) -> u64 {
        self.walks += 1;
        let (mut node, mut level) = (0, 4);
        for (at, cache) in self.walk_caches.iter_mut().enumerate().rev() {
            if let Some(below) = cache.get(va >> (21 + 9 * at), self.now) {
                (node, level) = (below, at + 1);
            }
        }
        loop {
            self.references += 1;
            let entry = self.nodes[node as usize][slot_of(va, level)];
            if level == 1 {
                return entry;
            }
            self.walk_caches[level - 2].put(va >> (12 + 9 * (level - 1)), entry, self.now);
            (node, level) = (entry, level - 1);
        }
    }
}

fn slot_of(va: u64, level: usize) -> usize {
    (va >> (12 + 9 * (level - 1)) & 511) as usize
}

impl Consumer for Naive {
    fn consume(&mut self, block: &[Access]) -> bool {
        block.iter().all(|access| self.translate(access.va) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ample_machine::{MachineConfig, run_functional};
    use ample_trace::programs::{Gups, Stream};
    use ample_trace::{Program, Recorder};
    use ample_translate::schemes;

    #[test]
    fn it_counts_what_the_simulator_counts() {
        let machine = MachineConfig::preset("skylake").unwrap();
        let programs: [fn() -> Box<dyn Program>; 3] = [
            || Box::new(Gups::new(256 << 20, 3)),
            || Box::new(Gups::reads(24 << 20, 4)),
            || Box::new(Stream::new(64 << 20)),
        ];
        for make in programs {
            let (mut program, accesses) = (make(), 300_000);
            let mut naive = Naive::new(&machine.mmu).unwrap();
            let mut engine = machine.engine(schemes::paging()).unwrap();
            for region in program.regions() {
                let pages = (region.base..region.base + region.bytes).step_by(4096);
                pages.for_each(|va| naive.map(va));
                engine
                    .premap(region.base, region.bytes, PageSize::K4)
                    .unwrap();
            }
            run_functional(&mut engine, program.as_mut(), accesses).unwrap();
            let mut recorder = Recorder::new(&mut naive, accesses);
            make().run(&mut recorder);
            recorder.flush();
            let stats = &engine.mmu.stats;
            let counts = [stats.l1d_misses, stats.walks(), stats.walk_refs()];
            assert!(counts[1] > 500, "{}: {counts:?}", program.name());
            let naive = [naive.l1_misses, naive.walks, naive.references];
            assert_eq!(naive, counts, "{}", program.name());
        }
    }
}
