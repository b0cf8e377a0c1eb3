// SPDX-License-Identifier: MIT OR Apache-2.0
//! One module per subcommand. Each takes its parsed arguments and answers with a [`Verdict`].

mod fleet;
mod malloc;
mod record;
mod replay;
mod reproduce;
mod scan;
mod sim;
mod trace;
mod whatif;

use indicatif::{ProgressBar, ProgressStyle};
use std::process::ExitCode;

/// What a command that ran to its end has to say through its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Exit code 0.
    Ok,
    /// A threshold was crossed or the answer is no: exit code 1.
    Negative,
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> ExitCode {
        match verdict {
            Verdict::Ok => ExitCode::SUCCESS,
            Verdict::Negative => ExitCode::from(1),
        }
    }
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Fleet(fleet::Args),
    Malloc(malloc::Args),
    Record(record::Args),
    Replay(replay::Args),
    Reproduce(reproduce::Args),
    Scan(scan::Args),
    Sim(sim::Args),
    Trace(trace::Args),
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

/// A bar of 1000 steps on standard error, drawn only if that is a terminal.
fn progress_bar(what: &str) -> ProgressBar {
    let bar = ProgressBar::new(1000);
    let template = "{msg} {bar:40} {percent:>3} %  {elapsed} of about {duration}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(what.to_string());
    bar
}
