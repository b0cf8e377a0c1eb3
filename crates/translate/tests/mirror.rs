// SPDX-License-Identifier: MIT OR Apache-2.0
//! Engines that mirror a guest: whatever a toy guest with page tables of its own does, every scheme
//! translates as the guest's own walk does, and walkers read the guest's entries where they are.

mod counts;
mod guest;
mod paths;

use ample_kit::random::SplitMix64;
use ample_translate::*;
use guest::{Guest, Reads, Recorder};

/// A life of a guest beside the engine that follows it.
struct Life {
    guest: Guest,
    engine: Engine,
    recorder: Recorder,
    prefetches: bool,
}

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |t| t.parse().expect("a number"))
}

/// A preset with small arrays, so that evictions happen as well as hits.
fn small(random: &mut SplitMix64, levels: u8) -> MmuConfig {
    let preset = presets::PRESETS[random.below(presets::PRESETS.len() as u64) as usize].0;
    let mut config = presets::by_name(preset).unwrap();
    let l1 = config.l1d.iter_mut().chain(&mut config.l1i);
    for array in l1.chain(&mut config.l2) {
        array.geometry = Geometry::new(array.geometry.entries.min(16), 4);
    }
    config.levels = levels;
    config.pcid = random.below(3) == 0;
    config.prefetch_next = random.below(4) == 0;
    config
}

impl Life {
    fn new(number: u64) -> Life {
        let mut random = SplitMix64::scattered(number);
        let levels = 4 + random.below(2) as u8;
        let name = schemes::REGISTRY[random.below(schemes::REGISTRY.len() as u64) as usize].name;
        let config = small(&mut random, levels);
        let scheme = schemes::by_name(name).unwrap();
        let mut engine = Engine::mirrored(&config, scheme, 1).unwrap();
        engine.global_kernel = random.below(4) != 0;
        let roots = 2 + random.below(3) as usize;
        let (global, private) = (random.below(3) != 0, random.below(2) != 0);
        let mut life = Life {
            guest: Guest::new(number, levels, roots, global, private),
            engine,
            recorder: Recorder::default(),
            prefetches: config.prefetch_next,
        };
        life.recorder.keeps_global = random.below(2) != 0;
        life.recorder.lines = random.below(2) != 0;
        life.recorder.load_root(&life.guest, &mut life.engine);
        life
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.guest.random.below(bound)
    }

    fn load(&mut self, index: usize) {
        self.guest.current = index;
        self.recorder.load_root(&self.guest, &mut self.engine);
    }

    fn event(&mut self) -> Result<(), String> {
        let va = self.guest.address();
        match self.below(40) {
            0..8 => self.change(va),
            8 | 9 => self.guest.scribble(va),
            10 => self.recorder.invalidate_page(&mut self.engine, va),
            11 => self.recorder.flush_all(&mut self.engine),
            12 => self.load(self.guest.current),
            13 | 14 => {
                let index = self.below(self.guest.roots.len() as u64) as usize;
                self.load(index);
            }
            15 => {
                let index = 1 + self.below(self.guest.roots.len() as u64 - 1) as usize;
                if index != self.guest.current {
                    self.guest.replace(index);
                }
            }
            _ => {
                for _ in 0..1 + self.below(12) {
                    let intent = match self.below(4) {
                        0 => Intent::Write,
                        1 => Intent::Fetch,
                        _ => Intent::Read,
                    };
                    let va = self.guest.address();
                    self.access(va, intent)?;
                }
            }
        }
        Ok(())
    }

    /// Changes a mapping of some root, and makes the hardware forget it as far as it has to.
    fn change(&mut self, va: u64) {
        let index = match self.below(4) {
            0 => self.below(self.guest.roots.len() as u64) as usize,
            _ => self.guest.current,
        };
        let root = self.guest.roots[index];
        let path = self.guest.path(root, va);
        let old = self.guest.seen(va, &path);
        let pick = self.guest.random.next_u64();
        let one = match pick >> 60 {
            0..9 => {
                let level = [1, 1, 1, 2, 2, 3][pick as usize % 6];
                self.guest.map(root, va, level)
            }
            9 | 10 => self.guest.change(root, va, pick, |_| 0),
            11 | 12 => self
                .guest
                .change(root, va, pick, |entry| entry & !bits::WRITE),
            13 => self
                .guest
                .change(root, va, pick, |entry| entry & !bits::ACCESSED),
            _ => {
                // More rights need no flush: the recorder tells before they are used.
                let more = |entry| (entry | bits::WRITE) & !bits::NO_EXECUTE;
                self.guest.change(root, va, pick, more);
                return;
            }
        };
        if index != self.guest.current && !self.guest.is_shared(va) {
            return;
        }
        let known = old.is_none_or(|seen| seen.global);
        match self.below(3) {
            0 if !known => self.load(self.guest.current),
            0 | 1 if one => self.recorder.invalidate_page(&mut self.engine, va),
            _ => self.recorder.flush_all(&mut self.engine),
        }
    }

    /// An access of the guest, and what the engine makes of it.
    fn access(&mut self, va: u64, intent: Intent) -> Result<(), String> {
        let mut path = self.guest.path(self.guest.root(), va);
        let Some(seen) = self.guest.seen(va, &path) else {
            return Ok(());
        };
        let write = intent == Intent::Write;
        if seen.allows(intent) && self.below(8) != 0 {
            self.guest.touch(&mut path, write);
        }
        self.recorder
            .tell(&self.guest, &mut self.engine, va, intent)?;
        let mut reads = Reads::default();
        let answer = self.engine.translate(va, intent, 0, &mut reads);
        let expected = seen.allows(intent).then_some(seen.pa);
        let got = answer.ok().map(|t| t.pa);
        let told = |what: String| {
            let scheme = self.engine.scheme_name();
            Err(format!("{scheme}, {va:#x} {intent:?}: {what}"))
        };
        if got != expected {
            return told(format!("{got:x?} instead of {expected:x?}"));
        }
        let places: Vec<u64> = path.iter().map(|e| e.0).collect();
        if !self.prefetches && !places.ends_with(&reads.0) {
            return told(format!("read {:x?} on the way {places:x?}", reads.0));
        }
        Ok(())
    }

    /// Every page that is known is in the mirror as the guest has it.
    fn check(&self) -> Result<(), String> {
        self.engine.spaces.iter().for_each(Space::assert_sound);
        for &page in self.recorder.known.keys() {
            let va = (page << 12) as i64;
            let va = (va << 4 >> 4) as u64;
            let path = self.guest.path(self.guest.root(), va);
            let Some(seen) = self.guest.seen(va, &path) else {
                continue;
            };
            let found = self.engine.space_of(va).lookup(va);
            let equal = found.is_some_and(|m| m.pa == seen.pa && m.size.level() == seen.level);
            if !equal {
                return Err(format!("{va:#x}: {found:x?} instead of {seen:x?}"));
            }
        }
        Ok(())
    }
}

fn one(number: u64) -> Result<u64, String> {
    let mut life = Life::new(number);
    for _ in 0..400 {
        life.event()?;
    }
    life.check()?;
    Ok(life.engine.mmu.stats.accesses)
}

#[test]
fn every_scheme_translates_as_the_guest_does() {
    let first = setting("AMPLE_SEED", 1) << 32;
    let count = setting("AMPLE_ORDERS", 1_500);
    let mut accesses = 0;
    for number in first..first + count {
        match one(number) {
            Ok(more) => accesses += more,
            Err(what) => panic!(
                "life {number}: {what}\nrerun all with AMPLE_SEED and AMPLE_ORDERS, this one as \
                 a test of its own"
            ),
        }
    }
    println!("{count} lives from {first}, {accesses} accesses: equal");
    assert!(accesses > 300 * count, "{accesses} accesses are too few");
}

/// Anything in place of a path is refused or taken, and the table is sound either way.
#[test]
fn wrong_paths_are_refused_and_change_nothing() {
    let (mut refused, mut taken) = (0, 0);
    for seed in 0..60 {
        let levels = 4 + seed as u8 % 2;
        let mut guest = Guest::new(seed, levels, 1, true, false);
        let mut space = Space::mirrored(1, levels, guest.root());
        for _ in 0..80 {
            let va = guest.address();
            let level = 1 + guest.random.below(3) as u8;
            guest.map(guest.root(), va, level);
            let mut path = guest.path(guest.root(), va);
            let va = spoil(&mut guest.random, va, &mut path);
            let before = leaves(&space);
            let generation = space.generation;
            match space.mirror(va, &path) {
                Ok(_) => taken += 1,
                Err(error) => {
                    refused += 1;
                    assert!(!error.to_string().is_empty());
                    assert_eq!(leaves(&space), before, "{error}");
                    assert_eq!(space.generation, generation);
                }
            }
            space.assert_sound();
        }
    }
    assert!(refused > 1000 && taken > 1000, "{refused}, {taken}");
}

fn leaves(space: &Space) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    let table = &space.table;
    table.for_each_leaf(|va, leaf| all.push((va, leaf.entry)));
    all
}

fn spoil(random: &mut SplitMix64, va: u64, path: &mut Vec<(u64, u64)>) -> u64 {
    let at = random.below(path.len() as u64) as usize;
    let bit = 1 << random.below(64);
    match random.below(16) {
        0 => path[at].0 ^= bit,
        1 => path[at].1 ^= bit,
        2 => path.truncate(at),
        3 => path.push(path[at]),
        4 => return va ^ bit,
        5 => {
            for entry in path.iter_mut() {
                *entry = (random.next_u64(), random.next_u64());
            }
        }
        6 => path[at].1 |= bits::LARGE,
        7 => path.swap(0, at),
        _ => {}
    }
    va
}
