// SPDX-License-Identifier: MIT OR Apache-2.0
//! Address spaces that share a kernel half: what of it a switch leaves in TLBs, and that every
//! scheme translates to what the page tables of the two halves say.

use ample_kit::random::SplitMix64;
use ample_translate::PageSize::{K4, M2};
use ample_translate::*;

const USER: u64 = 0x10_0000_0000;
const KERNEL: u64 = 0xffff_8000_0000_0000;

fn engine(config: &MmuConfig, scheme: &str) -> Engine {
    let scheme = schemes::by_name(scheme).unwrap();
    let frames = Box::new(IdealFrames::new(256 << 20));
    let mut engine = Engine::new(config, scheme, frames, 1).unwrap();
    engine.add_space().unwrap();
    engine
}

fn reads(engine: &mut Engine, va: u64) -> u64 {
    let before = engine.mmu.stats.walks();
    engine
        .translate(va, Intent::Read, 0, &mut NoMemory)
        .unwrap();
    engine.mmu.stats.walks() - before
}

#[test]
fn global_pages_outlive_a_switch_until_they_are_invalidated() {
    for pcid in [false, true] {
        let config = MmuConfig {
            pcid,
            ..presets::by_name("skylake").unwrap()
        };
        let mut engine = engine(&config, "paging");
        let kernel = engine.share_kernel().unwrap();
        let rights = USER_RW | bits::GLOBAL;
        engine.premap_as(KERNEL, 2 << 20, K4, rights).unwrap();
        let own = KERNEL + (4 << 20);
        engine.premap(own, 4096, K4).unwrap();
        for space in [1, 0] {
            engine.switch_to(space);
            engine.premap(USER, 4096, K4).unwrap();
        }
        let pages = [KERNEL, own, USER];
        let walks = |engine: &mut Engine| pages.map(|va| reads(engine, va));
        assert_eq!(walks(&mut engine), [1, 1, 1]);
        assert_eq!(walks(&mut engine), [0, 0, 0]);
        // The other space has the global page too, and what is not global is walked for.
        engine.switch_to(1);
        assert_eq!(walks(&mut engine), [0, 1, 1]);
        engine.switch_to(0);
        assert_eq!(walks(&mut engine), [0, 1, u64::from(!pcid)]);
        // One page invalidated, then all of many, then everything.
        let page = KERNEL..KERNEL + 4096;
        engine.protect_range(&page, bits::WRITE, 0).unwrap();
        assert_eq!(walks(&mut engine), [1, 0, 0]);
        let many = KERNEL..KERNEL + (40 << 12);
        engine.protect_range(&many, 0, bits::WRITE).unwrap();
        assert_eq!(walks(&mut engine), [1, 1, 0]);
        engine.flush_all();
        assert_eq!(walks(&mut engine), [1, 1, 1]);
        // Without CR4.PGE nothing is kept.
        engine.global_kernel = false;
        engine.switch_to(1);
        assert_eq!(reads(&mut engine, KERNEL), 1);
        assert!(engine.spaces[kernel].lookup(KERNEL).is_some());
        engine.spaces.iter().for_each(Space::assert_sound);
    }
}

#[test]
fn walks_read_the_root_that_is_current() {
    struct Frames(Vec<u64>);
    impl Port for Frames {
        fn walk_start(&mut self, now: u64) -> u64 {
            now
        }
        fn read(&mut self, pa: u64, now: u64) -> (u64, HitLevel) {
            self.0.push(pa >> 12);
            (now, HitLevel::Unknown)
        }
        fn walk_end(&mut self, _start: u64, _end: u64) {}
    }
    let mut engine = engine(&presets::by_name("skylake").unwrap(), "paging");
    engine.share_kernel().unwrap();
    engine.premap(KERNEL, 4096, K4).unwrap();
    let mut roots = Vec::new();
    for space in [0, 1, 0] {
        engine.switch_to(space);
        let mut port = Frames(Vec::new());
        engine
            .translate(KERNEL, Intent::Read, 0, &mut port)
            .unwrap();
        assert!(engine.spaces[space].structure_frames().contains(&port.0[0]));
        roots.push(port.0[0]);
    }
    assert!(roots[0] != roots[1] && roots[0] == roots[2]);
}

#[test]
fn a_half_that_is_in_use_is_not_shared() {
    let mut engine = engine(&presets::by_name("skylake").unwrap(), "paging");
    engine.premap(KERNEL, 4096, K4).unwrap();
    assert_eq!(
        engine.share_kernel(),
        Err(MapError::Occupied { va: KERNEL })
    );
}

/// One random life of two address spaces and their kernel.
fn live(scheme: &str, seed: u64) {
    let mut random = SplitMix64::new(seed);
    let mut config = presets::by_name("skylake").unwrap();
    config.pcid = random.below(2) == 0;
    let l1 = config.l1d.iter_mut().chain(&mut config.l1i);
    for array in l1.chain(&mut config.l2) {
        array.geometry = Geometry::new(16, 4);
    }
    let mut engine = engine(&config, scheme);
    engine.share_kernel().unwrap();
    for step in 0..400 {
        let base = [USER, KERNEL][random.below(2) as usize];
        let block = base + (random.below(4) << 21);
        let page = block + (random.below(20) << 12);
        let range = page..page + (random.below(40) << 12);
        let global = [0, bits::GLOBAL][random.below(2) as usize];
        match random.below(40) {
            0..3 => {
                let size = [K4, M2][random.below(2) as usize];
                let rights = if base == KERNEL { global } else { 0 };
                drop(engine.premap_as(block, 2 << 20, size, USER_RW | rights));
            }
            3 => drop(engine.unmap_range(&range)),
            4 => drop(engine.protect_range(&range, bits::WRITE, 0)),
            5 => drop(engine.protect_range(&range, 0, bits::WRITE)),
            6 if base == KERNEL => drop(engine.protect_range(&range, bits::GLOBAL, global)),
            7 => drop(engine.promote(block)),
            8 => drop(engine.split(block)),
            9..12 => engine.switch_to(random.below(2) as usize),
            12 => engine.flush_all(),
            _ => {}
        }
        let intent = [Intent::Read, Intent::Write][random.below(2) as usize];
        let found = engine.space_of(page).lookup(page);
        let allowed = found.filter(|m| intent == Intent::Read || m.flags & bits::WRITE != 0);
        let answer = engine.translate(page, intent, 0, &mut NoMemory);
        let (got, expected) = (answer.ok().map(|a| a.pa), allowed.map(|m| m.pa));
        assert_eq!(
            got, expected,
            "{scheme}, seed {seed}, step {step}, {page:#x}"
        );
    }
}

#[test]
fn every_scheme_equals_the_tables_of_both_halves() {
    for entry in schemes::REGISTRY {
        (0..200).for_each(|seed| live(entry.name, seed));
    }
}
