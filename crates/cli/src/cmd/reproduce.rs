// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample reproduce`: every experiment, as JSON files and one page.

use super::sim;
use super::{Verdict, scan};
use ample_lab::experiment::{AnyExperiment, Request};
use ample_lab::stop;
use ample_report::{Page, Section, escape, standalone};
use anyhow::{Context, bail};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Run every experiment of the papers and write the results as JSON and one page.
///
/// The page sets the paper's values beside ours. At full size this takes hours: --quick runs
/// small versions whose figures are not the experiments' but show that each one works, and --only
/// picks. An experiment that fails does not keep the others from running. Ctrl-C ends the run
/// after the experiment under way, cut short where that can be (exit code 1; a second Ctrl-C ends
/// it at once).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Run these only.
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Small, fast versions.
    #[arg(long)]
    quick: bool,
    /// Say what there is to run, and end.
    #[arg(long)]
    list: bool,
    /// Directory for ID.json, ID.svg and index.html.
    #[arg(long, value_name = "DIR", default_value = "report/reproduce")]
    out: PathBuf,
    /// Print one object, schema ample.reproduce/1: what ran, where its results are.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  ample reproduce --list                    what there is
  ample reproduce --quick                   all of it, small, to see that it works
  ample reproduce --only fig11,ablation     two of them at full size";

/// What an entry runs.
#[derive(Clone, Copy)]
enum Kind {
    Lab(&'static dyn AnyExperiment),
    ScanBench,
}

struct Entry {
    id: &'static str,
    title: String,
    kind: Kind,
}

/// Rounds of the benchmark of the scan, at full size and quick.
const BENCH_ROUNDS: [usize; 2] = [15, 3];

fn entries() -> Vec<Entry> {
    let lab = ample_lab::ALL.iter().map(|&experiment| Entry {
        id: experiment.about().id,
        title: experiment.title(),
        kind: Kind::Lab(experiment),
    });
    let bench = Entry {
        id: "scan-bench",
        title: "Readers of ample scan beside a bare read loop, on this machine (root)".into(),
        kind: Kind::ScanBench,
    };
    lab.chain([bench]).collect()
}

/// The results of one entry.
struct Results {
    text: String,
    json: String,
    svg: Option<String>,
}

#[derive(Serialize)]
struct Done {
    id: &'static str,
    title: String,
    duration_ns: u64,
    json_file: Option<String>,
    error: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// When there is no such experiment, the results cannot be written, or an experiment failed.
pub fn run(args: &Args) -> anyhow::Result<Verdict> {
    let chosen = chosen(&args.only)?;
    if args.list {
        let lines = chosen.iter().map(|e| format!("{:<13} {}\n", e.id, e.title));
        let text: String = lines.collect();
        std::io::stdout().lock().write_all(text.as_bytes())?;
        return Ok(Verdict::Ok);
    }
    sim::stop_on_interrupt()?;
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot create {}", args.out.display()))?;
    let mut page = Page::new("The experiments, paper beside here", &lead(args));
    let mut all = Vec::new();
    let count = chosen.len();
    for (index, entry) in chosen.into_iter().enumerate() {
        if stop::requested() {
            break;
        }
        eprintln!("[{} of {count}] {}: {}", index + 1, entry.id, entry.title);
        let started = Instant::now();
        let results = run_entry(&entry, args.quick);
        let duration_ns = started.elapsed().as_nanos() as u64;
        page.push(section(&entry, &results));
        let (json_file, error) = match &results {
            Ok(results) => (Some(save(&args.out, entry.id, results)?), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        all.push(Done {
            id: entry.id,
            title: entry.title,
            duration_ns,
            json_file,
            error,
        });
    }
    let index = args.out.join("index.html");
    write(&index, &page.to_html())?;
    print(args, &all, &index)?;
    let failed: Vec<&str> = all
        .iter()
        .filter(|done| done.error.is_some())
        .map(|done| done.id)
        .collect();
    if !failed.is_empty() {
        bail!("{} of {count} failed: {}", failed.len(), failed.join(", "));
    }
    if stop::requested() {
        eprintln!("stopped early: the results are partial");
        return Ok(Verdict::Negative);
    }
    Ok(Verdict::Ok)
}

fn chosen(only: &[String]) -> anyhow::Result<Vec<Entry>> {
    let all = entries();
    if let Some(unknown) = only.iter().find(|id| !all.iter().any(|e| e.id == **id)) {
        let ids: Vec<&str> = all.iter().map(|entry| entry.id).collect();
        bail!(
            "no experiment is called {unknown:?}; there are {}",
            ids.join(", ")
        );
    }
    let wanted = |entry: &Entry| only.is_empty() || only.iter().any(|id| id == entry.id);
    Ok(all.into_iter().filter(wanted).collect())
}

fn lead(args: &Args) -> String {
    let size = if args.quick {
        "small versions (--quick): these are not the experiments’ figures"
    } else {
        "full size"
    };
    format!(
        "ample {}, {size}; all but scan-bench is simulated",
        env!("CARGO_PKG_VERSION")
    )
}

fn run_entry(entry: &Entry, quick: bool) -> anyhow::Result<Results> {
    match entry.kind {
        Kind::Lab(experiment) => {
            let request = Request {
                quick,
                ..Request::default()
            };
            let result = sim::run_experiment(experiment, &request)?;
            Ok(Results {
                text: result.text(),
                json: result.json,
                svg: result.figures.into_iter().next().map(|figure| figure.svg),
            })
        }
        Kind::ScanBench => {
            let (text, json) = scan::bench::run(BENCH_ROUNDS[usize::from(quick)])?;
            Ok(Results {
                text,
                json,
                svg: None,
            })
        }
    }
}

fn section(entry: &Entry, results: &anyhow::Result<Results>) -> Section {
    let section = Section::new(entry.id, entry.id).text(&entry.title);
    match results {
        Ok(results) => {
            let section = match &results.svg {
                Some(svg) => section.figure(svg, &entry.title),
                None => section,
            };
            let text = escape(&results.text);
            section.html(&format!("<div class='scroll'><pre>{text}</pre></div>\n"))
        }
        Err(error) => section.verdict(&format!("Not run: {error:#}")),
    }
}

/// Writes the results of one entry; the name of the JSON file.
fn save(directory: &Path, id: &str, results: &Results) -> anyhow::Result<String> {
    let file = directory.join(format!("{id}.json"));
    write(&file, &results.json)?;
    if let Some(svg) = &results.svg {
        write(&directory.join(format!("{id}.svg")), &standalone(svg))?;
    }
    Ok(file.display().to_string())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn print(args: &Args, all: &[Done], index: &Path) -> anyhow::Result<()> {
    let page = index.display().to_string();
    let text = if args.json {
        let view = serde_json::json!({
            "schema": "ample.reproduce/1",
            "quick": args.quick,
            "partial": stop::requested(),
            "page": page,
            "experiments": all,
        });
        serde_json::to_string_pretty(&view)? + "\n"
    } else {
        let line = |done: &Done| {
            let how = done
                .error
                .as_ref()
                .map_or("ok".into(), |e| format!("failed: {e}"));
            format!(
                "{:<13} {:>7.1} s  {how}\n",
                done.id,
                done.duration_ns as f64 / 1e9
            )
        };
        let lines: String = all.iter().map(line).collect();
        format!("{lines}\nPaper beside here: {page}\n")
    };
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique() {
        let mut ids: Vec<&str> = entries().iter().map(|entry| entry.id).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }
}
