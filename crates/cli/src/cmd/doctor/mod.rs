// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample doctor`: what this machine allows, and what to do about the rest.

mod checks;

use super::Verdict;
use super::scan::style::{Colour, Style};
use ample_host::Root;
use ample_report::Table;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

/// Say what this machine allows (readers, owners, huge pages, Contiguitas) and what to do.
///
/// Reads files below /proc and /sys, and writes none. Nothing of it needs root, but without root
/// some answers are not known.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT)]
pub struct DoctorArgs {
    /// One JSON object, schema ample.doctor/1.
    #[arg(long)]
    json: bool,
    /// Look at a saved tree (DIR/proc/…, DIR/sys/…) instead of the running system.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

const EXIT: &str = "Exit codes: 0 ample scan can look at the pages; 1 it cannot; 2 error.";

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// There, and in use.
    Ok,
    /// There, and off.
    Off,
    /// Not there, or not allowed.
    Missing,
    /// Cannot be told without root.
    Unknown,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    /// Short name.
    name: &'static str,
    /// How it ended.
    state: State,
    /// What was found.
    found: String,
    /// What to do for more; `null` when there is nothing to do.
    advice: Option<&'static str>,
}

/// Everything that was looked at.
#[derive(Debug, Serialize)]
struct Diagnosis {
    schema: &'static str,
    /// Whether `ample scan` can look at pages.
    can_scan: bool,
    /// Each check.
    checks: Vec<Check>,
}

/// Runs the command.
///
/// # Errors
/// When the saved tree does not exist, or standard output is closed.
pub fn run(args: &DoctorArgs) -> anyhow::Result<Verdict> {
    if let Some(directory) = &args.root {
        anyhow::ensure!(
            directory.join("proc").is_dir(),
            "{} holds no directory proc",
            directory.display()
        );
    }
    let root = args.root.as_deref().map_or_else(Root::live, Root::offline);
    let (can_scan, checks) = checks::all(&root);
    let diagnosis = Diagnosis {
        schema: "ample.doctor/1",
        can_scan,
        checks,
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &diagnosis)?;
        writeln!(out)?;
    } else {
        out.write_all(text(&diagnosis, &Style::detect(true)).as_bytes())?;
    }
    Ok(match can_scan {
        true => Verdict::Ok,
        false => Verdict::Negative,
    })
}

fn text(diagnosis: &Diagnosis, style: &Style) -> String {
    let verdict = match diagnosis.can_scan {
        true => "ample scan can look at the pages of this machine.",
        false => "ample scan cannot look at the pages of this machine: only at its free lists.",
    };
    let mut table = Table::headed("check | state | found");
    for check in &diagnosis.checks {
        let state = match check.state {
            State::Ok => "ok",
            State::Off => "off",
            State::Missing => "missing",
            State::Unknown => "unknown",
        };
        table.row(vec![check.name.into(), state.into(), check.found.clone()]);
    }
    let mut text = format!(
        "{}\n\n{}",
        style.paint(Colour::Strong, verdict),
        table.to_text()
    );
    let mut advice = diagnosis
        .checks
        .iter()
        .filter_map(|check| Some((check.name, check.advice?)));
    if let Some(first) = advice.next() {
        text.push_str("\nWhat to do\n");
        for (name, advice) in std::iter::once(first).chain(advice) {
            text.push_str(&format!("  {name}: {advice}\n"));
        }
    }
    text
}
