// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts that have a formula: the model must give the formula's value.

use ample_translate::PageSize::{K4, M2};
use ample_translate::*;

/// SplitMix64, to be independent of any generator the model uses.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// One TLB array for 4 KB (and 2 MB) pages, no second level, one page-walk cache for PDEs.
fn bare(l1: Geometry, pde: Option<Geometry>) -> MmuConfig {
    MmuConfig {
        l1d: vec![TlbArray::new(&[K4, M2], l1)],
        l2: vec![],
        pwc: pde.map_or(PwcKind::Absent, |g| PwcKind::PerLevel(vec![g])),
        ..presets::skylake()
    }
}

fn engine(config: &MmuConfig, name: &str, bytes: u64, size: PageSize) -> Engine {
    let scheme = scheme::by_name(name).unwrap();
    let frames = Box::new(IdealFrames::new(bytes * 2 + (64 << 20)));
    let mut engine = Engine::new(config, scheme, frames, 1).unwrap();
    engine.premap(BASE, bytes, size).unwrap();
    engine
}

const BASE: u64 = 1 << 40;

fn uniform(engine: &mut Engine, bytes: u64, accesses: u64, seed: u64) {
    let mut state = seed;
    for _ in 0..accesses {
        let va = BASE + (random(&mut state) % (bytes / 8)) * 8;
        engine
            .translate(va, Intent::Read, 0, &mut NoMemory)
            .unwrap();
    }
}

/// Miss ratio of the first level after a warm-up.
fn miss_ratio(engine: &mut Engine, bytes: u64, seed: u64) -> f64 {
    uniform(engine, bytes, 200_000, seed);
    engine.mmu.stats = Stats::default();
    uniform(engine, bytes, 4_000_000, seed ^ 77);
    engine.mmu.stats.l1d_misses as f64 / engine.mmu.stats.accesses as f64
}

#[test]
fn uniform_access_misses_one_minus_e_over_w() {
    for (entries, ways, pages) in [
        (64, 64, 1024u64),
        (1536, 12, 4096),
        (96, 6, 480),
        (512, 4, 768),
    ] {
        let config = bare(Geometry::new(entries, ways), None);
        let mut engine = engine(&config, "paging", pages << 12, K4);
        let measured = miss_ratio(&mut engine, pages << 12, 5);
        let expected = 1.0 - f64::from(entries) / pages as f64;
        // Sets hold pages / sets pages each, so that set-associativity changes nothing here.
        let error = (measured - expected).abs();
        assert!(
            error < 0.002,
            "{entries}/{ways}, {pages} pages: {measured} not {expected}"
        );
    }
}

#[test]
fn reach_is_exact() {
    let config = bare(Geometry::full(64), None);
    for (pages, misses_per_round) in [(64u64, 0), (65, 65)] {
        // A cyclic sweep under LRU: everything hits up to the reach, nothing just above it.
        let mut engine = engine(&config, "paging", pages << 12, K4);
        for round in 0..3 {
            engine.mmu.stats = Stats::default();
            for page in 0..pages {
                engine
                    .translate(BASE + (page << 12), Intent::Read, 0, &mut NoMemory)
                    .unwrap();
            }
            let expected = if round == 0 { pages } else { misses_per_round };
            assert_eq!(
                engine.mmu.stats.l1d_misses, expected,
                "{pages} pages, round {round}"
            );
        }
    }
}

#[test]
fn walks_reference_what_the_walk_caches_leave() {
    // W pages under W/512 PDEs, E of them cached: each walk reads the PTE, and above it all
    // levels with probability 1 - E/(W/512).
    let (pages, cached) = (65_536u64, 32u32);
    let config = bare(Geometry::full(32), Some(Geometry::full(cached)));
    let mut engine = engine(&config, "paging", pages << 12, K4);
    uniform(&mut engine, pages << 12, 200_000, 1);
    engine.mmu.stats = Stats::default();
    uniform(&mut engine, pages << 12, 3_000_000, 2);
    let stats = &engine.mmu.stats;
    let walks = stats.walks_data as f64;
    assert_eq!(stats.refs_by_level[1], stats.walks_data);
    let pde_misses = 1.0 - f64::from(cached) / (pages / 512) as f64;
    for level in 2..=4 {
        let measured = stats.refs_by_level[level] as f64 / walks;
        assert!(
            (measured - pde_misses).abs() < 0.002,
            "level {level}: {measured} {pde_misses}"
        );
    }
    let histogram: u64 = stats.trajectory_histogram().values().sum();
    assert_eq!(histogram, stats.walks_data);
}

#[test]
fn five_levels_cost_one_more_reference() {
    let mut config = bare(Geometry::full(4), None);
    for levels in [4u8, 5] {
        config.levels = levels;
        let mut engine = engine(&config, "paging", 4 << 20, K4);
        engine
            .translate(BASE, Intent::Read, 0, &mut NoMemory)
            .unwrap();
        assert_eq!(engine.mmu.stats.walk_refs(), u64::from(levels));
    }
}

#[test]
fn a_segment_never_misses_inside() {
    let mut engine = engine(&presets::skylake(), "segment", 4096, K4);
    let (space, frames) = engine.space_and_frames();
    let pfn = frames.alloc_run(1000).unwrap();
    space.set_segment(2 << 40, 1000 << 12, pfn, frames).unwrap();
    let mut state = 9;
    for _ in 0..100_000 {
        let va = (2 << 40) + random(&mut state) % (1000 << 12);
        let answer = engine
            .translate(va, Intent::Write, 0, &mut NoMemory)
            .unwrap();
        assert_eq!(answer.pa, (pfn << 12) + (va - (2 << 40)));
    }
    let stats = &engine.mmu.stats;
    assert_eq!(
        (stats.bypassed, stats.l1d_misses, stats.walks()),
        (100_000, 0, 0)
    );
    assert!(
        engine
            .translate((2 << 40) - 1, Intent::Read, 0, &mut NoMemory)
            .is_err()
    );
    assert!(
        engine
            .translate((2 << 40) + (1000 << 12), Intent::Read, 0, &mut NoMemory)
            .is_err()
    );
}

/// A virtual machine without any walk cache: every reference is made.
fn nested(config: &MmuConfig, guest: PageSize, host: PageSize, segment: bool) -> Engine {
    let bytes = 64u64 << 20;
    let mut engine = engine(config, "paging", bytes, guest);
    let guest_memory = 256u64 << 20;
    let mut frames = IdealFrames::new(1 << 40);
    let mut space = Space::new(0, 4, &mut frames).unwrap();
    if segment {
        let pfn = frames.alloc_run(guest_memory >> 12).unwrap();
        space
            .set_segment(0, guest_memory, pfn, &mut frames)
            .unwrap();
    } else {
        for gpa in (0..guest_memory).step_by(host.bytes() as usize) {
            let pfn = frames.alloc(host.order()).unwrap();
            space.map(gpa, host, pfn, USER_RW, &mut frames).unwrap();
        }
    }
    engine.host = Some(Host::new(space, config).unwrap());
    engine
}

#[test]
fn nested_walks_take_at_most_24_references() {
    let none = MmuConfig {
        nested_tlb: None,
        ..bare(Geometry::full(4), None)
    };
    for (guest, host, expected) in [(K4, K4, 24), (K4, M2, 19), (M2, K4, 19), (M2, M2, 15)] {
        let mut engine = nested(&none, guest, host, false);
        let answer = engine
            .translate(BASE + 0x1234, Intent::Read, 0, &mut NoMemory)
            .unwrap();
        assert_eq!(
            engine.mmu.stats.walk_refs(),
            expected,
            "{guest:?} on {host:?}"
        );
        let gpa = engine.space().lookup(BASE + 0x1234).unwrap().pa;
        assert_eq!(Some(answer.pa), engine.host.as_ref().unwrap().lookup(gpa));
    }
    // A host segment takes one dimension away (Direct Segments, section 3.3).
    let mut engine = nested(&none, K4, K4, true);
    engine
        .translate(BASE, Intent::Read, 0, &mut NoMemory)
        .unwrap();
    assert_eq!(engine.mmu.stats.walk_refs(), 4);
    // With all caches in place the bound still holds.
    let mut engine = nested(&presets::skylake(), K4, K4, false);
    uniform(&mut engine, 64 << 20, 200_000, 3);
    assert!(engine.mmu.stats.longest_walk_refs <= 24);
}

#[test]
fn no_holes_equal_2mb_pages_to_the_access() {
    let bytes = 256u64 << 20;
    let mut plain = engine(&presets::perforated_skylake(), "perforated", bytes, M2);
    let mut conventional = engine(&presets::perforated_skylake(), "paging", bytes, M2);
    uniform(&mut plain, bytes, 500_000, 4);
    uniform(&mut conventional, bytes, 500_000, 4);
    let (a, b) = (&plain.mmu.stats, &conventional.mmu.stats);
    assert_eq!(
        (
            a.l1d_misses,
            a.l2_hits,
            a.walks(),
            a.walk_refs(),
            a.bitmap_lookups
        ),
        (b.l1d_misses, b.l2_hits, b.walks(), b.walk_refs(), 0)
    );
}

#[test]
fn all_holes_equal_4kb_pages_plus_bitmap_cost() {
    let bytes = 64u64 << 20;
    let config = MmuConfig {
        l2: vec![TlbArray::new(&[K4, M2], Geometry::full(16))],
        ..presets::perforated_skylake()
    };
    let mut small = engine(&config, "paging", bytes, K4);
    let scheme = scheme::by_name("perforated").unwrap();
    let frames = Box::new(IdealFrames::new(bytes * 4));
    let mut holed = Engine::new(&config, scheme, frames, 1).unwrap();
    let (space, frames) = holed.space_and_frames();
    for va in (BASE..BASE + bytes).step_by(M2.bytes() as usize) {
        let pfn = frames.alloc(9).unwrap();
        space
            .map_perforated(va, pfn, [u64::MAX; 8], USER_RW, frames)
            .unwrap();
        for i in 0..512 {
            let frame = frames.alloc(0).unwrap();
            space.punch(va + i * 4096, Some((frame, USER_RW))).unwrap();
        }
    }
    uniform(&mut small, bytes, 400_000, 6);
    uniform(&mut holed, bytes, 400_000, 6);
    let (a, b) = (&holed.mmu.stats, &small.mmu.stats);
    // First-level misses are those of 4 KB pages; every one that missed the second level asks
    // the bitmap and reads exactly one shadow entry.
    assert_eq!(a.l1d_misses, b.l1d_misses);
    assert_eq!(a.hole_walks, a.bitmap_lookups);
    assert_eq!(a.refs_by_level[1], a.hole_walks);
    assert!(a.hole_walks >= b.walks_data);
}

#[test]
fn host_memory_stays_below_two_bytes_a_page() {
    let bytes = 8u64 << 30;
    let mut engine = engine(&presets::skylake(), "paging", bytes, K4);
    let pages = (bytes >> 12) as usize;
    let space = engine.space();
    let overhead = space.table.overhead_bytes() + space.pending.capacity() * 32;
    assert!(
        overhead < 2 * pages,
        "{overhead} bytes beside the tables for {pages} pages"
    );
}

#[test]
fn shootdowns_grow_with_cores_and_stop_growing_with_pages() {
    let config = presets::contiguitas_table1();
    assert_eq!(config.shootdown_cycles(1, 0), 250);
    assert_eq!(
        config.shootdown_cycles(1, 7) - config.shootdown_cycles(1, 6),
        1000
    );
    assert_eq!(
        config.shootdown_cycles(34, 3),
        config.shootdown_cycles(500, 3)
    );
}

/// Direct Segments, section 3.3: registers of its own for the kernel half, chosen by the sign bit.
#[test]
fn the_kernel_has_a_segment_of_its_own() {
    const KERNEL: u64 = 0xffff_8880_0000_0000;
    let mut engine = engine(&presets::skylake(), "segment", 0, K4);
    let bytes = 64 << 12;
    for base in [BASE, KERNEL] {
        let (space, frames) = engine.space_and_frames();
        let pfn = frames.alloc_run(64).unwrap();
        space.set_segment(base, bytes, pfn, frames).unwrap();
    }
    let read = |engine: &mut Engine, va: u64| {
        let answer = engine.translate(va, Intent::Read, 0, &mut NoMemory);
        let expected = engine.space().lookup(va).map(|m| m.pa);
        assert_eq!(answer.map(|a| a.pa).ok(), expected, "{va:#x}");
        expected
    };
    for page in 0..64 {
        let user = read(&mut engine, BASE + (page << 12)).unwrap();
        let kernel = read(&mut engine, KERNEL + (page << 12)).unwrap();
        assert_ne!(user, kernel);
    }
    assert_eq!(engine.mmu.stats.bypassed, 128);
    assert_eq!(engine.mmu.stats.walks_data, 0);
    // Shrinking one leaves the other as it is, and what it gave up is paged from now on.
    let (space, frames) = engine.space_and_frames();
    space.shrink_segment(KERNEL + (32 << 12), frames).unwrap();
    engine.sync();
    read(&mut engine, KERNEL + (40 << 12)).unwrap();
    assert_eq!(engine.mmu.stats.walks_data, 1);
    assert_eq!(engine.space().segment.unwrap().bytes(), bytes);
    let (space, frames) = engine.space_and_frames();
    let across = space.set_segment(0x7fff_ffff_ffff_f000, 2 << 12, 0, frames);
    assert!(across.unwrap_err().to_string().contains("kernel addresses"));
}
