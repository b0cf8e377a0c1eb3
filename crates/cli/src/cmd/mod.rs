// SPDX-License-Identifier: MIT OR Apache-2.0
//! One module per subcommand. Each takes its parsed arguments and answers with a [`Verdict`].

mod fleet;
mod malloc;
mod progress;
mod record;
mod replay;
mod reproduce;
mod scan;
mod sim;
mod trace;
mod verdict;
mod whatif;

pub use verdict::Verdict;

use progress::progress_bar;

/// What follows `ample` on the command line.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Fleet(fleet::FleetArgs),
    Malloc(malloc::MallocArgs),
    Record(record::RecordArgs),
    Replay(replay::Args),
    Reproduce(reproduce::Args),
    Scan(scan::ScanArgs),
    Sim(sim::Args),
    Trace(trace::TraceArgs),
    Whatif(whatif::Args),
}

/// Runs one subcommand.
///
/// # Errors
/// Anything that keeps the command from its end; printed by `main`, exit code 2.
pub fn run(command: Command) -> anyhow::Result<Verdict> {
    match command {
        Command::Fleet(args) => fleet::run(&args),
        Command::Malloc(args) => malloc::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Scan(args) => scan::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Whatif(args) => whatif::run(&args),
    }
}
