// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a real program under QEMU with the translation model live behind it:
//! `live PRESET LIMIT CMD ARGUMENTS...` prints one JSON object.

use ample_machine::FunctionalRun;
use ample_trace::capture::{Capture, build_plugin};
use ample_translate::{Engine, IdealFrames, PageSize, USER_RW, Vma, bits, presets, scheme};
use anyhow::{Result, bail};
use std::time::Instant;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [preset, limit, command @ ..] = arguments.as_slice() else {
        bail!("usage: live PRESET LIMIT CMD ARGUMENTS...");
    };
    let limit: u64 = limit.parse()?;
    let config = presets::by_name(preset)?;
    let frames = Box::new(IdealFrames::new(64 << 30));
    let mut engine = Engine::new(&config, scheme::by_name("paging")?, frames, 1)?;
    // What the program maps shows up as faults; code and data need no telling apart here.
    let flags = USER_RW & !bits::NO_EXECUTE;
    engine.vmas[0].push(Vma {
        base: 4096,
        end: 1 << 47,
        flags,
        largest: PageSize::K4,
    });
    let directory = std::env::temp_dir().join(format!("ample-live-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let plugin = build_plugin(&directory)?;
    let mut capture = Capture::start(command, &plugin, &directory)?;
    let start = Instant::now();
    let mut run = FunctionalRun::new(&mut engine);
    let accesses = capture.run(&mut run, limit)?;
    let failed = run.failed;
    let seconds = start.elapsed().as_secs_f64();
    capture.finish(true);
    std::fs::remove_dir_all(&directory)?;
    if let Some((number, bad)) = failed {
        bail!("access {number}: {bad}");
    }
    let stats = &engine.mmu.stats;
    let result = serde_json::json!({
        "schema": "ample.sim.live/1",
        "command": command.join(" "),
        "accesses": accesses,
        "seconds": seconds,
        "accesses_per_s": accesses as f64 / seconds,
        "l1d_misses": stats.l1d_misses,
        "walks_data": stats.walks_data,
        "walks_fetch": stats.walks_fetch,
        "faults": stats.faults,
    });
    println!("{}", serde_json::to_string_pretty(&result)?);
    Ok(())
}
