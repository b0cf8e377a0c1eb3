// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample fleet`: what many scans say together.

mod far;
mod interrupt;
mod json;
mod page;
mod report;
mod simulate;
mod tables;
mod text;

use super::Verdict;
use ample_fleet::{FilesProgress, Sources, Unusable};
use ample_lab::server_model::drawn_fleet::SIMULATED_AT;
use anyhow::{Context, Result, ensure};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Study the scans of many machines: how contiguity and unmovable memory are distributed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct FleetArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Report(report::ReportArgs),
    Convert(ConvertArgs),
    Generate(GenerateArgs),
    Simulate(simulate::SimulateArgs),
}

/// What is read.
#[derive(Debug, clap::Args)]
struct SourceArgs {
    /// Snapshots, Parquet files (*.parquet), directories with such files below them, patterns
    /// ('scans/2026-11-*/*.parquet'), or objects of a store (s3://BUCKET/KEY).
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<PathBuf>,
    /// Seconds that an object store has for each answer, or for 4 MiB of it.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = patience)]
    patience: Duration,
}

impl SourceArgs {
    fn gather(&self, workspace: &Path, progress: FilesProgress<'_>) -> Result<Sources> {
        far::gather(&self.sources, self.patience, workspace, progress)
    }
}

fn patience(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok();
    let seconds = seconds.filter(|seconds| (0.1..=3600.0).contains(seconds));
    let wrong = || "seconds from 0.1 to 3600".to_string();
    seconds.map(Duration::from_secs_f64).ok_or_else(wrong)
}

/// Put snapshots and small Parquet files together into large Parquet files.
#[derive(Debug, clap::Args)]
struct ConvertArgs {
    #[command(flatten)]
    from_where: SourceArgs,
    /// An empty or new directory for the files.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

/// Make a fleet that does not exist out of real scans, to try a study at size.
///
/// Each machine is one of the scans with its unmovable and free memory multiplied by factors that
/// it draws once and that wander from scan to scan. The figures of such a fleet mean nothing.
#[derive(Debug, clap::Args)]
struct GenerateArgs {
    /// Snapshots of real machines, or directories of them.
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<PathBuf>,
    /// An empty or new directory for the files.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// How many machines to make.
    #[arg(long, value_name = "N", default_value_t = 1000,
        value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    hosts: u64,
    /// Scans of each machine.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=100_000))]
    scans: u64,
    /// Hours between two scans of a machine.
    #[arg(long, value_name = "HOURS", default_value_t = 1)]
    every: u16,
    /// Seed of everything that is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

const EXAMPLES: &str = "Examples:
  ample scan --format snapshot -o $(hostname).snap    on every host, then collect the files
  ample fleet report snaps/                           the study of all of them
  ample fleet report snaps/ --page fleet.html         with figures
  ample fleet report snaps/ --json | jq .worst
  ample fleet report lake/ 'old/*.snap'               several sources
  ample fleet report s3://scans/2026-11               an object store
  ample fleet convert snaps/ -o lake                  once, for studies without waiting";

/// Runs the command.
///
/// # Errors
/// When nothing can be read, or a file not be written.
pub fn run(args: &FleetArgs) -> Result<Verdict> {
    match &args.command {
        Command::Report(args) => report::run(args),
        Command::Convert(args) => convert(args),
        Command::Generate(args) => generate(args),
        Command::Simulate(args) => simulate::run(args),
    }
}

fn generate(args: &GenerateArgs) -> Result<Verdict> {
    let real = ample_fleet::scans(&args.sources)?;
    ensure!(
        !real.is_empty(),
        "no snapshot to begin with; make one with: ample scan --format snapshot -o NAME.snap"
    );
    empty_directory(&args.output)?;
    let fleet = ample_fleet::Generated {
        hosts: args.hosts,
        scans: args.scans,
        every_seconds: i64::from(args.every) * 3600,
        from_seconds: SIMULATED_AT,
        seed: args.seed,
    };
    let bar = super::progress_bar("making machines");
    let files = fleet.write(&real, &args.output, &|done, of| step(&bar, done, of))?;
    bar.finish_and_clear();
    writeln!(
        std::io::stdout(),
        "{} machines, {} scans each, seed {}, from {} real scans: {} files in {}",
        args.hosts,
        args.scans,
        args.seed,
        real.len(),
        files.len(),
        args.output.display()
    )?;
    Ok(Verdict::Ok)
}

fn convert(args: &ConvertArgs) -> Result<Verdict> {
    empty_directory(&args.output)?;
    let bar = super::progress_bar("reading scans");
    let found = args
        .from_where
        .gather(&args.output, &|done, of| step(&bar, done, of))?;
    bar.finish_and_clear();
    name_unusable(&found.unusable);
    let (made, large): (Vec<_>, Vec<_>) =
        (found.files.iter()).partition(|file| file.starts_with(&args.output));
    for file in &large {
        tell!(
            "ample: {} is large already and stays where it is",
            text::plain(&file.display().to_string())
        );
    }
    ensure!(
        !made.is_empty() || !large.is_empty(),
        "no scan among {} files",
        found.read
    );
    writeln!(
        std::io::stdout(),
        "{} files read, {} skipped: {} files in {}",
        found.read,
        found.unusable.len(),
        made.len(),
        args.output.display()
    )?;
    Ok(Verdict::Ok)
}

/// Files that are named one by one; of a folder of a hundred thousand wrong ones that is enough.
const NAMED: usize = 100;

fn name_unusable(files: &[Unusable]) {
    for unusable in files.iter().take(NAMED) {
        let file = text::plain(&unusable.file.display().to_string());
        tell!("ample: skipped {file}: {}", text::plain(&unusable.reason));
    }
    if let Some(more) = files.len().checked_sub(NAMED).filter(|&more| more > 0) {
        tell!("ample: skipped {more} more; fleet report --json names all");
    }
}

fn step(bar: &indicatif::ProgressBar, done: usize, of: usize) {
    interrupt::checkpoint();
    bar.set_position((1000 * done / of.max(1)) as u64);
}

/// Makes the directory where it does not exist; files of another run in it are an error.
fn empty_directory(path: &Path) -> Result<()> {
    let about = || format!("cannot write to {}", path.display());
    std::fs::create_dir_all(path).with_context(about)?;
    let mut entries = std::fs::read_dir(path).with_context(about)?;
    ensure!(
        entries.next().is_none(),
        "{} is not empty; name another directory",
        path.display()
    );
    Ok(())
}

fn now_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() as i64)
}
