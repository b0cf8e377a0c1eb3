// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample whatif`: from a scan, what each policy would make of this machine.

mod json;

use super::sim::stop_on_interrupt;
use super::{Verdict, progress_bar, write_file};
use ample_host::{Scan, ScanOptions, scan_live, snapshot};
use ample_lab::whatif::simulate::{FreshServers, SimulatedRuns, WhatIfPlan, whatif};
use ample_lab::whatif::{Machine, WhatIf, futures_table, page, verdict};
use ample_mm::Workload;
use ample_pfn::{MetricsBuilder, SizeList, parse_bytes};
use anyhow::Context;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What stock Linux, a fixed split and Contiguitas would make of this machine.
///
/// Scans this machine (or takes a snapshot), starts the server model from exactly those pages,
/// runs the same load under every policy, and says in plain words what changes. With --report,
/// writes one self-contained HTML page with memory maps, curves, and freshly booted servers
/// under each shipped workload beside the paper's figures. Simulated, and labelled so. Ctrl-C ends
/// it early: what is there is printed, marked partial, and the exit code is 1.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Start from this snapshot (ample scan --format snapshot) instead of a live scan.
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Load to put on this machine: web, cache-a, cache-b, ci, or a TOML file.
    #[arg(long, default_value = "web")]
    workload: String,
    /// Simulated hours of that load.
    #[arg(long, default_value_t = 2.0, value_parser = hours)]
    hours: f64,
    /// Memory of the freshly booted servers in the report.
    #[arg(long, value_name = "SIZE", default_value = "64G", value_parser = parse_bytes)]
    server_memory: u64,
    /// Simulated hours of the freshly booted servers.
    #[arg(long, default_value_t = 1.0, value_parser = hours)]
    server_hours: f64,
    /// Runs of each server with different seeds; more give a spread.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    /// First seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Share of page-cache traffic that is simulated, 0 to 1. Half is faster and makes stock Linux
    /// look better, by up to 6 points under ci and cache-b (results/predict.md, convergence).
    #[arg(long, value_name = "RATIO", default_value_t = 0.5, value_parser = event_ratio)]
    event_ratio: f64,
    /// Write the page to FILE.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print one object, schema ample.whatif/1.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  ample whatif                                the verdict for this machine under a web load
  ample whatif --report report/index.html     with pictures, and 64 GB servers beside
  ample whatif --snapshot host.snap --json    another machine, for a program to read";

fn hours(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(hours) if (0.01..=720.0).contains(&hours) => Ok(hours),
        _ => Err("expected hours between 0.01 and 720".into()),
    }
}

fn event_ratio(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ratio) if ratio > 0.0 && ratio <= 1.0 => Ok(ratio),
        _ => Err("expected a ratio above 0 and at most 1".into()),
    }
}

/// Runs the command.
///
/// # Errors
/// When the machine cannot be scanned, the snapshot or workload cannot be read, or the report
/// cannot be written.
pub fn run(args: &Args) -> anyhow::Result<Verdict> {
    let workload = Workload::load(&args.workload)?;
    let mut scan = scan(args.snapshot.as_deref())?;
    let machine = machine(&mut scan, args.snapshot.as_deref());
    let whatif = WhatIf {
        machine,
        runs: simulate(args, &scan, workload)?,
        event_ratio: args.event_ratio,
        command: command(args),
    };
    if let Some(path) = &args.report {
        write_report(path, &page(&whatif).to_html())?;
    }
    let text = if args.json {
        json::render(&whatif)?
    } else {
        text(&whatif, args)
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    if whatif.runs.partial {
        eprintln!("stopped early: the result is partial");
        return Ok(Verdict::Negative);
    }
    Ok(Verdict::Ok)
}

fn scan(path: Option<&Path>) -> anyhow::Result<Scan> {
    match path {
        Some(path) => Ok(snapshot::read(path)?),
        None => scan_live(&ScanOptions::default()).context(
            "cannot look at this machine’s pages; run as root, or give a --snapshot taken as root",
        ),
    }
}

fn machine(scan: &mut Scan, snapshot: Option<&Path>) -> Machine {
    let builder = match MetricsBuilder::collect(scan, &SizeList::standard()) {
        Ok(builder) => builder,
        Err(never) => match never {},
    };
    let (_, base, blocks) = builder.blocks();
    let meta = &scan.meta;
    let file = snapshot.map(|path| path.display().to_string());
    Machine {
        name: meta
            .hostname
            .clone()
            .or(file)
            .unwrap_or_else(|| "this machine".into()),
        kernel: meta.kernel.clone(),
        reader: meta.reader.clone(),
        uptime_s: meta.uptime_seconds,
        scan_duration_ns: meta.duration_ns,
        metrics: builder.finish(&meta.coverage),
        blocks: blocks.to_vec(),
        base,
    }
}

/// Runs the futures of this machine, and for a report the servers and the ablation too.
fn simulate(args: &Args, scan: &Scan, workload: Workload) -> anyhow::Result<SimulatedRuns> {
    let plan = WhatIfPlan {
        workload,
        duration_s: args.hours * 3600.0,
        seed: args.seed,
        event_ratio: args.event_ratio,
        servers: args.report.as_ref().map(|_| FreshServers {
            memory_bytes: args.server_memory,
            duration_s: args.server_hours * 3600.0,
            seeds: args.seeds,
        }),
    };
    stop_on_interrupt()?;
    eprintln!(
        "simulating {} h of {} (Ctrl-C ends it)",
        args.hours, args.workload
    );
    let bar = progress_bar("simulating");
    let told = |share: f64| bar.set_position((share * 1000.0) as u64);
    let result = whatif(&scan.layout, &scan.pages.expand(), &plan, &told);
    bar.finish_and_clear();
    result.context("cannot simulate this machine")
}

/// The command that repeats this run, all defaults spelled out.
fn command(args: &Args) -> String {
    let snapshot = args
        .snapshot
        .as_ref()
        .map_or(String::new(), |p| format!(" --snapshot {}", p.display()));
    format!(
        "ample whatif{snapshot} --workload {} --hours {} --server-memory {} --server-hours {} \
         --seeds {} --seed {} --event-ratio {}",
        args.workload,
        args.hours,
        ample_pfn::format_bytes(args.server_memory),
        args.server_hours,
        args.seeds,
        args.seed,
        args.event_ratio
    )
}

fn write_report(path: &Path, html: &str) -> anyhow::Result<()> {
    if let Some(directory) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
    }
    write_file(path, html)
}

fn text(whatif: &WhatIf, args: &Args) -> String {
    let machine = &whatif.machine;
    let memory = ample_pfn::format_bytes(machine.metrics.total.memory_bytes);
    let mut text = format!(
        "{}, Linux {}, {memory} of memory\n\n",
        machine.name, machine.kernel
    );
    for sentence in verdict(whatif) {
        text.push_str(&sentence);
        text.push('\n');
    }
    text.push_str(&format!(
        "\nSimulated from the scan: {} h of {}, seed {}; definition O, blocks of 2 MB\n",
        args.hours, args.workload, args.seed
    ));
    text.push_str(&futures_table(&whatif.runs.futures).to_text());
    match &args.report {
        Some(path) => text.push_str(&format!("\nThe whole picture: {}\n", path.display())),
        None => text.push_str("\nAdd --report FILE for maps, curves and 64 GB servers beside.\n"),
    }
    text
}
