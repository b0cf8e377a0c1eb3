// SPDX-License-Identifier: MIT OR Apache-2.0
//! A block of accesses leaves what its accesses leave one after another: the same counts, the same
//! entries in the same order of use, the same accessed and dirty bits, the same first fault. Every
//! preset, and small and odd arrays, over random lives of two address spaces.

use ample_kit::random::SplitMix64;
use ample_translate::PageSize::{G1, K4, M2};
use ample_translate::*;

/// Mapped and unmapped 2 MB blocks from here on, and one page of 1 GB.
const BASE: u64 = 0x3f_f000_0000;
const BLOCKS: u64 = 400;
const HUGE: u64 = 0x7000_0000_0000;
/// The last gigabyte of all.
const TOP: u64 = 0xffff_ffff_c000_0000;
const DEMAND: u64 = 0x5000_0000_0000;

type Accesses = Vec<(u64, Intent)>;

/// A machine under both ways of translating.
struct Twins {
    by_block: Engine,
    one_by_one: Engine,
    random: SplitMix64,
    /// How far apart addresses lie.
    blocks: u64,
}

fn engine(config: &MmuConfig, scheme: &str) -> Engine {
    let frames = Box::new(IdealFrames::new(16 << 30));
    let scheme = schemes::by_name(scheme).unwrap();
    let mut engine = Engine::new(config, scheme, frames, 1).unwrap();
    engine.add_space().unwrap();
    for at in 0..2 {
        engine.switch_to(at);
        // Pages in all states: of each size, executable, read-only, clean, and never accessed.
        for block in (0..BLOCKS).filter(|block| block % 8 != 7) {
            let va = BASE + (block << 21);
            let size = if block % 8 == 3 { M2 } else { K4 };
            let gone = match block {
                5 => bits::WRITE,
                13 | 19 => bits::DIRTY,
                21 => bits::ACCESSED,
                29 => bits::DIRTY | bits::ACCESSED,
                37 => bits::WRITE | bits::DIRTY,
                _ => 0,
            };
            let code = if block % 4 == 1 { bits::NO_EXECUTE } else { 0 };
            let shared = match block {
                5 => bits::COW,
                _ => 0,
            };
            let rights = USER_RW & !gone & !code | shared;
            engine.premap_as(va, 2 << 20, size, rights).unwrap();
        }
        engine.premap(HUGE, 1 << 30, G1).unwrap();
        engine.premap(TOP, 16 << 20, K4).unwrap();
        let vma = |base, bytes, flags, largest| Vma {
            base,
            end: base + bytes,
            flags,
            largest,
        };
        engine.vmas[at] = vec![
            vma(DEMAND, 64 << 20, USER_RW & !bits::DIRTY, K4),
            vma(DEMAND + (1 << 30), 1 << 30, USER_RW, M2),
        ];
    }
    engine
}

impl Twins {
    fn new(config: &MmuConfig, scheme: &str, seed: u64) -> Twins {
        let mut random = SplitMix64::new(seed);
        let blocks = [1, 8, BLOCKS][random.below(3) as usize];
        Twins {
            by_block: engine(config, scheme),
            one_by_one: engine(config, scheme),
            random,
            blocks,
        }
    }

    fn both(&mut self, mut change: impl FnMut(&mut Engine)) {
        change(&mut self.by_block);
        change(&mut self.one_by_one);
    }

    fn address(&mut self) -> u64 {
        let random = &mut self.random;
        let mut inside = BASE + random.below(self.blocks << 21);
        if inside >> 21 & 7 == 7 && random.below(100) > 0 {
            inside -= 1 << 21;
        }
        match random.below(64) {
            0 => HUGE + random.below(1 << 30),
            1 => DEMAND + random.below(64 << 20),
            2 => DEMAND + (1 << 30) + random.below(16 << 20),
            // Sometimes where nothing is, or can be.
            3 if random.below(20) == 0 => BASE + (7 << 21),
            4 if random.below(20) == 0 => 1 << 62,
            5 | 6 => TOP + random.below(16 << 20),
            // A few pages, over and over.
            7..24 => BASE + (random.below(12) << 12 << (9 * random.below(2))),
            _ => inside,
        }
    }

    fn accesses(&mut self, count: u64) -> Accesses {
        let fetches = self.random.below(3) == 0;
        let mut all: Accesses = Vec::new();
        while (all.len() as u64) < count {
            let va = self.address();
            // Code is in other pages, now and then in those of data.
            let code = BASE + (1 << 21) + self.random.below(60 << 12);
            for at in 0..1 + self.random.below(4) {
                let what = self.random.below(if fetches { 4 } else { 3 });
                all.push(match what {
                    0 => (va + at * 8, Intent::Write),
                    3 if va & 0x3f000 != 0 => (code, Intent::Fetch),
                    3 => (va, Intent::Fetch),
                    _ => (va + at * 8, Intent::Read),
                });
            }
        }
        all
    }

    /// Something that an operating system does.
    fn event(&mut self) {
        let block = BASE + (self.random.below(self.blocks) << 21);
        let page = block + (self.random.below(512) << 12);
        let count = self.random.below(40);
        match self.random.below(12) {
            0 => self.both(|e| drop(e.unmap_range(&(page..page + (count << 12))))),
            1 => self.both(|e| drop(e.protect_range(&(page..page + 4096), bits::WRITE, 0))),
            2 => self.both(|e| drop(e.protect_range(&(block..block + (2 << 20)), bits::DIRTY, 0))),
            3 => self.both(|e| drop(e.protect_range(&(page..page + 4096), bits::ACCESSED, 0))),
            4 => self.both(|e| drop(e.promote(block))),
            5 => self.both(|e| drop(e.split(block))),
            6 => self.both(|e| e.switch_to(count as usize % 2)),
            7 => self.both(|e| e.mmu.flush(None)),
            8 => self.both(|e| e.mmu.watched = block..block + (count << 20)),
            9 => self.both(|e| drop(e.premap(block, 2 << 20, if count < 20 { K4 } else { M2 }))),
            // Shared until written; and a change whose invalidation is still to come.
            10 => {
                self.both(|e| drop(e.protect_range(&(page..page + 4096), bits::WRITE, bits::COW)))
            }
            _ => self.both(|e| drop(e.space().protect(page, bits::WRITE, 0))),
        }
    }

    /// Translates a block both ways.
    fn run(&mut self, block: &[(u64, Intent)], far: bool) {
        let mut rest = block;
        loop {
            let done = self.by_block.translate_block(rest, |access| *access, far);
            let one = |(at, &(va, intent)): (usize, &(u64, Intent))| {
                let answer = self.one_by_one.translate(va, intent, 0, &mut NoMemory);
                answer.map(drop).map_err(|bad| (at, bad))
            };
            assert_eq!(done, rest.iter().enumerate().try_for_each(one));
            match done {
                // What comes after a fault that nobody answers is as good a block.
                Err((at, _)) => rest = &rest[at + 1..],
                Ok(()) => break,
            }
        }
        let [stats, expected] = [&self.by_block, &self.one_by_one].map(|e| &e.mmu.stats);
        assert_eq!(stats.accesses, expected.accesses);
        assert_eq!(stats.l1d_misses, expected.l1d_misses);
        assert_eq!(stats.l1i_misses, expected.l1i_misses);
        assert_eq!(stats.walks(), expected.walks());
        assert_eq!(stats.pwc_hits, expected.pwc_hits);
        assert_eq!(stats.refs_by_level, expected.refs_by_level);
        assert_eq!(self.by_block.os_cycles, self.one_by_one.os_cycles);
    }

    /// Every array, every counter, every entry of the page tables.
    fn compare(&mut self) {
        // What was used last is known again with the next access.
        self.both(|e| e.mmu.switched());
        let [mine, expected] = [&self.by_block, &self.one_by_one].map(|e| format!("{:?}", e.mmu));
        if mine != expected {
            let differs = mine.bytes().zip(expected.bytes()).position(|(a, b)| a != b);
            let at = differs.unwrap_or(0).saturating_sub(200);
            let part = |text: &str| text.chars().skip(at).take(400).collect::<String>();
            panic!("{}\ninstead of\n{}", part(&mine), part(&expected));
        }
        let spaces = self.by_block.spaces.iter().zip(&self.one_by_one.spaces);
        for (mine, expected) in spaces {
            assert!(mine.table == expected.table, "tables of {}", mine.asid);
        }
    }
}

fn live(config: &MmuConfig, scheme: &str, seed: u64) -> TranslationStats {
    let mut twins = Twins::new(config, scheme, seed);
    for _ in 0..12 {
        let count = [1, 7, 64, 200, 1024, 3000][twins.random.below(6) as usize];
        let (block, far) = (twins.accesses(count), twins.random.below(2) == 0);
        twins.run(&block, far);
        for _ in 0..twins.random.below(3) {
            twins.event();
        }
    }
    twins.compare();
    twins.by_block.mmu.stats
}

/// The presets as they are, with small arrays, and with arrays that share nothing with them.
fn configs() -> Vec<MmuConfig> {
    let mut all = Vec::new();
    for (name, _) in presets::PRESETS {
        let config = presets::by_name(name).unwrap();
        let mut small = config.clone();
        let firsts = small.l1d.iter_mut().chain(&mut small.l1i);
        for array in firsts.chain(&mut small.l2) {
            array.geometry = Geometry::new(array.geometry.entries.min(16), 4);
        }
        all.extend([config, small]);
    }
    let skylake = presets::by_name("skylake").unwrap();
    all.push(MmuConfig {
        prefetch_next: true,
        ..skylake.clone()
    });
    all.push(MmuConfig {
        pwc: PwcKind::Absent,
        pcid: false,
        ..skylake.clone()
    });
    // Fewer caches than levels, sets whose number is no power of two, and no large data entries.
    all.push(MmuConfig {
        pwc: PwcKind::PerLevel(vec![Geometry::new(6, 2)]),
        l1d: vec![TlbArray::new(&[K4], Geometry::new(24, 8))],
        l2: vec![TlbArray::new(&[K4, M2, G1], Geometry::new(21, 7))],
        levels: 5,
        ..skylake.clone()
    });
    for first in [Replacement::Random, Replacement::Srrip] {
        all.push(replacing(&skylake, first, Replacement::Srrip, 4));
        all.push(replacing(&skylake, first, Replacement::Random, 24));
    }
    all.push(replacing(
        &skylake,
        Replacement::Plru,
        Replacement::Srrip,
        8,
    ));
    all.push(cut(&skylake, true));
    all.push(cut(&skylake, false));
    all
}

/// With other policies than LRU: in the first level, and behind it.
fn replacing(config: &MmuConfig, first: Replacement, rest: Replacement, ways: u32) -> MmuConfig {
    let shape = |replacement| Geometry {
        replacement,
        seed: 9 * u32::from(replacement == Replacement::Random),
        ..Geometry::new(2 * ways, ways)
    };
    let array = |sizes: &[PageSize], replacement| vec![TlbArray::new(sizes, shape(replacement))];
    MmuConfig {
        l1d: array(&[K4, M2], first),
        l1i: array(&[K4], first),
        l2: array(&[K4, M2, G1], rest),
        pwc: PwcKind::PerLevel(vec![shape(rest), shape(first), shape(rest)]),
        ..config.clone()
    }
}

/// With pieces of large pages in the second level, and in the first level too or not.
fn cut(config: &MmuConfig, first: bool) -> MmuConfig {
    let mut small = TlbArray::new(&[K4], Geometry::new(16, 4));
    small.pieces = [(M2, K4), (G1, K4)].into();
    let mut pair = TlbArray::new(&[K4, M2], Geometry::new(24, 4));
    pair.pieces = [(G1, M2)].into();
    MmuConfig {
        l1d: if first {
            vec![pair.clone()]
        } else {
            config.l1d.clone()
        },
        l2: vec![if first { pair } else { small }],
        ..config.clone()
    }
}

#[test]
fn a_block_is_its_accesses_one_after_another() {
    let (mut hits, mut faults, mut assists) = (0, 0, 0);
    for (number, config) in configs().iter().enumerate() {
        for seed in 0..12 {
            let stats = live(config, "paging", 100 * number as u64 + seed);
            hits += stats.l2_hits;
            faults += stats.faults;
            assists += stats.dirty_assists;
        }
    }
    assert!(
        hits > 10_000 && faults > 1_000 && assists > 1_000,
        "{hits} {faults} {assists}"
    );
}

#[test]
fn other_schemes_take_blocks_one_access_at_a_time() {
    for scheme in ["colt", "perforated"] {
        live(&presets::by_name("skylake").unwrap(), scheme, 7);
    }
}
