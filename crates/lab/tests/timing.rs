// SPDX-License-Identifier: MIT OR Apache-2.0
//! The timed core against what can be worked out by hand.

use ample_kit::random::{SplitMix64, mix64};
use ample_lab::setup::{Length, PageMix, engine, map_mix, measure};
use ample_machine::MachineConfig;
use ample_trace::{Access, Backing, Program, Region, Replay, programs};
use ample_translate::PageSize;

const LENGTH: Length = Length {
    warm_up_accesses: 100_000,
    accesses: 200_000,
};

fn run(program: &mut dyn Program, machine: &MachineConfig, size: PageSize) -> (f64, f64, f64) {
    let mut engine = engine(machine, "paging").unwrap();
    map_mix(&mut engine, program.regions(), &PageMix::only(size)).unwrap();
    let measured = measure(machine, engine, program, &LENGTH).unwrap();
    let per_access = measured.report.cycles / measured.stats.accesses as f64;
    (
        per_access,
        measured.report.ipc,
        measured.walks_per_kilo_instruction(),
    )
}

/// A chase in the first-level cache takes the load-to-use latency a hop.
#[test]
fn a_chase_takes_the_latency_of_its_level() {
    let machine = MachineConfig::preset("skylake").unwrap();
    for (bytes, cycles) in [(16u64 << 10, 4.0), (256 << 10, 14.0)] {
        let mut chase = programs::PointerChase::new(bytes, 64, 1, 1);
        let (per_hop, _, _) = run(&mut chase, &machine, PageSize::M2);
        assert!(
            (per_hop - cycles).abs() < 0.3,
            "{bytes} bytes: {per_hop} not {cycles}"
        );
    }
}

/// Far beyond the caches, with huge pages: last-level look-up, controller and DRAM access.
#[test]
fn a_long_chase_takes_the_latency_of_memory() {
    let machine = MachineConfig::preset("skylake").unwrap();
    let mut chase = programs::PointerChase::new(4 << 30, 64, 1, 1);
    let (per_hop, _, _) = run(&mut chase, &machine, PageSize::G1);
    let dram = &machine.memory.dram;
    let nanoseconds = |cycles: u32| f64::from(cycles) * dram.tck_ns * machine.core.ghz;
    let fixed =
        f64::from(machine.memory.llc.latency_cycles) + dram.controller_ns * machine.core.ghz;
    let least = fixed + nanoseconds(dram.cl + dram.burst / 2);
    let most = fixed + nanoseconds(dram.trp + dram.trcd + dram.cl + dram.burst) + 10.0;
    assert!(
        (least..most).contains(&per_hop),
        "{per_hop} not in {least}..{most}"
    );
}

/// Nothing to wait for: the core's width is the limit.
#[test]
fn a_stream_in_cache_runs_at_full_width() {
    let machine = MachineConfig::preset("skylake").unwrap();
    let mut stream = programs::Stream::new(16 << 10);
    let (_, ipc, _) = run(&mut stream, &machine, PageSize::K4);
    assert!(ipc > 3.8, "{ipc}");
}

/// Misses are limited by the walkers: with more of them the same program runs faster.
#[test]
fn more_walkers_make_gups_faster() {
    let mut machine = MachineConfig::preset("skylake").unwrap();
    let mut ipc = Vec::new();
    for walkers in [1, 2, 4] {
        machine.mmu.walkers = walkers;
        let mut gups = programs::Gups::new(1 << 30, 1);
        ipc.push(run(&mut gups, &machine, PageSize::K4).1);
    }
    assert!(ipc[1] > ipc[0] * 1.5 && ipc[2] > ipc[1], "{ipc:?}");
}

/// Pairs of loads from one large page, each pair after the one before: cycles a pair, and walks.
fn pairs(inside_small_page: bool) -> (f64, f64) {
    let mut random = SplitMix64::new(1);
    let base = 1 << 40;
    let regions = vec![Region {
        name: "heap".into(),
        base,
        bytes: 16 << 30,
        backing: Backing::Anonymous,
    }];
    let load = |page: u64, what: u64, dep: u16| {
        // The places of a page stay the same, so that caches hold them.
        let line = mix64(page * 2 + what) % 64 * 64;
        let small = match inside_small_page {
            true => mix64(page * 2),
            false => mix64(page * 2 + what),
        };
        let small = small >> 32 & 511;
        Access {
            dep,
            ..Access::load(base + (page << 21) + (small << 12) + line, 3)
        }
    };
    let mut accesses = Vec::new();
    for _ in 0..200_000 {
        let page = random.below(8192);
        accesses.extend([load(page, 0, 1), load(page, 1, 2)]);
    }
    let machine = MachineConfig::preset("skylake").unwrap();
    let mut engine = engine(&machine, "paging").unwrap();
    map_mix(&mut engine, &regions, &PageMix::only(PageSize::M2)).unwrap();
    let mut program = Replay::new("pairs".into(), regions, accesses);
    let length = Length {
        warm_up_accesses: 200_000,
        accesses: 200_000,
    };
    let run = measure(&machine, engine, &mut program, &length).unwrap();
    (
        run.report.cycles / 100_000.0,
        run.stats.walks() as f64 / 100_000.0,
    )
}

/// A load from a large page whose walk is under way waits for it, whichever 4 KB of it is asked
/// for.
#[test]
fn a_load_waits_for_the_walk_of_its_large_page() {
    let (near, walks) = pairs(true);
    assert!(walks > 0.5, "{walks} walks a pair");
    let (far, _) = pairs(false);
    assert!((far / near - 1.0).abs() < 0.03, "{far} and {near} cycles");
}
