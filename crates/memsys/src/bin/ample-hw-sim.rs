// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs an experiment of the migration hardware from its file.

use ample_memsys::experiments::{sweep, traffic, unavailable};
use clap::Parser;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::process::ExitCode;

/// Simulate the page migration hardware of Contiguitas.
///
/// FILE is one of experiments/hw-*.toml: its key `experiment` is `unavailable` (figure 13 and
/// the time of one migration), `traffic` (servers under load while their buffers move) or
/// `sweep` (variants of the hardware); the table `params` changes defaults. The result is one
/// JSON object on standard output. Exit code: 0, or 2 when the file or a parameter is wrong.
#[derive(Parser)]
#[command(
    version,
    after_help = "Example: ample-hw-sim experiments/hw-unavailable.toml"
)]
struct Args {
    /// Experiment file
    file: PathBuf,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(json) => {
            println!("{json}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("ample-hw-sim: {message}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<String, String> {
    let name = args.file.display();
    let text = std::fs::read_to_string(&args.file).map_err(|e| format!("{name}: {e}"))?;
    let mut table: toml::Table = text.parse().map_err(|e| format!("{name}: {e}"))?;
    let params = table
        .remove("params")
        .unwrap_or_else(|| toml::Value::Table(toml::Table::new()));
    let started = std::time::Instant::now();
    let json = match table.get("experiment").and_then(|e| e.as_str()) {
        Some("unavailable") => json(unavailable::run(&from(params)?)),
        Some("traffic") => json(traffic::run(&from(params)?)),
        Some("sweep") => json(sweep::run(&from(params)?)),
        other => Err(format!(
            "{name}: experiment = {other:?}; there are \"unavailable\", \"traffic\", \"sweep\""
        )),
    };
    eprintln!("{name}: {:.1} s", started.elapsed().as_secs_f64());
    json
}

fn from<T: DeserializeOwned>(value: toml::Value) -> Result<T, String> {
    value
        .try_into()
        .map_err(|e: toml::de::Error| format!("params: {e}"))
}

fn json<T: Serialize, E: std::fmt::Display>(result: Result<T, E>) -> Result<String, String> {
    let report = result.map_err(|e| e.to_string())?;
    serde_json::to_string_pretty(&report).map_err(|e| e.to_string())
}
