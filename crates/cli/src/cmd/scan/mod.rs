// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample scan`: what this machine's physical memory looks like.

mod export;
mod map;
mod style;
mod text;
mod view;

use super::Verdict;
use ample_host::{ReaderChoice, Root, Scan, ScanOptions, scan_live, snapshot};
use ample_pfn::{MetricsBuilder, SizeList};
use anyhow::Context;
use clap::ValueEnum;
use std::io::Write;
use std::path::PathBuf;
use view::View;

/// Look at this machine's physical memory: a map, free and potential contiguity, who is unmovable.
///
/// Reads every page's state through a BPF program or /proc/kpageflags (root), and changes
/// nothing. "Unmovable" has several definitions that differ widely on one machine, so K (the
/// kernel's own test), P (page flags, as in the Contiguitas fleet study) and O (who allocated)
/// stand side by side; a-b is an interval that the data leave open.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    input: Input,
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
}

const EXAMPLES: &str = "Examples:
  ample scan                                  a picture and the tables
  ample scan --json | jq .definitions.K       one definition
  ample scan --format snapshot -o host.snap   keep it (under 1 MB); look again with --snapshot";

/// Where the pages come from.
#[derive(Debug, clap::Args)]
struct Input {
    /// How to read the pages of the running system.
    #[arg(long, value_enum, default_value_t = ReaderName::Auto)]
    reader: ReaderName,
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
    /// The pages themselves, for --snapshot, ample scan diff, ample fleet and ample whatif.
    Snapshot,
}

impl Input {
    fn scan(&self) -> anyhow::Result<Scan> {
        if let Some(path) = &self.snapshot {
            return Ok(snapshot::read(path)?);
        }
        let reader = match self.reader {
            ReaderName::Auto => ReaderChoice::Auto,
            ReaderName::Procfs => ReaderChoice::Procfs,
            ReaderName::Bpf => ReaderChoice::Bpf,
        };
        let root = self.root.as_deref().map_or_else(Root::live, Root::offline);
        Ok(scan_live(&ScanOptions { root, reader })?)
    }
}

/// Runs the command.
///
/// # Errors
/// When the machine, the tree or the snapshot cannot be read, or the output not written.
pub fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut scan = args.input.scan()?;
    let builder = match MetricsBuilder::collect(&mut scan, &args.sizes) {
        Ok(builder) => builder,
        Err(never) => match never {},
    };
    let format = if args.json { Format::Json } else { args.format };
    let bytes = match format {
        Format::Text => {
            let style = style::Style::detect(args.output.is_none());
            text::render(&scan, &builder, &style).into_bytes()
        }
        Format::Json => export::json(&View::new(&scan, &builder))?,
        Format::Snapshot => snapshot::encode(&scan).context("cannot encode the snapshot")?,
    };
    emit(args.output.as_deref(), &bytes)?;
    Ok(Verdict::Ok)
}

fn emit(path: Option<&std::path::Path>, bytes: &[u8]) -> anyhow::Result<()> {
    match path {
        Some(path) => {
            std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
        }
        None => Ok(std::io::stdout().lock().write_all(bytes)?),
    }
}
