// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first level with entries on their way, against one written for reading.

use super::arrivals::Arrivals;
use crate::os::space::USER_RW;
use crate::table::entry::{PageSize, bits};
use crate::{Engine, HitLevel, IdealFrames, Intent, Port, presets, schemes};
use ample_kit::random::SplitMix64;
use std::collections::HashSet;

const BASE: u64 = 1 << 30;
const WAYS: usize = 4;

/// Memory that answers when it likes, so that walks overtake one another, and no two at one time:
/// which of two came first, no reader could know.
struct Whim(SplitMix64, HashSet<u64>);

impl Whim {
    fn new(seed: u64) -> Self {
        Whim(SplitMix64::new(seed), HashSet::new())
    }
}

impl Port for Whim {
    fn walk_start(&mut self, now: u64) -> u64 {
        now
    }

    fn read(&mut self, _pa: u64, now: u64) -> (u64, HitLevel) {
        // Accesses begin at multiples of 16, so that no look-up in the second level ends here.
        let mut done = (now / 16 + 1 + self.0.below(12)) * 16 + 8;
        while !self.1.insert(done) {
            done += 16;
        }
        (done, HitLevel::Unknown)
    }

    fn walk_end(&mut self, _start: u64, _end: u64) {}

    fn takes_time(&self) -> bool {
        true
    }
}

fn engine() -> Engine {
    let mut config = presets::by_name("skylake").unwrap();
    let small = |arrays: &mut Vec<crate::TlbArray>| {
        arrays.truncate(1);
        arrays[0].sizes = vec![PageSize::K4];
        arrays[0].geometry.entries = WAYS as u32;
        arrays[0].geometry.ways = WAYS as u32;
    };
    small(&mut config.l1d);
    small(&mut config.l1i);
    // Of nine pages some have to be walked for.
    small(&mut config.l2);
    let frames = Box::new(IdealFrames::new(1 << 30));
    let mut engine = Engine::new(&config, schemes::paging(), frames, 4).unwrap();
    let rights = (USER_RW & !bits::NO_EXECUTE) | bits::DIRTY;
    engine
        .premap_as(BASE, 4 << 20, PageSize::K4, rights)
        .unwrap();
    engine
}

/// Pages that do not meet in the table of arrivals, as data or as code.
fn pages() -> Vec<u64> {
    let mut taken = HashSet::new();
    let apart = |va: &u64| {
        let places = [false, true].map(|fetch| Arrivals::place(*va, PageSize::K4, fetch));
        let free = places[0] != places[1] && places.iter().all(|place| !taken.contains(place));
        taken.extend(free.then_some(places).into_iter().flatten());
        free
    };
    let pages: Vec<u64> = (0..1024)
        .map(|page| BASE + (page << 12))
        .filter(apart)
        .collect();
    assert!(pages.len() > 12);
    pages
}

/// Four entries, and those on their way with the time at which they are there.
#[derive(Default)]
struct Simple {
    used: Vec<u64>,
    coming: Vec<(u64, u64)>,
    misses: u64,
}

impl Simple {
    fn arrive(&mut self, now: u64) {
        self.coming.sort_unstable();
        while let Some(&(at, page)) = self.coming.first()
            && at <= now
        {
            self.coming.remove(0);
            self.used.truncate(WAYS - 1);
            self.used.insert(0, page);
        }
    }

    /// When the translation is there where that is known without the engine.
    fn access(&mut self, page: u64, now: u64) -> Option<u64> {
        self.arrive(now);
        if let Some(at) = self.used.iter().position(|used| *used == page) {
            let used = self.used.remove(at);
            self.used.insert(0, used);
            return Some(now);
        }
        if let Some((at, _)) = self.coming.iter().find(|(_, coming)| *coming == page) {
            return Some(*at);
        }
        self.misses += 1;
        None
    }
}

#[test]
fn entries_answer_from_when_they_arrive_until_what_replaces_them_does() {
    let pages = pages();
    for seed in 1..=40 {
        let mut random = SplitMix64::new(seed);
        let (mut engine, mut port) = (engine(), Whim::new(seed + 1000));
        let (mut data, mut code) = (Simple::default(), Simple::default());
        let (mut now, mut waits) = (0, 0);
        for step in 0..5_000 {
            now += 16 * (1 + random.below(4));
            let page = pages[random.below(9) as usize];
            let fetch = random.below(4) == 0;
            let (intent, simple) = match fetch {
                true => (Intent::Fetch, &mut code),
                false if random.below(3) == 0 => (Intent::Write, &mut data),
                false => (Intent::Read, &mut data),
            };
            let known = simple.access(page, now);
            let done = engine.translate(page, intent, now, &mut port).unwrap().done;
            match known {
                Some(known) => assert_eq!(done, known, "seed {seed}, step {step}"),
                None => simple.coming.push((done, page)),
            }
            waits += usize::from(known.is_some_and(|known| known > now));
            // Sometimes all that is on its way is there at once: an invalidation of another page.
            if random.below(200) == 0 {
                let other = BASE + (4 << 20);
                engine.mmu.forget_page(other, PageSize::K4, 0);
                data.arrive(u64::MAX);
                code.arrive(u64::MAX);
            }
        }
        let stats = &engine.mmu.stats;
        assert_eq!(stats.l1d_misses, data.misses, "seed {seed}");
        assert_eq!(stats.l1i_misses, code.misses, "seed {seed}");
        assert!(waits > 100, "only {waits} accesses wait");
    }
}

/// A read brings in an entry that is not dirty; a write that meets it on its way goes on as after a
/// hit, and so does the next.
#[test]
fn a_write_to_an_entry_on_its_way_sets_the_dirty_bit() {
    let mut engine = engine();
    let clean = USER_RW & !bits::DIRTY;
    engine
        .premap_as(BASE + (8 << 20), 4096, PageSize::K4, clean)
        .unwrap();
    let (va, mut port) = (BASE + (8 << 20), Whim::new(1));
    let mut access = |intent, now| engine.translate(va, intent, now, &mut port).unwrap().done;
    let read = access(Intent::Read, 1_000);
    assert!(read > 1_000);
    let written = access(Intent::Write, 1_000);
    assert!(written >= read);
    assert_eq!(access(Intent::Write, written), written);
    assert_eq!(engine.mmu.stats.dirty_assists, 1);
}
