// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures that have a formula, beside those of the experiment `exactness` in the crate above.

use ample_translate::PageSize::K4;
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
