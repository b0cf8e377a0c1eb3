// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where in physical memory a walker reads: every structure of guest and host has a place of its
//! own, and what a guest keeps lies at guest-physical addresses, which the host translates.

use ample_kit::random::SplitMix64;
use ample_translate::PageSize::{K4, M2};
use ample_translate::*;
use std::collections::HashSet;

const BASE: u64 = 0x10_0000_0000;
const BLOCKS: u64 = 12;
const MEMORY: u64 = 64 << 20;

/// Keeps the frames that were read.
#[derive(Default)]
struct Watch(HashSet<u64>);

impl Port for Watch {
    fn walk_start(&mut self, now: u64) -> u64 {
        now
    }

    fn read(&mut self, pa: u64, now: u64) -> (u64, HitLevel) {
        self.0.insert(pa >> 12);
        (now, HitLevel::Unknown)
    }

    fn walk_end(&mut self, _start: u64, _end: u64) {}
}

/// Maps `blocks` blocks from `base`: plain, perforated with holes, or small pages, by chance.
fn populate(
    space: &mut Space,
    frames: &mut dyn FrameSource,
    (base, blocks): (u64, u64),
    random: &mut SplitMix64,
) {
    for va in (0..blocks).map(|block| base + (block << 21)) {
        match random.below(4) {
            0 => {
                let pfn = frames.alloc(9).unwrap();
                space.map(va, M2, pfn, USER_RW, frames).unwrap();
            }
            1 => {
                for page in 0..512 {
                    let pfn = frames.alloc(0).unwrap();
                    space
                        .map(va + (page << 12), K4, pfn, USER_RW, frames)
                        .unwrap();
                }
            }
            _ => {
                let pfn = frames.alloc(9).unwrap();
                space
                    .map_perforated(va, pfn, [0; 8], USER_RW, frames)
                    .unwrap();
                for _ in 0..1 + random.below(40) {
                    let hole = va + (random.below(512) << 12);
                    let Some(frame) = frames.alloc(0) else { break };
                    space.punch(hole, Some((frame, USER_RW))).unwrap();
                }
            }
        }
    }
    space.pending.clear();
}

/// Frames of a guest's structures, host-physical.
fn translated(guest: &Space, host: &Host) -> HashSet<u64> {
    let frames = guest.structure_frames().into_iter();
    frames
        .map(|frame| host.lookup(frame << 12).expect("backed") >> 12)
        .collect()
}

/// An engine on a random machine, native or virtual.
fn random_machine(random: &mut SplitMix64, virtualised: bool) -> Engine {
    let names: Vec<&str> = schemes::REGISTRY.iter().map(|entry| entry.name).collect();
    let perforated: Vec<&str> = names
        .into_iter()
        .filter(|name| name.starts_with("perforated"))
        .collect();
    let name = perforated[random.below(perforated.len() as u64) as usize];
    let config = MmuConfig {
        levels: 4 + random.below(2) as u8,
        ..presets::by_name("perforated-skylake").unwrap()
    };
    let frames = Box::new(IdealFrames::new(MEMORY));
    let scheme = schemes::by_name(name).unwrap();
    let mut engine = Engine::new(&config, scheme, frames, 1).unwrap();
    let (space, frames) = engine.space_and_frames();
    populate(space, frames, (BASE, BLOCKS), random);
    if virtualised {
        let mut host_frames = IdealFrames::new(1 << 30);
        let mut host = Space::new(0, config.levels, &mut host_frames).unwrap();
        populate(&mut host, &mut host_frames, (0, MEMORY >> 21), random);
        engine.host = Some(Host::new(host, &config, 1).unwrap());
    }
    engine
}

#[test]
fn a_walker_reads_structures_and_nothing_else() {
    for number in 0..60 {
        let mut random = SplitMix64::new(number);
        let mut engine = random_machine(&mut random, number % 3 != 0);
        engine.space().assert_sound();
        let mut watch = Watch::default();
        for _ in 0..4000 {
            let va = BASE + random.below(BLOCKS << 21);
            let read = engine.translate(va, Intent::Read, 0, &mut watch);
            let guest = engine.space().lookup(va).expect("mapped").pa;
            let expected = match &engine.host {
                Some(host) => host.lookup(guest).expect("backed"),
                None => guest,
            };
            assert_eq!(read.map(|answer| answer.pa), Ok(expected), "{va:#x}");
        }
        let Some(host) = engine.host.take() else {
            let own: HashSet<u64> = engine.space().structure_frames().into_iter().collect();
            assert!(watch.0.is_subset(&own), "machine {number}");
            continue;
        };
        host.space.assert_sound();
        let own: HashSet<u64> = host.space.structure_frames().into_iter().collect();
        let guests = translated(engine.space(), &host);
        assert!(own.is_disjoint(&guests), "machine {number}");
        let stray: Vec<&u64> = watch
            .0
            .iter()
            .filter(|frame| !own.contains(frame) && !guests.contains(frame))
            .collect();
        assert!(stray.is_empty(), "machine {number} read frames {stray:x?}");
    }
}

/// Guest and host make every block perforated in the same way; the same hole of both is asked for
/// at two addresses, and reading the guest's bitmap takes a walk of the host.
#[test]
fn bitmaps_of_guest_and_host_are_two() {
    let config = MmuConfig {
        nested_tlb: None,
        nested_cycles: 1,
        reference_cycles: 0,
        ..presets::by_name("perforated-skylake").unwrap()
    };
    let frames = Box::new(IdealFrames::new(MEMORY));
    let scheme = schemes::by_name("perforated").unwrap();
    let mut engine = Engine::new(&config, scheme, frames, 1).unwrap();
    let holed = [1, 0, 0, 0, 0, 0, 0, 0];
    let (space, frames) = engine.space_and_frames();
    let pfn = frames.alloc(9).unwrap();
    space
        .map_perforated(BASE, pfn, holed, USER_RW, frames)
        .unwrap();
    let guest_place = space.bitmap_pa(pfn >> 9, 0).unwrap();
    assert!(
        guest_place < MEMORY,
        "the guest's bitmap lies in its memory"
    );
    let mut host_frames = IdealFrames::new(1 << 30);
    let mut host = Space::new(0, config.levels, &mut host_frames).unwrap();
    for gpa in (0..MEMORY).step_by(2 << 20) {
        let block = host_frames.alloc(9).unwrap();
        let frames = &mut host_frames;
        host.map_perforated(gpa, block, holed, USER_RW, frames)
            .unwrap();
    }
    host.pending.clear();
    let host_place = host.bitmap_pa(host.lookup(8 << 12).unwrap().pa >> 21, 0);
    engine.host = Some(Host::new(host, &config, 1).unwrap());
    let mut watch = Watch::default();
    let va = BASE + (1 << 12);
    engine.translate(va, Intent::Read, 0, &mut watch).unwrap();
    let host = engine.host.as_ref().unwrap();
    let guest_pa = host.lookup(guest_place).expect("the host backs the bitmap");
    assert!(watch.0.contains(&(guest_pa >> 12)));
    assert!(watch.0.contains(&(host_place.unwrap() >> 12)));
    assert_ne!(guest_pa >> 12, host_place.unwrap() >> 12);
    let stats = &engine.mmu.stats;
    // The bitmap's page and the guest's four nodes and block each take a walk of the host.
    assert!(stats.host_refs_by_level[4] >= 1, "{stats:?}");
    assert_eq!(
        stats.refs_at[0].iter().sum::<u64>(),
        1,
        "the guest's bitmap"
    );
}

/// Entries on the way to `va`, the root's first.
fn path(table: &PageTable, va: u64) -> Vec<u64> {
    let (mut node, mut entries) = (0, Vec::new());
    for level in (1..=table.levels()).rev() {
        let entry = table.entry(node, va, level);
        entries.push(entry);
        if entry & bits::PRESENT == 0 || entry & bits::LARGE != 0 {
            break;
        }
        node = PageTable::child(entry);
    }
    entries
}

/// Walkers set the accessed bit of every entry that they go through, of guest and host, and of no
/// other: that is how an OS finds the parts of a table that are in use.
#[test]
fn accessed_bits_are_set_on_the_whole_way() {
    const UNUSED: u64 = BASE + (1 << 39);
    for virtualised in [false, true] {
        let config = presets::by_name("skylake").unwrap();
        let frames = Box::new(IdealFrames::new(MEMORY));
        let scheme = schemes::by_name("paging").unwrap();
        let mut engine = Engine::new(&config, scheme, frames, 1).unwrap();
        let flags = USER_RW & !bits::ACCESSED;
        let (space, frames) = engine.space_and_frames();
        for va in [BASE, BASE + 4096, UNUSED] {
            let pfn = frames.alloc(0).unwrap();
            space.map(va, K4, pfn, flags, frames).unwrap();
        }
        if virtualised {
            let mut host_frames = IdealFrames::new(1 << 30);
            let mut host = Space::new(0, config.levels, &mut host_frames).unwrap();
            for gpa in (0..MEMORY).step_by(2 << 20) {
                let pfn = host_frames.alloc(9).unwrap();
                host.map(gpa, M2, pfn, flags, &mut host_frames).unwrap();
            }
            engine.host = Some(Host::new(host, &config, 1).unwrap());
        }
        let answer = engine.translate(BASE, Intent::Read, 0, &mut NoMemory);
        assert!(answer.is_ok());
        let all_set = |entries: &[u64]| entries.iter().all(|e| e & bits::ACCESSED != 0);
        let none_set = |entries: &[u64]| entries.iter().all(|e| e & bits::ACCESSED == 0);
        let table = &engine.space().table;
        let used = path(table, BASE);
        assert_eq!(used.len(), 4);
        assert!(all_set(&used), "{used:x?}");
        assert!(none_set(&path(table, BASE + 4096)[3..]));
        assert!(none_set(&path(table, UNUSED)));
        let Some(host) = &engine.host else { continue };
        let gpa = used[3] & bits::FRAME;
        assert!(all_set(&path(&host.space.table, gpa)));
        assert!(none_set(&path(&host.space.table, MEMORY / 2)[2..]));
    }
}
