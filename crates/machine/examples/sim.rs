// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs one experiment: `cargo run --release -p ample-machine --example sim -- ID [FILE]`.
//! Without FILE the shipped parameters are used; the result is one JSON object.

use ample_machine::experiments;
use anyhow::{Context, Result};
use clap::Parser;

/// Run one experiment of the simulator and print its result as JSON.
#[derive(Parser)]
struct Options {
    /// Experiment; `list` shows all.
    id: String,
    /// Parameters (TOML) instead of the shipped ones.
    parameters: Option<std::path::PathBuf>,
    /// Accepted for symmetry with the other commands: output is always JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    if options.id == "list" {
        for experiment in experiments::ALL {
            println!("{:12} {}", experiment.id, experiment.what);
        }
        return Ok(());
    }
    let experiment = experiments::by_id(&options.id)?;
    let parameters = match &options.parameters {
        Some(path) => {
            std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?
        }
        None => experiment.parameters.to_owned(),
    };
    println!(
        "{}",
        serde_json::to_string_pretty(&experiment.run(&parameters)?)?
    );
    Ok(())
}
