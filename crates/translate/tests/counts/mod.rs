// SPDX-License-Identifier: MIT OR Apache-2.0
//! Misses and walks of plain paging, access by access, against TLBs written as plainly as can be:
//! lists in order of use, which know pages, sizes and whether a page is global, and no tables.

use crate::guest::{Guest, Recorder, Seen, is_kernel};
use ample_translate::PageSize::{G1, K4, M2};
use ample_translate::*;

/// A page in a TLB: the part of it that one entry holds, and the page as the guest mapped it.
#[derive(Clone, Copy)]
struct Held {
    level: u8,
    number: u64,
    page: Seen,
}

/// One array of sets in order of use, most recent first.
struct Plain {
    sizes: Vec<u8>,
    /// Levels of pages held in pieces, with the levels of these.
    pieces: Vec<(u8, u8)>,
    ways: usize,
    sets: Vec<Vec<Held>>,
}

fn number(va: u64, level: u8) -> u64 {
    (va & ((1 << 57) - 1)) >> (3 + 9 * u32::from(level))
}

impl Plain {
    fn new(array: &TlbArray) -> Plain {
        let (entries, ways) = (array.geometry.entries, array.geometry.ways);
        let pieces = array.pieces.iter();
        Plain {
            sizes: array.sizes.iter().map(|s| s.level()).collect(),
            pieces: pieces
                .map(|(page, piece)| (page.level(), piece.level()))
                .collect(),
            ways: ways as usize,
            sets: vec![Vec::new(); (entries / ways) as usize],
        }
    }

    /// The level of the entries that it keeps of a page, if it keeps any.
    fn part(&self, level: u8) -> Option<u8> {
        let whole = self.sizes.contains(&level).then_some(level);
        let piece = self.pieces.iter().find(|(page, _)| *page == level);
        whole.or(piece.map(|(_, piece)| *piece))
    }

    /// The level of the entry that it has.
    fn hit(&mut self, va: u64) -> Option<u8> {
        let count = self.sets.len() as u64;
        (1..=3).find(|&level| {
            let number = number(va, level);
            let set = &mut self.sets[(number % count) as usize];
            let found = |h: &Held| h.level == level && h.number == number;
            let Some(at) = set.iter().position(found) else {
                return false;
            };
            set[..=at].rotate_right(1);
            true
        })
    }

    fn fill(&mut self, va: u64, level: u8, page: Seen) {
        let number = number(va, level);
        let at = (number % self.sets.len() as u64) as usize;
        let held = Held {
            level,
            number,
            page,
        };
        self.sets[at].insert(0, held);
        self.sets[at].truncate(self.ways);
    }

    fn keep(&mut self, keep: impl Fn(&Seen) -> bool) {
        let sets = self.sets.iter_mut();
        sets.for_each(|set| set.retain(|held| keep(&held.page)));
    }
}

/// The hardware: one array a level, and what it has counted.
struct Hardware {
    data: Plain,
    fetch: Plain,
    second: Plain,
    misses: u64,
    walks: u64,
    not_global: u64,
}

impl Hardware {
    fn access(&mut self, va: u64, fetch: bool, page: Seen) {
        let first = if fetch {
            &mut self.fetch
        } else {
            &mut self.data
        };
        if first.hit(va).is_some() {
            return;
        }
        self.misses += 1;
        self.not_global += u64::from(is_kernel(va) && !page.global);
        let found = self.second.hit(va).unwrap_or_else(|| {
            self.walks += 1;
            if let Some(part) = self.second.part(page.level) {
                self.second.fill(va, part, page);
            }
            page.level
        });
        // A page too large for the array leaves a 4 KB part in it, if nothing else is said.
        first.fill(va, first.part(found).unwrap_or(1), page);
    }

    fn keep(&mut self, keep: impl Fn(&Seen) -> bool) {
        for array in [&mut self.data, &mut self.fetch, &mut self.second] {
            array.keep(&keep);
        }
    }
}

struct Counted {
    guest: Guest,
    engine: Engine,
    recorder: Recorder,
    hardware: Hardware,
}

impl Counted {
    fn new(seed: u64, arrays: [TlbArray; 3], guest_global: bool, kept: bool) -> Counted {
        let [l1d, l1i, l2] = arrays;
        let hardware = Hardware {
            data: Plain::new(&l1d),
            fetch: Plain::new(&l1i),
            second: Plain::new(&l2),
            misses: 0,
            walks: 0,
            not_global: 0,
        };
        let config = MmuConfig {
            l1d: vec![l1d],
            l1i: vec![l1i],
            l2: vec![l2],
            pcid: false,
            prefetch_next: false,
            ..presets::by_name("skylake").unwrap()
        };
        let scheme = schemes::by_name("paging").unwrap();
        let mut engine = Engine::mirrored(&config, scheme, 1).unwrap();
        engine.global_kernel = kept;
        let mut counted = Counted {
            guest: Guest::new(seed, 4, 3, guest_global, seed.is_multiple_of(2)),
            engine,
            recorder: Recorder::default(),
            hardware,
        };
        counted.recorder.keeps_global = guest_global && !seed.is_multiple_of(3);
        counted.load(0);
        counted
    }

    fn load(&mut self, index: usize) {
        self.guest.current = index;
        self.recorder.load_root(&self.guest, &mut self.engine);
        let kept = self.engine.global_kernel;
        self.hardware.keep(|page| kept && page.global);
    }

    fn invalidate(&mut self, va: u64) {
        self.recorder.invalidate_page(&mut self.engine, va);
        let outside = |page: &Seen| va.wrapping_sub(page.base) >= page.bytes();
        self.hardware.keep(outside);
    }

    fn flush_all(&mut self) {
        self.recorder.flush_all(&mut self.engine);
        self.hardware.keep(|_| false);
    }

    fn step(&mut self) {
        let va = self.guest.address();
        match self.guest.random.below(200) {
            0..3 => {
                let index = self.guest.random.below(self.guest.roots.len() as u64);
                self.load(index as usize);
            }
            3 => self.flush_all(),
            4..8 => self.invalidate(va),
            8..16 => {
                let level = [1, 1, 2, 3][self.guest.random.below(4) as usize];
                let root = self.guest.root();
                let path = self.guest.path(root, va);
                let global = self.guest.seen(va, &path).is_none_or(|seen| seen.global);
                let one = self.guest.map(root, va, level);
                match self.guest.random.below(3) {
                    0 if !global => self.load(self.guest.current),
                    0 | 1 if one => self.invalidate(va),
                    _ => self.flush_all(),
                }
            }
            draw => {
                let intents = [Intent::Read, Intent::Write, Intent::Fetch];
                self.access(va, intents[draw as usize % 3]);
            }
        }
    }

    fn access(&mut self, va: u64, intent: Intent) {
        let mut path = self.guest.path(self.guest.root(), va);
        let Some(seen) = self.guest.seen(va, &path).filter(|s| s.allows(intent)) else {
            return;
        };
        // Dirty from the start: reloading an entry for the bit is another test's.
        self.guest.touch(&mut path, true);
        let told = self
            .recorder
            .tell(&self.guest, &mut self.engine, va, intent);
        told.unwrap();
        let answer = self.engine.translate(va, intent, 0, &mut NoMemory);
        assert_eq!(answer.map(|t| t.pa), Ok(seen.pa));
        self.hardware.access(va, intent == Intent::Fetch, seen);
        let stats = &self.engine.mmu.stats;
        let counted = [
            stats.l1d_misses + stats.l1i_misses,
            stats.walks(),
            stats.kernel_fills_not_global,
        ];
        let hardware = &self.hardware;
        let expected = [hardware.misses, hardware.walks, hardware.not_global];
        assert_eq!(counted, expected, "misses, walks, fills at {va:#x}");
    }
}

/// To the access: with global pages and without, with a guest's that hardware does not keep, and
/// on arrays that hold all sizes, few, or pieces of the others.
#[test]
fn walks_are_those_of_plain_lists() {
    let (few, two, all) = (&[K4][..], &[K4, M2][..], &[K4, M2, G1][..]);
    let full = Geometry::full;
    let array = TlbArray::new;
    let cut = |array: TlbArray, pieces: &[(PageSize, PageSize)]| TlbArray {
        pieces: pieces.iter().copied().collect(),
        ..array
    };
    let (small, halves) = ([(M2, K4), (G1, K4)], [(G1, M2)]);
    let shapes = [
        (
            array(all, Geometry::new(8, 2)),
            array(all, Geometry::new(32, 4)),
        ),
        (
            array(few, Geometry::new(8, 4)),
            array(two, Geometry::new(24, 3)),
        ),
        (array(two, full(6)), array(all, full(40))),
        (
            array(all, full(6)),
            cut(array(few, Geometry::new(96, 4)), &small),
        ),
        (
            cut(array(two, full(6)), &halves),
            cut(array(two, full(40)), &halves),
        ),
    ];
    let mut walks = [0; 3];
    for seed in 0..60 {
        let (l1, l2) = shapes[seed as usize % 5].clone();
        let arrays = [l1, array(few, full(4)), l2];
        let kind = seed as usize / 5 % 3;
        let (global, kept) = [(true, true), (false, true), (true, false)][kind];
        let mut counted = Counted::new(seed, arrays, global, kept);
        for _ in 0..20_000 {
            counted.step();
        }
        let stats = &counted.engine.mmu.stats;
        assert_eq!((stats.dirty_assists, stats.faults), (0, 0));
        let (walks_here, hits) = (stats.walks(), stats.l2_hits);
        // Pieces are asked for again more rarely.
        let least = if seed % 5 < 3 { 1_000 } else { 200 };
        assert!(
            walks_here > 1_000 && hits > least,
            "{seed}: {walks_here}, {hits}"
        );
        walks[kind] += walks_here;
    }
    println!("walks with global pages, without, and not kept: {walks:?}");
    assert!(walks[0] < walks[1].min(walks[2]));
}
