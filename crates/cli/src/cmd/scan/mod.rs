// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample scan`: what this machine's physical memory looks like.

mod diff;
mod export;
mod fail_if;
mod map;
pub(super) mod openmetrics;
mod pageblocks;
mod rows;
mod service;
pub(super) mod style;
mod text;
pub(super) mod view;
#[cfg(feature = "watch")]
mod watch;
mod who;

use self::fail_if::Threshold;
use self::service::ServiceMemory;
use self::view::View;
use super::{Verdict, tell_part, write_file};
use ample_fleet::Labels;
use ample_host::{HostError, ReaderChoice, Root, Scan, ScanOptions, scan_live, snapshot, zones};
use ample_lab::experiment::{Experiment, Finished};
use ample_lab::scan_bench::{ScanBench, ScanBenchParams};
use ample_pfn::{MetricsBuilder, SizeList};
use anyhow::Context;
use clap::ValueEnum;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Look at this machine's physical memory: a map, free and potential contiguity, who is unmovable.
///
/// Reads every page's state through a BPF program or /proc/kpageflags (root), and changes
/// nothing. "Unmovable" has several definitions that differ widely on one machine, so K (the
/// kernel's own test), P (page flags, as in the Contiguitas fleet study) and O (who allocated)
/// stand side by side; a-b is an interval that the data leave open.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct ScanArgs {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    filter: service::Filter,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Short for --format json.
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write to FILE instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Block sizes to report, powers of two from 4K.
    #[arg(long, value_name = "LIST", default_value = "2M,4M,32M,1G")]
    sizes: SizeList,
    #[arg(
        long,
        value_name = "EXPR",
        help = "Exit with 1 when a threshold is crossed (repeatable): \
                METRIC[.K|.P|.O][@SIZE] OP NUMBER, for example \"unmovable_ratio@2M>0.3\" or \
                \"potential_ratio.P@1G<0.5\""
    )]
    fail_if: Vec<Threshold>,
    /// Scan every SECS seconds and draw the result until q is pressed.
    #[arg(
        long, value_name = "SECS", value_parser = seconds,
        conflicts_with_all = ["format", "json", "output", "fail_if", "snapshot", "bench"]
    )]
    watch: Option<f64>,
    /// Time the readers beside a bare read loop over kpageflags, ROUNDS times, interleaved.
    #[arg(
        long, value_name = "ROUNDS", num_args = 0..=1, default_missing_value = "9",
        value_parser = clap::value_parser!(u32).range(1..=1000),
        conflicts_with_all = ["format", "fail_if", "snapshot", "root"]
    )]
    bench: Option<u32>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Diff(diff::DiffArgs),
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0.1 to 86400".into()),
    }
}

const EXAMPLES: &str = "Examples:
  ample scan                                  a picture and the tables
  ample scan --json | jq .definitions.K       one definition
  ample scan --who                            which caches, programs and drivers hold blocks
  ample scan --fail-if 'unmovable_ratio@2M>0.3'   exit code 1 when crossed
  ample scan --format snapshot -o host.snap   keep it (under 1 MB); look again with --snapshot";

/// Where the pages come from.
#[derive(Debug, clap::Args)]
struct Input {
    /// How to read the pages of the running system.
    #[arg(long, value_enum, default_value_t = ReaderName::Auto)]
    reader: ReaderName,
    /// Also read page_owner (kernel booted with page_owner=on): definition O, better sources.
    #[arg(long, conflicts_with = "snapshot")]
    owners: bool,
    /// Name who holds unmovable pages: slab caches, programs, sockets, drivers (needs BPF,
    /// or a kernel booted with page_owner=on, whose records then name who asked).
    #[arg(long, conflicts_with_all = ["snapshot", "root"])]
    who: bool,
    /// Read a saved tree (DIR/proc/kpageflags, …) instead of the running system.
    #[arg(long, value_name = "DIR", conflicts_with = "snapshot")]
    root: Option<PathBuf>,
    /// Read a snapshot made by --format snapshot.
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ReaderName {
    /// The best one that works here.
    Auto,
    /// /proc/kpageflags.
    Procfs,
    /// A BPF program that copies struct page.
    Bpf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Map, tables and bars.
    Text,
    /// One object, schema ample.scan/1.
    Json,
    /// A long table, one value a line.
    Csv,
    /// Gauges for a metrics collector, fewer than 200 series.
    Openmetrics,
    /// Its rows in the table of a fleet, as Apache Parquet: for ample fleet.
    Parquet,
    /// The pages themselves, for --snapshot, ample scan diff, ample fleet and ample whatif.
    Snapshot,
}

impl Input {
    fn options(&self) -> ScanOptions {
        let reader = match self.reader {
            ReaderName::Auto => ReaderChoice::Auto,
            ReaderName::Procfs => ReaderChoice::Procfs,
            ReaderName::Bpf => ReaderChoice::Bpf,
        };
        let root = self.root.as_deref().map_or_else(Root::live, Root::offline);
        ScanOptions {
            root,
            reader,
            owners: self.owners,
            who: self.who,
            progress: std::io::stderr().is_terminal().then_some(progress),
        }
    }
}

/// Shows how far a scan is on standard error once it has taken a second, and wipes the line at
/// its end.
fn progress(done: u64, total: u64) {
    static STARTED: OnceLock<Instant> = OnceLock::new();
    static SHOWN: AtomicU64 = AtomicU64::new(u64::MAX);
    let percent = done * 100 / total.max(1);
    let late = STARTED.get_or_init(Instant::now).elapsed() >= Duration::from_secs(1);
    if late && SHOWN.swap(percent, Ordering::Relaxed) != percent {
        let wipe = if done >= total { "\r\x1b[K" } else { "" };
        tell_part(format_args!("\rreading pages: {percent} %{wipe}"));
    }
}

/// Runs the command.
///
/// # Errors
/// When the machine, the tree or the snapshot cannot be read, or the output not written. When
/// only the permission to look at pages is missing, what the free lists say is still printed.
pub fn run(args: &ScanArgs) -> anyhow::Result<Verdict> {
    let output = args.output.as_deref();
    if let Some(Command::Diff(diff)) = &args.command {
        emit(None, &diff::run(diff)?)?;
        return Ok(Verdict::Ok);
    }
    if let Some(rounds) = args.bench {
        let rounds = ScanBenchParams {
            rounds: rounds as usize,
        };
        let result = Finished::of(&ScanBench::run(&rounds, &|_| {})?, false)?;
        let (text, json) = (result.text(), result.json);
        emit(output, if args.json { &json } else { &text }.as_bytes())?;
        return Ok(Verdict::Ok);
    }
    let options = args.input.options();
    if let Some(seconds) = args.watch {
        let options = ScanOptions {
            progress: None,
            ..options
        };
        watch(seconds, &options, &args.sizes)?;
        return Ok(Verdict::Ok);
    }
    let scan = match &args.input.snapshot {
        Some(path) => snapshot::read(path)?,
        None => match scan_live(&options) {
            Err(error) if error.is_permission() => return without_pages(args, &options, error),
            scan => scan?,
        },
    };
    if let Some(progress) = options.progress {
        progress(1, 1);
    }
    report(args, scan)
}

#[cfg(feature = "watch")]
fn watch(seconds: f64, options: &ScanOptions, sizes: &SizeList) -> anyhow::Result<()> {
    watch::run(seconds, options, sizes)
}

#[cfg(not(feature = "watch"))]
fn watch(_: f64, _: &ScanOptions, _: &SizeList) -> anyhow::Result<()> {
    anyhow::bail!("--watch is not in this build; build with --features watch")
}

/// Prints a scan and checks the thresholds.
fn report(args: &ScanArgs, mut scan: Scan) -> anyhow::Result<Verdict> {
    let Ok(builder) = MetricsBuilder::collect(&mut scan, &args.sizes);
    let service = match args.filter.target() {
        Some(target) => Some(ServiceMemory::read(
            &target,
            &builder,
            scan.meta.who.as_ref(),
        )?),
        None => None,
    };
    let style = style::Style::detect(args.output.is_none());
    let about = service
        .as_ref()
        .map(|own| (own.name().to_string(), own.render(&style)));
    let mut view = View::new(&scan, &builder);
    view.service = service;
    let bytes = match args.format() {
        Format::Text => {
            let mut text = text::render(&scan, &builder, &style);
            if let Some((name, body)) = about {
                text.push_str(&format!(
                    "\n{}\n{body}",
                    style.paint(style::Colour::Strong, &name)
                ));
            }
            text.into_bytes()
        }
        Format::Snapshot => snapshot::encode(&scan).context("cannot encode the snapshot")?,
        Format::Parquet => {
            ample_fleet::encode(&[ample_fleet::rows(&mut scan, &Labels::default())])?
        }
        format => machine_readable(format, &view)?,
    };
    emit(args.output.as_deref(), &bytes)?;
    let mut verdict = Verdict::Ok;
    for threshold in &args.fail_if {
        if let Some(crossed) = threshold.check(&view).map_err(anyhow::Error::msg)? {
            tell!("ample: {crossed}");
            verdict = Verdict::Negative;
        }
    }
    Ok(verdict)
}

/// What the free lists say, for a user who may not look at pages. Always ends in the error.
fn without_pages(
    args: &ScanArgs,
    options: &ScanOptions,
    error: HostError,
) -> anyhow::Result<Verdict> {
    let kernel = options
        .root
        .read("proc/sys/kernel/osrelease")
        .unwrap_or_default();
    let view = View::of_free_lists(
        zones(&options.root)?,
        kernel.trim().to_string(),
        &args.sizes,
    );
    let bytes = match args.format() {
        Format::Text => text::render_free_lists(&view).into_bytes(),
        Format::Snapshot | Format::Parquet => {
            return Err(error).context("this format needs the pages");
        }
        format => machine_readable(format, &view)?,
    };
    emit(args.output.as_deref(), &bytes)?;
    Err(error).context(
        "only the free lists were read; missing are the map, unmovable pages, sources, potential \
         contiguity, and sizes above the largest free list",
    )
}

fn machine_readable(format: Format, view: &View) -> anyhow::Result<Vec<u8>> {
    match format {
        Format::Csv => Ok(export::csv(view)),
        Format::Openmetrics => Ok(openmetrics::render(view)),
        _ => export::json(view),
    }
}

impl ScanArgs {
    fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}

fn emit(path: Option<&Path>, bytes: &[u8]) -> anyhow::Result<()> {
    match path {
        Some(path) => write_file(path, bytes),
        None => Ok(std::io::stdout().lock().write_all(bytes)?),
    }
}
