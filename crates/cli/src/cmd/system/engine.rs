// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample system engine`: a guest whose kernel has a migration engine to command.

use super::super::sim::stop_on_interrupt;
use super::super::{Verdict, tell_part};
use super::plan::{BootArgs, Scratch};
use ample_lab::stop;
use ample_migration::protocol::Design;
use ample_pfn::format_bytes;
use ample_system::engine::device::EngineCounts;
use ample_system::engine::run::{EngineOptions, EngineRun, mapping_warning, run_engine};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Boot a guest that has the migration engine of Contiguitas-HW as a device.
///
/// The guest's kernel tells the engine to install, migrate and clear; while a migration is
/// installed the two physical pages are one memory for every CPU and every device of the guest, so
/// that pages move while they are used. Who may migrate what, what is refused and when an entry of
/// the table is free again is decided by the same code that the model checker explores. The device
/// is QEMU's ivshmem-doorbell (PCI 1af4:1110); docs/system.md tells its memory's layout.
///
/// CPUs run in parallel and the clock is the host's: two runs differ. Ctrl-C ends the guest; what
/// was done is printed. The exit code is 1 when the guest did not power off by itself (stopped by
/// hand, by the limit or by a panic; the end of its console is then shown) and when it printed a
/// line `@@ FAIL …` on its console.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Engine {
    #[command(flatten)]
    boot: BootArgs,
    /// How lines of a page under migration may be cached: cacheable, or non-cacheable once copied.
    #[arg(long, value_name = "DESIGN", default_value = "cacheable", value_parser = design)]
    design: Design,
    /// Entries of the engine's table: migrations that can be under way at once.
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u8).range(1..))]
    table: u8,
    /// Write the guest's console to this file, as it comes.
    #[arg(long, value_name = "FILE")]
    console: Option<PathBuf>,
    /// Print one object, schema ample.system.engine/1.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples (make kernel builds the kernels):
  ample system engine --kernel build/kernel/ample --plan mover
                                             a plan whose kernel moves pages in use
  ample system engine --kernel bzImage --initrd my.cpio.gz --table 4 --console boot.log
                                             your own driver, with a small table
  ample system engine --kernel bzImage --initrd my.cpio.gz --design non-cacheable --json
                                             the other design, as one object";

/// Lines of the console that are shown of a guest that did not power off by itself.
const LAST_LINES: usize = 20;
/// Time between two lines of progress.
const TELL_EVERY: Duration = Duration::from_secs(1);

fn design(name: &str) -> Result<Design, String> {
    match name {
        "cacheable" => Ok(Design::Cacheable),
        "non-cacheable" => Ok(Design::NonCacheable),
        _ => Err("give cacheable or non-cacheable".to_owned()),
    }
}

/// Boots and serves the guest.
pub(super) fn run(args: &Engine) -> anyhow::Result<Verdict> {
    let scratch = Scratch::new()?;
    let options = EngineOptions {
        guest: args.boot.guest(&scratch)?,
        design: args.design,
        table_entries: args.table,
        limit: args.boot.limit(),
        console: args.console.clone(),
    };
    stop_on_interrupt()?;
    if let Some(warning) = mapping_warning(options.guest.memory_bytes) {
        tell!("ample: {warning}");
    }
    tell!("booting; the guest runs until it powers off (Ctrl-C ends it)");
    let (terminal, mut told) = (std::io::stderr().is_terminal(), Instant::now());
    let progress = |counts: &EngineCounts| {
        if terminal && told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            tell_part(format_args!(
                "\r{} installed, {} moved, {} aborted ",
                counts.installed, counts.moved, counts.aborted
            ));
        }
    };
    let result = run_engine(&options, stop::requested, progress);
    if terminal {
        tell_part(format_args!("\r\x1b[K"));
    }
    let report = result?;
    let text = match args.json {
        true => serde_json::to_string_pretty(&report)? + "\n",
        false => text(&report),
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    for failure in &report.failures {
        tell!("ample: the guest says that this failed: {failure}");
    }
    if !report.ended_by_itself {
        let lines: Vec<&str> = report.console.lines().collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
        tell!("ample: the guest did not power off by itself; its console ends:\n{last}");
    }
    Ok(match report.ended_by_itself && report.failures.is_empty() {
        true => Verdict::Ok,
        false => Verdict::Negative,
    })
}

fn text(run: &EngineRun) -> String {
    let counts = &run.counts;
    let listed = |pairs: &mut dyn Iterator<Item = (&str, &u64)>| {
        let pairs: Vec<String> = pairs.map(|(name, n)| format!("{name} {n}")).collect();
        match pairs.is_empty() {
            true => "none".to_owned(),
            false => pairs.join(", "),
        }
    };
    let mut doorbells = counts.doorbells.iter().map(|(name, n)| (*name, n));
    let mut records = counts.records.iter().map(|(name, n)| (name.as_str(), n));
    format!(
        "{}: {} CPUs, {}; {} design, {} entries\n\
         doorbells: {}\n\
         records: {}\n\
         {} migrations installed, {} moved, {} aborted; at most {} entries in use, {} at the end\n\
         {:.1} s, {:.1} pages moved a second\n",
        run.kernel,
        run.cpus,
        format_bytes(run.memory_bytes),
        match run.design {
            Design::Cacheable => "cacheable",
            Design::NonCacheable => "non-cacheable",
        },
        run.table_entries,
        listed(&mut doorbells),
        listed(&mut records),
        counts.installed,
        counts.moved,
        counts.aborted,
        counts.most_entries,
        run.entries_left,
        run.wall_s,
        run.moves_per_s,
    )
}
