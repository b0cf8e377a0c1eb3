// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample fleet report`: the study of a fleet.

use super::{SourceArgs, interrupt, json, name_unusable, now_seconds, page, step, text};
use crate::cmd::{Verdict, can_write, write_file};
use ample_fleet::dates::parse_date;
use ample_fleet::study::Study;
use ample_fleet::{FleetEngine, Parameters, QUERIES, ran_out_of_memory};
use ample_pfn::parse_bytes;
use anyhow::{Result, bail, ensure};
use std::io::Write;
use std::path::PathBuf;

/// The study of a fleet: Contiguitas §2.4 and §2.5, figures 4 to 6, on your machines.
///
/// Of each host name the latest scan counts; the days and the drift count all scans. Files and rows
/// that cannot be used are named and counted, and count nowhere else.
#[derive(Debug, clap::Args)]
#[command(after_help = "The questions are SQL files, which also run on Spark: docs/fleet.md.")]
pub struct ReportArgs {
    #[command(flatten)]
    from_where: SourceArgs,
    /// One JSON object, schema ample.fleet/2.
    #[arg(long)]
    json: bool,
    /// Also write a page with the figures.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Also write the results of the queries, to compare them with those of another engine.
    #[arg(long, value_name = "FILE")]
    tables: Option<PathBuf>,
    /// Free contiguity is told of hosts with at least this much free memory, as in the paper.
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = parse_bytes)]
    min_free: u64,
    /// How many of the worst hosts are named.
    #[arg(long, value_name = "N", default_value_t = 10)]
    worst: u16,
    /// Drift begins with the scans of this date; all else is told of all scans.
    #[arg(long, value_name = "DATE", value_parser = parse_date)]
    from: Option<i64>,
    /// Drift ends with the scans of this date.
    #[arg(long, value_name = "DATE", value_parser = parse_date)]
    to: Option<i64>,
    /// Threads; all processors without it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Memory that the engine may keep; each thread takes some 10 MB of it.
    #[arg(long, value_name = "BYTES", default_value = "3G", value_parser = parse_bytes)]
    memory: u64,
}

const DAY: i64 = 86_400;
/// What the engine sets aside for a sort in each thread (DataFusion's default).
const SORT_BYTES: u64 = 10 << 20;

/// Runs the command.
///
/// # Errors
/// When no scan can be read, a query fails, or the page cannot be written.
pub fn run(args: &ReportArgs) -> Result<Verdict> {
    if let (Some(from), Some(to)) = (args.from, args.to) {
        ensure!(from <= to, "--from is after --to: nothing lies between");
    }
    for path in [&args.page, &args.tables].into_iter().flatten() {
        can_write(path)?;
    }
    let study = study(args);
    interrupt::checkpoint();
    let study = study?;
    name_unusable(&study.unusable);
    if study.scans.hosts == 0 {
        let problems: u64 = study.problems.iter().map(|problem| problem.row_count).sum();
        bail!(
            "no scan that counts ({} files skipped, {problems} rows with a problem{}); make some \
             with: ample scan --format snapshot -o NAME.snap",
            study.unusable.len(),
            (study.problems.first())
                .map_or(String::new(), |first| format!(", first: {}", first.problem))
        );
    }
    if let Some(path) = &args.page {
        write_file(path, page::page(&study).to_html())?;
        tell!("ample: wrote {}", path.display());
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &json::json(&study))?;
        writeln!(out)?;
    } else {
        out.write_all(text::text(&study).as_bytes())?;
        let asked = args.from.is_some() || args.to.is_some();
        if let Some(line) = text::no_drift_line(&study).filter(|_| asked) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(Verdict::Ok)
}

fn study(args: &ReportArgs) -> Result<Study> {
    let workspace = tempfile::tempdir()?;
    interrupt::remove_at_end(workspace.path())?;
    let threads = args.threads.map_or_else(
        || std::thread::available_parallelism().map_or(1, usize::from),
        usize::from,
    );
    let bar = crate::cmd::progress_bar("reading scans");
    let mut sources = args
        .from_where
        .gather(workspace.path(), &|done, of| step(&bar, done, of))?;
    let parameters = Parameters {
        now_seconds: now_seconds(),
        min_free_bytes: i64::try_from(args.min_free).unwrap_or(i64::MAX),
        worst_hosts: i64::from(args.worst),
        from_seconds: args.from.unwrap_or(0),
        to_seconds: args.to.map_or(i64::MAX, |day| day + DAY - 1),
    };
    bar.set_message("asking");
    let too_little = |error: anyhow::Error| {
        error.context(format!(
            "--memory {} is too little for this fleet on {threads} threads; give more memory, or \
             fewer --threads",
            args.memory
        ))
    };
    loop {
        if sources.files.is_empty() {
            return Ok(Study {
                unusable: sources.unusable,
                ..Study::default()
            });
        }
        let asked = FleetEngine::new(&sources.files, &parameters, threads, args.memory as usize)
            .and_then(|mut engine| {
                engine.run(&QUERIES, &|done, of| step(&bar, done, of))?;
                Ok(engine)
            });
        match asked {
            Ok(engine) => {
                bar.finish_and_clear();
                if let Some(path) = &args.tables {
                    write_file(path, json::tables(&engine, &parameters)?)?;
                }
                return Study::of(&engine, sources.unusable);
            }
            Err(error) if ran_out_of_memory(&error) => return Err(too_little(error)),
            // A large file that breaks in the middle is set aside, and the rest is asked again.
            Err(error) if sources.set_broken_aside() == 0 => {
                // With too little for a sort the engine fails in other ways too.
                let little = args.memory < SORT_BYTES * threads as u64;
                return Err(if little { too_little(error) } else { error });
            }
            Err(_) => {}
        }
    }
}
