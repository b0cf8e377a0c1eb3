// SPDX-License-Identifier: MIT OR Apache-2.0
//! The timed core against what can be worked out by hand.

use ample_lab::setup::{Length, PageMix, engine, map_mix, measure};
use ample_machine::MachineConfig;
use ample_trace::{Program, programs};
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
