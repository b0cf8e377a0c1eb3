// SPDX-License-Identifier: MIT OR Apache-2.0
//! The core on accesses whose time, or whose traces in caches and TLBs, are known.

use crate::{AccessOrder, MachineConfig, TimedCore};
use ample_kit::random::SplitMix64;
use ample_memory::PrivateMemory;
use ample_trace::Access;
use ample_translate::{PageSize, USER_RW, bits, schemes};

fn core() -> TimedCore<PrivateMemory> {
    core_that_reads_ahead(0)
}

/// Two ranges with 4 KB pages, timed as recorded guests are: counts do not depend on time.
fn core_that_reads_ahead(next_lines: u32) -> TimedCore<PrivateMemory> {
    let mut machine = MachineConfig::preset("skylake").unwrap();
    machine.memory.next_lines = next_lines;
    machine.core.order = AccessOrder::Program;
    let mut engine = machine.engine(schemes::paging()).unwrap();
    let rights = USER_RW & !bits::NO_EXECUTE;
    for base in [1 << 30, 2 << 30] {
        engine
            .premap_as(base, 8 << 20, PageSize::K4, rights)
            .unwrap();
    }
    machine.core(engine).unwrap()
}

fn run(core: &mut TimedCore<PrivateMemory>, accesses: &[Access]) {
    for access in accesses {
        core.run(access).unwrap();
    }
}

/// Loads, stores and fetches over a few megabytes.
fn mixed(seed: u64, count: usize) -> Vec<Access> {
    let mut random = SplitMix64::new(seed);
    let access = |_| {
        let va = (1 << 30) + random.below(8 << 20) / 64 * 64;
        let gap = random.below(9) as u16;
        match random.below(4) {
            0 => Access::fetch(va),
            1 => Access::store(va, gap),
            _ => Access::load(va, gap),
        }
    };
    (0..count).map(access).collect()
}

#[test]
fn a_walker_takes_its_time_for_each_reference() {
    let of = |reference_cycles| {
        let mut machine = MachineConfig::preset("skylake").unwrap();
        machine.mmu.reference_cycles = reference_cycles;
        let mut engine = machine.engine(schemes::paging()).unwrap();
        engine.premap(1 << 30, 64 << 20, PageSize::K4).unwrap();
        let mut core = machine.core(engine).unwrap();
        let mut random = SplitMix64::new(4);
        // Each load waits for the one before, so that all of a walk is seen.
        let va = |random: &mut SplitMix64| (1 << 30) + random.below(64 << 20) / 64 * 64;
        let loads = (0..20_000).map(|_| Access::load(va(&mut random), 3).after(1));
        run(&mut core, &loads.collect::<Vec<_>>());
        let report = core.report();
        let refs = core.engine.mmu.stats.walk_refs();
        (report.cycles, report.walk_duration_cycles, refs)
    };
    let (none, seven) = (of(0), of(7));
    assert_eq!(none.2, seven.2);
    assert!(none.2 > 10_000, "{} references", none.2);
    let added = 7.0 * none.2 as f64;
    assert!(
        (seven.1 - none.1 - added).abs() < 0.02 * added,
        "walks: {none:?} {seven:?}"
    );
    assert!(
        (seven.0 - none.0 - added).abs() < 0.02 * added,
        "in all: {none:?} {seven:?}"
    );
}

#[test]
fn instructions_before_a_fetch_take_as_long_as_before_a_load() {
    let of = |fetch_gap, load_gap| {
        let mut core = core();
        let fetch = Access {
            gap: fetch_gap,
            ..Access::fetch(1 << 30)
        };
        let block = [fetch, Access::load(2 << 30, load_gap)].repeat(1000);
        run(&mut core, &block);
        core.start_measuring();
        run(&mut core, &block);
        let report = core.report();
        (report.instructions, report.cycles)
    };
    assert_eq!(of(40, 0).0, 41_000);
    assert_eq!(of(40, 0), of(0, 40));
    // Four a cycle: nothing else holds them up.
    assert!(
        (of(40, 0).1 / 10_250.0 - 1.0).abs() < 0.01,
        "{:?}",
        of(40, 0)
    );
}

#[test]
fn warming_leaves_what_running_leaves() {
    for (seed, next_lines) in [(1, 0), (2, 0), (3, 0), (1, 2)] {
        let accesses = mixed(seed, 60_000);
        let [mut ran, mut warmed] = [0; 2].map(|_| core_that_reads_ahead(next_lines));
        run(&mut ran, &accesses);
        for access in &accesses {
            warmed.warm(access, 2 << 8).unwrap();
        }
        assert_eq!(warmed.memory.data_hits, ran.memory.data_hits, "seed {seed}");
        assert_eq!(warmed.memory.walk_hits, ran.memory.walk_hits, "seed {seed}");
        let counts = |core: &TimedCore<PrivateMemory>| {
            let stats = &core.engine.mmu.stats;
            [
                stats.l1d_misses,
                stats.l1i_misses,
                stats.walks(),
                stats.walk_refs(),
            ]
        };
        assert_eq!(counts(&warmed), counts(&ran), "seed {seed}");
        // What comes after finds the same lines and entries.
        let next = mixed(seed + 100, 5_000);
        run(&mut ran, &next);
        run(&mut warmed, &next);
        assert_eq!(warmed.memory.data_hits, ran.memory.data_hits, "seed {seed}");
        assert_eq!(counts(&warmed), counts(&ran), "seed {seed}");
    }
}

#[test]
fn warming_goes_at_its_pace() {
    let mut core = core();
    let loads: Vec<Access> = (0..10_000)
        .map(|at| Access::load((1 << 30) + at % 64, 9))
        .collect();
    run(&mut core, &loads[..10]);
    let before = core.clock().0;
    for load in &loads {
        core.warm(load, 3 << 7).unwrap();
    }
    // 100,000 instructions, one and a half units each.
    assert_eq!(core.clock().0 - before, 150_000);
}

/// Loads of one line after the other: every other one finds its line brought along by the one
/// before, whether memory is timed or warmed, and the whole takes less time.
#[test]
fn the_next_line_comes_along() {
    let loads: Vec<Access> = (0..20_000)
        .map(|line| Access::load((1 << 30) + 64 * line, 3).after(1))
        .collect();
    let of = |next_lines| {
        let mut core = core_that_reads_ahead(next_lines);
        run(&mut core, &loads);
        core.settle();
        (core.memory.data_hits.l1, core.report().cycles)
    };
    let ((none, slow), (half, fast)) = (of(0), of(1));
    assert_eq!((none, half), (0, 10_000));
    assert!(fast < slow, "{fast} cycles, {slow} without");
}
