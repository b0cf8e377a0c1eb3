// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample fleet`: what many scans say together.

mod hosts;
mod study;
mod text;

use super::{Verdict, write_file};
use ample_pfn::{SizeList, parse_bytes};
use anyhow::bail;
use std::io::Write;
use std::path::PathBuf;

/// Put many scans side by side: how contiguity and unmovable memory are distributed over hosts.
///
/// Reads what `ample scan --format snapshot` or `--format parquet` wrote on each host, and repeats
/// the fleet study of the Contiguitas paper (section 2.4 and 2.5, figures 4 to 6) on it:
/// distributions of free contiguity and of unmovable blocks, sources, correlation with uptime.
/// Of several scans with one host name the latest counts.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct FleetArgs {
    /// Snapshots, Parquet files (*.parquet), or directories of them.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// One JSON object, schema ample.fleet/1.
    #[arg(long)]
    json: bool,
    /// Also write a page with the figures.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Block sizes to report (Parquet files hold those that they were written with).
    #[arg(long, value_name = "LIST", default_value = "2M,4M,32M,1G")]
    sizes: SizeList,
    /// Free contiguity is told of hosts with at least this much free memory, as in the paper.
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = parse_bytes)]
    min_free: u64,
    /// Count every scan, not only the latest of each host name.
    #[arg(long)]
    every_scan: bool,
}

const EXAMPLES: &str = "Examples:
  ample scan --format snapshot -o $(hostname).snap    on every host, then collect the files
  ample fleet snaps/                                  all of them
  ample fleet snaps/*.snap --report fleet.html        with figures
  ample fleet snaps/ --json | jq .unmovable";

/// Runs the command.
///
/// # Errors
/// When no scan can be read, or the report cannot be written.
pub fn run(args: &FleetArgs) -> anyhow::Result<Verdict> {
    let bar = super::progress_bar("reading scans");
    let tell = |done: usize, of: usize| bar.set_position((1000 * done / of.max(1)) as u64);
    let found = hosts::read_all(&args.paths, &args.sizes, args.every_scan, &tell)?;
    bar.finish_and_clear();
    for (file, why) in &found.skipped {
        eprintln!("ample: skipped {}: {why}", file.display());
    }
    if found.hosts.is_empty() {
        bail!(
            "no scan among {} files; make some with: ample scan --format snapshot -o NAME.snap",
            found.skipped.len()
        );
    }
    let study = study::Study::of(&found, &args.sizes, args.min_free);
    if let Some(path) = &args.report {
        let page = text::page(&study, &found.hosts).to_html();
        write_file(path, page)?;
        eprintln!("ample: wrote {}", path.display());
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &study)?;
        writeln!(out)?;
    } else {
        out.write_all(text::text(&study).as_bytes())?;
    }
    Ok(Verdict::Ok)
}
