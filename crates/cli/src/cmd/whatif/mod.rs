// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample whatif`: from a scan, what each policy would make of this machine.

mod json;
mod record;

use super::sim::stop_on_interrupt;
use super::{Verdict, can_write, progress_bar, write_file};
use ample_host::{Scan, ScanOptions, scan_live, snapshot};
use ample_lab::whatif::recording::watermarks;
use ample_lab::whatif::simulate::{FEWEST_SEEDS, SimulatedRuns, WhatIfPlan, whatif};
use ample_lab::whatif::{Advice, Machine, WhatIf, page, verdict};
use ample_lab::whatif::{
    gains_table, memory_table,
    options::{OPTIONS, OptionInfo},
};
use ample_mm::Workload;
use ample_pfn::{MetricsBuilder, SizeList};
use anyhow::Context;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What to do about this machine's contiguity: every option, the free ones first.
///
/// Scans this machine (or takes a snapshot), starts the server model from exactly those pages,
/// runs the same load with several seeds under settings of Linux, boot parameters, Contiguitas and
/// its hardware, and says in plain words what to do, which may be nothing. A first verdict comes
/// after the first seed, on the error stream. With --report, writes one self-contained HTML page
/// with the options, memory maps and curves. Simulated, and labelled so. Ctrl-C ends it early: what
/// is there is printed, marked partial, and the exit code is 1.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Start from this snapshot (ample scan --format snapshot) instead of a live scan.
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Load to put on this machine: web, cache-a, cache-b, ci, or a TOML file. With --record, what
    /// kind of program runs here, for the worth of huge pages and the demand for them.
    #[arg(long, default_value = "web")]
    workload: String,
    /// Record this machine's own load for so long (90s, 10m, 2h; at least 10s) and predict from
    /// that instead. Its first third predicts the rest, as a check. Needs the feature bpf.
    #[arg(long, value_name = "TIME", value_parser = super::watch::time,
          conflicts_with = "snapshot")]
    record: Option<Duration>,
    /// Write the recorded load to FILE, to be used as --workload with a --snapshot of this machine.
    #[arg(long, value_name = "FILE", requires = "record")]
    save_workload: Option<PathBuf>,
    /// Simulated hours of that load.
    #[arg(long, default_value_t = 2.0, value_parser = hours)]
    hours: f64,
    /// Runs of each option with different seeds, at least five.
    #[arg(long, default_value_t = FEWEST_SEEDS,
          value_parser = clap::value_parser!(u64).range(FEWEST_SEEDS..=100))]
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
    /// Print one object, schema ample.whatif/2.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  ample whatif                                the verdict for this machine under a web load
  ample whatif --report report/index.html     with pictures
  ample whatif --record 10m                   under the load that this machine has
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
    let mut workload = Workload::load(&args.workload)?;
    prepare_report(args)?;
    let (mut scan, recorded) = match args.record {
        Some(length) => {
            stop_on_interrupt()?;
            // Found out before the recording, not after it.
            let folder = args.save_workload.as_ref().and_then(|path| path.parent());
            let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
            if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
                anyhow::bail!("cannot write into {}: no such folder", folder.display());
            }
            let found = record::record(length, &workload)?;
            workload = found.workload;
            if let Some(path) = &args.save_workload {
                write_file(path, toml::to_string(&workload)?)?;
            }
            (found.scan, Some(found.load))
        }
        None => (scan(args.snapshot.as_deref())?, None),
    };
    let whatif = WhatIf {
        machine: machine(&mut scan, args.snapshot.as_deref()),
        runs: SimulatedRuns::default(),
        recorded,
        event_ratio: args.event_ratio,
        command: command(args),
    };
    let runs = simulate(args, &scan, workload, &whatif)?;
    let whatif = WhatIf { runs, ..whatif };
    let answer = verdict(&whatif);
    write_report(args, &whatif, &answer)?;
    let text = if args.json {
        json::render(&whatif, &answer)?
    } else {
        text(&whatif, &answer, args)
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    if whatif.runs.partial {
        tell!("stopped early: the result is partial");
        return Ok(Verdict::Negative);
    }
    Ok(Verdict::Ok)
}

fn scan(path: Option<&Path>) -> anyhow::Result<Scan> {
    let options = ScanOptions {
        who: true,
        ..ScanOptions::default()
    };
    match path {
        Some(path) => Ok(snapshot::read(path)?),
        None => scan_live(&options).context(
            "cannot look at this machine’s pages; run as root, or give a --snapshot taken as root",
        ),
    }
}

fn machine(scan: &mut Scan, snapshot: Option<&Path>) -> Machine {
    let builder = match MetricsBuilder::collect(scan, &SizeList::standard()) {
        Ok(builder) => builder,
        Err(never) => match never {},
    };
    let (first, base, blocks) = builder.blocks();
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
        culprits: builder.culprits(),
        who: meta.who.clone(),
        first,
        blocks: blocks.to_vec(),
        base,
    }
}

/// Runs the futures of this machine. `empty` is what is known without them: with the first runs
/// put in, it is the page so far.
fn simulate(
    args: &Args,
    scan: &Scan,
    workload: Workload,
    empty: &WhatIf,
) -> anyhow::Result<SimulatedRuns> {
    let plan = WhatIfPlan {
        workload,
        duration_s: args.hours * 3600.0,
        seed: args.seed,
        seeds: args.seeds,
        event_ratio: args.event_ratio,
        marks: watermarks(scan),
    };
    stop_on_interrupt()?;
    let load = match args.record {
        Some(_) => "this load",
        None => args.workload.as_str(),
    };
    tell!(
        "simulating {} h of {load} with {} seeds (Ctrl-C ends it)",
        args.hours,
        args.seeds
    );
    let bar = progress_bar("simulating");
    let told = |share: f64| bar.set_position((share * 1000.0) as u64);
    let sharpened = |runs: &SimulatedRuns| {
        let so_far = WhatIf {
            runs: runs.clone(),
            ..empty.clone()
        };
        // A page that cannot be written is told of with the last one.
        let _ = write_report(args, &so_far, &verdict(&so_far));
        let sentence = runs.under_way.as_deref().unwrap_or_default();
        bar.suspend(|| tell!("{sentence}"));
    };
    let result = whatif(&scan.layout, &scan.pages.expand(), &plan, &told, &sharpened);
    bar.finish_and_clear();
    result.context("cannot simulate this machine")
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:,@=".contains(letter);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// The command that repeats this run, all defaults spelled out.
fn command(args: &Args) -> String {
    let snapshot = args.snapshot.as_ref().map_or(String::new(), |p| {
        format!(" --snapshot {}", quoted(&p.display().to_string()))
    });
    let record = args.record.map_or(String::new(), |length| {
        format!(" --record {}s", length.as_secs())
    });
    format!(
        "ample whatif{snapshot}{record} --workload {} --hours {} --seeds {} --seed {} \
         --event-ratio {}",
        quoted(&args.workload),
        args.hours,
        args.seeds,
        args.seed,
        args.event_ratio
    )
}

/// Makes the folder of the report, and looks whether the report can be written, before anything is
/// simulated.
fn prepare_report(args: &Args) -> anyhow::Result<()> {
    let Some(path) = &args.report else {
        return Ok(());
    };
    if let Some(directory) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
    }
    can_write(path)
}

fn write_report(args: &Args, whatif: &WhatIf, answer: &Advice) -> anyhow::Result<()> {
    match &args.report {
        Some(path) => write_file(path, page(whatif, answer).to_html()),
        None => Ok(()),
    }
}

fn text(whatif: &WhatIf, answer: &Advice, args: &Args) -> String {
    let machine = &whatif.machine;
    let memory = ample_pfn::format_bytes(machine.metrics.total.memory_bytes);
    let mut text = format!(
        "{}, Linux {}, {memory} of memory\n\n",
        ample_host::printable(&machine.name),
        ample_host::printable(&machine.kernel)
    );
    for sentence in &answer.sentences {
        text.push_str(&format!("{sentence}\n\n"));
    }
    let futures = whatif.runs.futures.first();
    let workload = futures.map_or("", |own| own.run.workload.as_str());
    for table in [
        gains_table(&answer.options, workload),
        memory_table(&answer.options),
    ] {
        text.push_str(&format!("{}\n", table.to_text()));
    }
    for option in &OPTIONS {
        let OptionInfo {
            name,
            how,
            cost,
            risk,
            ..
        } = option;
        text.push_str(&format!(
            "{name}: {how}\n    cost: {cost}\n    risk: {risk}\n"
        ));
    }
    match &args.report {
        Some(path) => text.push_str(&format!("\nThe whole picture: {}\n", path.display())),
        None => text.push_str("\nAdd --report FILE for maps and curves.\n"),
    }
    text
}
