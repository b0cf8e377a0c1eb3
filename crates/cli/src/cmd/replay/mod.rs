// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample replay`: a recorded kernel drives the server model under every policy.

mod text;

use super::{Verdict, can_write, progress_bar, write_file};
use ample_host::snapshot;
use ample_lab::server_model::recorded_kernel;
use ample_mm::replay::{KernelReplay, ReplayOptions, ReplayResult, Start, Survey};
use ample_mm::{Config, PolicyKind};
use ample_pfn::parse_bytes;
use anyhow::bail;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Replay page events recorded on a real kernel under each policy.
///
/// FILE is text of tracefs (trace, trace_pipe), trace-cmd report or perf script, plain or zstd,
/// with the events kmem:mm_page_alloc, mm_page_free and mm_page_free_batched. Each policy serves
/// the same allocations and frees in the same order, and stands beside what the traced kernel
/// made of them. With --snapshot the servers start with the pages that the traced machine held
/// when the recording began; without it they start empty. What the recording lacks (lost events,
/// pages from before it began) is counted and reported.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ReplayArgs {
    /// Recorded page events, made by scripts/record-pages.sh or the kernel guest.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Policies to replay under, or all.
    #[arg(long, value_name = "LIST", default_value = "all", value_delimiter = ',',
          value_parser = policy)]
    policy: Vec<Policies>,
    /// Snapshot of the recorded machine from right before the recording (ample scan --format
    /// snapshot -o FILE): the servers start with its pages and its size.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["memory", "prefill"])]
    snapshot: Option<PathBuf>,
    /// Memory of the servers; without it, up to the last page that the recording names.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    memory: Option<u64>,
    /// Share of memory that page cache fills before the first event, 0 to 1.
    #[arg(long, value_name = "RATIO", default_value_t = 0.0, value_parser = ratio)]
    prefill: f64,
    /// Share of unreadable lines above which FILE is refused, 0 to 1.
    #[arg(long, value_name = "RATIO", default_value_t = 0.01, value_parser = ratio)]
    max_unreadable: f64,
    /// Samples over the recording.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    samples: u32,
    /// Seed of the servers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also write the unmovable 2 MB blocks over time as SVG to FILE.
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
    /// Print one object, schema ample.replay/1.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  perf record -a -e kmem:mm_page_alloc,kmem:mm_page_free,kmem:mm_page_free_batched -- sleep 60
  perf script > pages.txt
  ample replay pages.txt --memory 16G         every policy beside the traced kernel
  ample replay pages.txt --snapshot host.snap the same, from the pages that were there before
  ample replay pages.txt.zst --policy linux,contiguitas --json";

#[derive(Clone, Copy, Debug)]
struct Policies(Option<PolicyKind>);

fn policy(text: &str) -> Result<Policies, String> {
    if text == "all" {
        return Ok(Policies(None));
    }
    let names: Vec<&str> = PolicyKind::ALL.iter().map(|kind| kind.name()).collect();
    PolicyKind::from_name(text)
        .map(|kind| Policies(Some(kind)))
        .ok_or_else(|| format!("no such policy; one of all, {}", names.join(", ")))
}

fn ratio(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err("expected a ratio from 0 to 1".into()),
    }
}

#[derive(Serialize)]
struct View<'a> {
    schema: &'static str,
    file: String,
    prefill_ratio: f64,
    /// Whether the memory size is a guess from the recording.
    memory_inferred: bool,
    snapshot_file: Option<String>,
    #[serde(flatten)]
    result: &'a ReplayResult,
}

/// Runs the command.
///
/// # Errors
/// When the recording cannot be read or is none, or the memory size is out of range.
pub fn run(args: &ReplayArgs) -> anyhow::Result<Verdict> {
    let options = ReplayOptions {
        max_unreadable_ratio: args.max_unreadable,
        samples: args.samples,
        prefill_ratio: args.prefill,
    };
    if let Some(path) = &args.figure {
        can_write(path)?;
    }
    let replay = KernelReplay::open(&args.file, options)?;
    let start = args.snapshot.as_deref().map(start).transpose()?;
    let inferred = args.memory.is_none() && start.is_none();
    if inferred {
        refuse_far_frames(&args.file, replay.survey())?;
    }
    let bytes = args.memory.unwrap_or(replay.survey().memory_bytes());
    let configs = configs(args, bytes, replay.survey().cpus);
    let bar = progress_bar("replaying");
    let told = |share: f64| bar.set_position((share * 1000.0) as u64);
    let result = match &start {
        Some(start) => replay.run_from(start, &configs, &told),
        None => replay.run(&configs, &told),
    };
    bar.finish_and_clear();
    let result = result?;
    if let Some(path) = &args.figure {
        let svg = recorded_kernel::chart("Unmovable 2 MB blocks over the recording", &result);
        write_file(path, ample_report::standalone(&svg))?;
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        let view = View {
            schema: "ample.replay/1",
            file: args.file.display().to_string(),
            prefill_ratio: args.prefill,
            memory_inferred: inferred,
            snapshot_file: args.snapshot.as_ref().map(|p| p.display().to_string()),
            result: &result,
        };
        serde_json::to_writer_pretty(&mut out, &view)?;
        writeln!(out)?;
    } else {
        out.write_all(text::render(&result, &args.file, inferred).as_bytes())?;
    }
    Ok(Verdict::Ok)
}

/// Refuses to guess the memory of a recording in which a few frames are far from all others.
fn refuse_far_frames(file: &Path, survey: &Survey) -> anyhow::Result<()> {
    let Some(far) = survey.far_frames() else {
        return Ok(());
    };
    let size = |bytes: u64| format!("{}M", bytes >> 20);
    bail!(
        "{}: {} of {} events name memory beyond {}, as damage does; say how large the machine was: \
         --memory {}, or --memory {} if they are right",
        file.display(),
        far.events,
        far.of_events,
        size(far.near_bytes),
        size(far.near_bytes),
        size(survey.memory_bytes()),
    )
}

fn start(path: &Path) -> anyhow::Result<Start> {
    let scan = snapshot::read(path)?;
    Ok(Start::new(scan.layout, scan.pages.expand())?)
}

fn configs(args: &ReplayArgs, memory_bytes: u64, cpus: usize) -> Vec<Config> {
    let all = args.policy.iter().any(|policy| policy.0.is_none());
    let wanted = |kind: &PolicyKind| all || args.policy.iter().any(|p| p.0 == Some(*kind));
    let config = |kind| {
        let mut config = Config::new(kind);
        config.memory_bytes = memory_bytes;
        config.cpus = cpus;
        config.seed = args.seed;
        config
    };
    PolicyKind::ALL
        .into_iter()
        .filter(wanted)
        .map(config)
        .collect()
}
