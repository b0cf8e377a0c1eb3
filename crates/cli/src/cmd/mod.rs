// SPDX-License-Identifier: MIT OR Apache-2.0
//! One module per subcommand. Each takes its parsed arguments and answers with a [`Verdict`].

mod agent;
mod doctor;
mod exposition;
#[cfg(feature = "fleet")]
mod fleet;
mod malloc;
mod manual;
mod output;
mod progress;
mod record;
mod replay;
mod reproduce;
mod scan;
mod sim;
mod sweep;
mod system;
mod trace;
mod verdict;
mod watch;
mod whatif;

pub use output::{printed, tell_line};
pub use verdict::Verdict;

use output::{can_write, tell_part, write_file};
use progress::progress_bar;

/// What follows `ample` on the command line.
#[derive(Debug, clap::Subcommand)]
pub enum Subcommand {
    Agent(agent::AgentArgs),
    Completions(manual::CompletionsArgs),
    Doctor(doctor::DoctorArgs),
    #[cfg(feature = "fleet")]
    Fleet(fleet::FleetArgs),
    Malloc(malloc::MallocArgs),
    Man(manual::ManArgs),
    Record(record::RecordArgs),
    Replay(replay::ReplayArgs),
    Reproduce(reproduce::Args),
    Scan(scan::ScanArgs),
    Sim(sim::SimArgs),
    Sweep(sweep::SweepArgs),
    System(system::SystemArgs),
    Trace(trace::TraceArgs),
    Watch(watch::WatchArgs),
    Whatif(whatif::Args),
}

/// Runs one subcommand.
///
/// # Errors
/// Anything that keeps the command from its end; printed by `main`, exit code 2.
pub fn run(command: Subcommand) -> anyhow::Result<Verdict> {
    match command {
        Subcommand::Agent(args) => agent::run(&args),
        Subcommand::Completions(args) => manual::completions(&args),
        Subcommand::Doctor(args) => doctor::run(&args),
        #[cfg(feature = "fleet")]
        Subcommand::Fleet(args) => fleet::run(&args),
        Subcommand::Malloc(args) => malloc::run(&args),
        Subcommand::Man(args) => manual::man(&args),
        Subcommand::Record(args) => record::run(&args),
        Subcommand::Replay(args) => replay::run(&args),
        Subcommand::Reproduce(args) => reproduce::run(&args),
        Subcommand::Scan(args) => scan::run(&args),
        Subcommand::Sim(args) => sim::run(&args),
        Subcommand::Sweep(args) => sweep::run(&args),
        Subcommand::System(args) => system::run(&args),
        Subcommand::Trace(args) => trace::run(&args),
        Subcommand::Watch(args) => watch::run(&args),
        Subcommand::Whatif(args) => whatif::run(&args),
    }
}
