// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast the simulator itself runs, functional part: accesses a second of CPU time, median of
//! five runs, on page tables of 4 KB pages.

use ample_machine::{MachineConfig, run_functional};
use ample_trace::{Program, Recorder, programs};
use ample_translate::{Engine, IdealFrames, PageSize, presets, scheme};

/// CPU time of this process so far: unlike wall time it is not disturbed by other processes.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|ns| ns.parse().ok())
        .unwrap_or(0)
}

fn main() -> anyhow::Result<()> {
    let programs: [(&str, Box<dyn Program>); 3] = [
        ("gups 2 GB", Box::new(programs::Gups::new(2 << 30, 1))),
        (
            "gups 2 GB, loads only",
            Box::new(programs::Gups::reads(2 << 30, 1)),
        ),
        ("stream 512 MB", Box::new(programs::Stream::new(512 << 20))),
    ];
    for (what, mut program) in programs {
        let scheme = scheme::by_name("paging")?;
        let frames = Box::new(IdealFrames::new(64 << 30));
        let mut engine = Engine::new(&presets::skylake(), scheme, frames, 1)?;
        for region in program.regions().to_vec() {
            engine.premap(region.base, region.bytes, PageSize::K4)?;
        }
        run_functional(&mut engine, program.as_mut(), 2_000_000)?;
        let mut rates = Vec::new();
        for _ in 0..5 {
            let start = cpu_ns();
            let accesses = run_functional(&mut engine, program.as_mut(), 20_000_000)?;
            rates.push(accesses as f64 * 1e3 / (cpu_ns() - start) as f64);
        }
        rates.sort_by(f64::total_cmp);
        println!(
            "{what}: {:.1} M accesses/s ({:.1} to {:.1}), {:.4} walks an access",
            rates[2],
            rates[0],
            rates[4],
            engine.mmu.stats.walk_ratio()
        );
    }
    for (what, mut program) in timed_programs() {
        let machine = MachineConfig::preset("skylake")?;
        let mut engine = machine.engine(scheme::by_name("paging")?)?;
        for region in program.regions().to_vec() {
            engine.premap(region.base, region.bytes, PageSize::K4)?;
        }
        let mut core = machine.core(engine)?;
        let mut rates = Vec::new();
        for round in 0..6 {
            core.start_measuring();
            let start = cpu_ns();
            let mut recorder = Recorder::new(&mut core, 3_000_000);
            program.run(&mut recorder);
            recorder.flush();
            let instructions = core.report().instructions;
            if round > 0 {
                rates.push(instructions as f64 * 1e3 / (cpu_ns() - start) as f64);
            }
        }
        rates.sort_by(f64::total_cmp);
        let report = core.report();
        println!(
            "timed {what}: {:.1} M instructions/s ({:.1} to {:.1}), IPC {:.3}, walk-active {:.1} %",
            rates[2],
            rates[0],
            rates[4],
            report.ipc,
            report.walk_percent()
        );
    }
    Ok(())
}

fn timed_programs() -> [(&'static str, Box<dyn Program>); 3] {
    [
        ("gups 2 GB", Box::new(programs::Gups::new(2 << 30, 1))),
        (
            "chase 2 GB",
            Box::new(programs::Chase::new(2 << 30, 64, 28, 1)),
        ),
        ("stream 512 MB", Box::new(programs::Stream::new(512 << 20))),
    ]
}
