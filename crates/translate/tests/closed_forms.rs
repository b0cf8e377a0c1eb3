// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures that have a formula, beside those of the experiment `exactness` in the crate above.

use ample_kit::random::SplitMix64;
use ample_translate::PageSize::{G1, K4, M2};
use ample_translate::*;

fn engine(config: &MmuConfig, name: &str, bytes: u64, size: PageSize) -> Engine {
    let scheme = schemes::by_name(name).unwrap();
    let frames = Box::new(IdealFrames::new(bytes * 2 + (64 << 20)));
    let mut engine = Engine::new(config, scheme, frames, 1).unwrap();
    engine.premap(BASE, bytes, size).unwrap();
    engine
}

const BASE: u64 = 1 << 40;

#[test]
fn host_memory_stays_below_two_bytes_a_page() {
    let bytes = 8u64 << 30;
    let mut engine = engine(&presets::by_name("skylake").unwrap(), "paging", bytes, K4);
    let pages = (bytes >> 12) as usize;
    let space = engine.space();
    let overhead = space.table.overhead_bytes() + space.pending.capacity() * 32;
    assert!(
        overhead < 2 * pages,
        "{overhead} bytes beside the tables for {pages} pages"
    );
}

/// Faulted walks counted as ended, which made the mean walk too short under demand paging.
#[test]
fn a_walk_that_faults_does_not_end() {
    let config = presets::by_name("skylake").unwrap();
    let mut engine = engine(&config, "paging", 4096, K4);
    for va in [BASE + (1 << 30), BASE + (2 << 30), BASE] {
        let _ = engine.translate(va, Intent::Read, 0, &mut NoMemory);
    }
    let stats = &engine.mmu.stats;
    assert_eq!((stats.walks_data, stats.walks_ended), (3, 1));
}

#[test]
fn shootdowns_grow_with_cores_and_stop_growing_with_pages() {
    let config = presets::by_name("contiguitas-table1").unwrap();
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
    let mut engine = engine(&presets::by_name("skylake").unwrap(), "segment", 0, K4);
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

/// CoLT, section 4.1: two runs of frames in one line of page-table entries are two entries with one
/// tag and different valid bits, which both stay.
#[test]
fn coalesced_runs_of_one_line_live_side_by_side() {
    const GROUPS: u64 = 600;
    let mut engine = engine(&presets::by_name("skylake").unwrap(), "colt", 0, K4);
    let (space, frames) = engine.space_and_frames();
    for run in 0..2 * GROUPS {
        // A run of three and one of five: the second starts inside a naturally aligned half.
        let (first, pages) = [(0, 3), (3, 5)][(run % 2) as usize];
        let at = BASE + ((run / 2) << 15) + (first << 12);
        for page in 0..pages {
            // Frames of the test's own, far from those of the tables.
            let frame = (1 << 24) + 64 * run + page;
            space
                .map(at + (page << 12), K4, frame, USER_RW, frames)
                .unwrap();
        }
    }
    let mut walks = Vec::new();
    for _pass in 0..2 {
        let before = engine.mmu.stats.walks();
        for page in 0..8 * GROUPS {
            let va = BASE + (page << 12);
            let answer = engine.translate(va, Intent::Read, 0, &mut NoMemory);
            let expected = engine.space().lookup(va).map(|m| m.pa);
            assert_eq!(answer.map(|a| a.pa).ok(), expected, "{va:#x}");
        }
        walks.push(engine.mmu.stats.walks() - before);
    }
    assert_eq!(walks, [2 * GROUPS, 0]);
}

/// Puts a host with pages of `size` under the memory of an engine of [`engine`], 96 MB.
fn back(engine: &mut Engine, config: &MmuConfig, size: PageSize) {
    let mut frames = IdealFrames::new(1 << 30);
    let mut space = Space::new(0, 4, &mut frames).unwrap();
    for gpa in (0..96 << 20).step_by(size.bytes() as usize) {
        let pfn = frames.alloc(size.order()).unwrap();
        space.map(gpa, size, pfn, USER_RW, &mut frames).unwrap();
    }
    engine.host = Some(Host::new(space, config, 1).unwrap());
}

/// What the walks for two neighbours in 4 KB pages on 4 KB pages take: references of guest and
/// host, and cycles.
fn two_walks(pwc: PwcKind, host_pwc: Option<PwcKind>, host_cycles: Option<u32>) -> [[u64; 3]; 2] {
    let config = MmuConfig {
        pwc,
        host_pwc,
        pwc_cycles: 3,
        host_pwc_cycles: host_cycles,
        nested_tlb: None,
        ..presets::by_name("skylake").unwrap()
    };
    let mut engine = engine(&config, "paging", 8 << 12, K4);
    back(&mut engine, &config, K4);
    let mut before = [0; 3];
    [BASE, BASE + 4096].map(|va| {
        engine
            .translate(va, Intent::Read, 0, &mut NoMemory)
            .unwrap();
        let stats = &engine.mmu.stats;
        let references = [&stats.refs_by_level, &stats.host_refs_by_level];
        let [guest, host] = references.map(|levels| levels.iter().sum::<u64>());
        let now = [guest, host, stats.walk_cycles];
        let took = std::array::from_fn(|at| now[at] - before[at]);
        before = now;
        took
    })
}

#[test]
fn a_host_has_walk_caches_of_its_own() {
    let caches = || PwcKind::PerLevel(vec![Geometry::full(8); 3]);
    // Five addresses to translate, each through four levels of the host, and no look-up to wait
    // for; then the guest's caches know the node of the leaf.
    let [cold, next] = two_walks(caches(), Some(PwcKind::Absent), Some(5));
    assert_eq!([cold, next], [[4, 20, 3], [1, 4, 3]]);
    // The guest reads all levels, and the host's caches know the way to each.
    let [cold, next] = two_walks(PwcKind::Absent, Some(caches()), Some(5));
    assert_eq!((cold[0], next), (4, [4, 5, 3 + 5 * 5]));
    // As the guest's, where nothing is said.
    let [_, next] = two_walks(caches(), None, None);
    assert_eq!(next, [1, 1, 3 + 3]);
    assert_eq!(two_walks(caches(), None, Some(5))[1], [1, 1, 3 + 5]);
    assert_eq!(two_walks(PwcKind::Absent, None, Some(5))[1], [4, 20, 3]);
}

/// Walks by their ways: what each way says is what the counters by level say.
#[test]
fn ways_of_nested_walks_add_up_to_their_references() {
    let caches = |entries| PwcKind::PerLevel(vec![Geometry::full(entries); 3]);
    let config = MmuConfig {
        l1d: vec![TlbArray::new(&[K4], Geometry::full(4))],
        l2: vec![],
        pwc: caches(2),
        host_pwc: Some(caches(1)),
        nested_tlb: Some(Geometry::full(24)),
        ..presets::by_name("skylake").unwrap()
    };
    let mut engine = engine(&config, "paging", 16 << 20, K4);
    back(&mut engine, &config, K4);
    engine
        .translate(BASE, Intent::Read, 0, &mut NoMemory)
        .unwrap();
    let first = engine.mmu.stats.nested_trajectory_histogram();
    let (way, _) = first.first_key_value().unwrap();
    assert!(way.starts_with("4:4-1:? 3:"), "{way}");
    let mut random = SplitMix64::new(24);
    for _ in 0..20_000 {
        let va = BASE + random.below(16 << 20);
        engine
            .translate(va, Intent::Read, 0, &mut NoMemory)
            .unwrap();
    }
    let stats = &engine.mmu.stats;
    let [mut guest, mut host, mut started] = [[0; 6]; 3];
    let (mut walks, mut tlb_hits) = (0, 0);
    for (way, count) in stats.nested_trajectory_histogram() {
        walks += count;
        for (at, step) in way.split(' ').enumerate() {
            let parts: Vec<&str> = step.split(':').collect();
            if let Ok(level) = parts[0].parse::<usize>() {
                guest[level] += count;
                let hit = if level == 4 { 0 } else { level + 1 };
                started[hit] += if at == 0 { count } else { 0 };
            }
            tlb_hits += if parts[1] == "tlb" { count } else { 0 };
            if let Some((from, to)) = parts[1].split_once('-') {
                let [from, to]: [usize; 2] = [from, to].map(|level| level.parse().unwrap());
                (to..=from).for_each(|level| host[level] += count);
            }
        }
    }
    assert_eq!(
        (walks, tlb_hits),
        (stats.walks_ended, stats.nested_tlb_hits)
    );
    assert_eq!(
        (guest, host),
        (stats.refs_by_level, stats.host_refs_by_level)
    );
    assert_eq!(started, stats.pwc_hits);
    assert!(
        walks > 15_000 && tlb_hits > 1_000,
        "{walks} walks, {tlb_hits} hits"
    );
}

/// Misses of the second level when all 4 KB of a 2 MB page are accessed in turns, natively or as a
/// guest of a host with 2 MB pages.
fn walks_of_rounds(l2: TlbArray, rounds: u64, virtualised: bool) -> (u64, u64) {
    let config = MmuConfig {
        // Smaller than what is accessed, and without large entries.
        l1d: vec![TlbArray::new(&[K4], Geometry::full(16))],
        l2: vec![l2],
        ..presets::by_name("skylake").unwrap()
    };
    let mut engine = engine(&config, "paging", M2.bytes(), M2);
    if virtualised {
        back(&mut engine, &config, M2);
    }
    for page in (0..rounds).flat_map(|_| 0..512) {
        let va = BASE + (page << 12);
        engine
            .translate(va, Intent::Read, 0, &mut NoMemory)
            .unwrap();
    }
    (engine.mmu.stats.walks(), engine.mmu.stats.l2_hits)
}

#[test]
fn an_array_of_pieces_misses_once_a_piece() {
    let dropped = TlbArray::new(&[K4], Geometry::new(1024, 4));
    let pieces = TlbArray {
        pieces: [(M2, K4), (G1, K4)].into(),
        ..dropped.clone()
    };
    let short = TlbArray {
        geometry: Geometry::full(256),
        ..pieces.clone()
    };
    let whole = TlbArray::new(&[K4, M2], Geometry::new(1024, 4));
    for virtualised in [false, true] {
        let rounds = |array: &TlbArray| walks_of_rounds(array.clone(), 3, virtualised);
        assert_eq!(rounds(&dropped), (3 * 512, 0));
        assert_eq!(rounds(&pieces), (512, 2 * 512));
        assert_eq!(rounds(&short), (3 * 512, 0));
        assert_eq!(rounds(&whole), (1, 3 * 512 - 1));
    }
}

/// Under srrip the second of two accesses in a row says that the page is in use: another page, used
/// once, leaves.
#[test]
fn accesses_in_a_row_are_uses_under_srrip() {
    let misses = |replacement| {
        let shape = Geometry {
            replacement,
            ..Geometry::full(2)
        };
        let config = MmuConfig {
            l1d: vec![TlbArray::new(&[K4], shape)],
            ..presets::by_name("skylake").unwrap()
        };
        let mut engine = engine(&config, "paging", 4 << 12, K4);
        let accesses = [0, 0, 1, 2, 0].map(|page| (BASE + (page << 12), Intent::Read));
        engine
            .translate_block(&accesses, |access| *access, false)
            .unwrap();
        engine.mmu.stats.l1d_misses
    };
    assert_eq!(misses(Replacement::Lru), 4);
    assert_eq!(misses(Replacement::Srrip), 3);
}

#[test]
fn pieces_that_no_array_can_hold_are_refused() {
    let mut config = presets::by_name("skylake").unwrap();
    config.l2[1].pieces = [(M2, K4)].into();
    let told = config.check().unwrap_err().to_string();
    assert!(
        told.starts_with("l2.1.pieces.2m: pieces of 4k; valid:"),
        "{told}"
    );
}
