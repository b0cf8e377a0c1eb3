// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample fleet simulate`: a fleet drawn from distributions, one file a server.

use crate::cmd::sim::stop_on_interrupt;
use crate::cmd::{Verdict, write_file};
use ample_fleet::encode;
use ample_lab::server_model::drawn_fleet::{DrawnFleet, fleet_text};
use ample_mm::PolicyKind;
use anyhow::{Context, Result, ensure};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Simulate a fleet of servers that are drawn from distributions.
///
/// SPEC says how many servers of which kinds, and from which distributions their memory, uptime,
/// kernel memory, restarts and deploys come. Each is simulated up to its uptime, looked at once,
/// and becomes one Parquet file, the same bytes on any machine with any number of threads. The
/// same command goes on where another one ended, and several machines may each simulate a part
/// (--servers).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct SimulateArgs {
    /// The fleet: calibrated or mixed, which are shipped, or a TOML file.
    #[arg(value_name = "SPEC")]
    spec: String,
    /// The directory for the files; those that are there are not simulated again.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Another memory manager under the same servers.
    #[arg(long, value_name = "POLICY", value_parser = policy)]
    policy: Option<PolicyKind>,
    /// Only these servers, the second one not included.
    #[arg(long, value_name = "A..B", value_parser = numbers)]
    servers: Option<Range<u32>>,
}

const EXAMPLES: &str = "Examples:
  ample fleet simulate calibrated -o linux
  ample fleet simulate calibrated -o ample --policy contiguitas
  ample fleet report linux
  ample fleet simulate SPEC -o part --servers 0..100      on one machine, 100..200 on the next

Exit codes: 0 every server is there; 2 the fleet cannot be read, or Ctrl-C ended it.";

/// The text of the fleet, beside its servers; readers of scans leave hidden files out.
const SPEC_FILE: &str = ".fleet.toml";

fn policy(name: &str) -> Result<PolicyKind, String> {
    PolicyKind::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = PolicyKind::ALL.iter().map(|policy| policy.name()).collect();
        format!("give one of {}", names.join(", "))
    })
}

fn numbers(text: &str) -> Result<Range<u32>, String> {
    let ends = text.split_once("..").and_then(|(first, end)| {
        let range = first.parse().ok()?..end.parse().ok()?;
        (!range.is_empty()).then_some(range)
    });
    ends.ok_or_else(|| "give two numbers, the lower one first, as 0..100".into())
}

/// Runs the command.
///
/// # Errors
/// When the fleet cannot be read, or a file not be written.
pub fn run(args: &SimulateArgs) -> Result<Verdict> {
    let text = fleet_text(&args.spec)?;
    let mut fleet = DrawnFleet::parse(&text).with_context(|| args.spec.clone())?;
    if let Some(policy) = args.policy {
        fleet = fleet.under(policy);
    }
    let servers = args.servers.clone().unwrap_or(0..fleet.servers());
    ensure!(
        servers.end <= fleet.servers(),
        "--servers ends at {}, but the fleet has {}",
        servers.end,
        fleet.servers()
    );
    open_directory(&args.output, &text, fleet.policy())?;
    stop_on_interrupt()?;
    let path = |number: u32| args.output.join(format!("server-{number:06}.parquet"));
    let all = servers.len();
    let missing: Vec<u32> = servers.filter(|&number| !path(number).exists()).collect();
    let bar = crate::cmd::progress_bar("simulating servers");
    let told = |share: f64| bar.set_position((share * 1000.0) as u64);
    let written = fleet.run(&missing, &told, |server, metrics| {
        write_file(&path(server.number), encode(&[server.rows(metrics)])?)
    })?;
    let made = written.len();
    bar.finish_and_clear();
    ensure!(
        made == missing.len(),
        "ended early with {made} of {} servers; the same command goes on with the others",
        missing.len()
    );
    writeln!(
        std::io::stdout(),
        "{all} of {} servers under {}, {made} of them new: {}",
        fleet.servers(),
        fleet.policy().name(),
        args.output.display()
    )?;
    Ok(Verdict::Ok)
}

/// Makes the directory, or finds that it holds servers of this very fleet.
fn open_directory(path: &Path, text: &str, policy: PolicyKind) -> Result<()> {
    let spec = format!("# Simulated under {}.\n{text}", policy.name());
    let file = path.join(SPEC_FILE);
    match std::fs::read(&file) {
        Ok(held) => ensure!(
            held == spec.as_bytes(),
            "{} describes another fleet or policy; name another directory",
            file.display()
        ),
        Err(_) => {
            super::empty_directory(path)?;
            write_file(&file, &spec)?;
        }
    }
    Ok(())
}
