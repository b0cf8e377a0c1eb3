// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `ample` command. Thin: parses arguments, calls one function of [`cmd`], turns its answer
//! into an exit code.

#![deny(clippy::print_stderr, clippy::print_stdout)]

/// Says one line on standard error, as `eprintln!` does, also where nobody reads there any more:
/// what a command does must not end because its listener did, and `eprintln!` panics then.
macro_rules! tell {
    ($($text:tt)*) => { crate::cmd::tell_line(format_args!($($text)*)) };
}

mod cmd;

use clap::{Command, CommandFactory, FromArgMatches, Parser};
use std::io::ErrorKind;
use std::process::ExitCode;

/// See, predict and reproduce physical memory contiguity on Linux servers.
#[derive(Debug, Parser)]
#[command(name = "ample", version, max_term_width = 100, after_help = EXIT_CODES)]
struct Args {
    #[command(subcommand)]
    command: cmd::Subcommand,
}

const EXIT_CODES: &str = "Exit codes: 0 ok; 1 a threshold was crossed or the verdict is negative; \
2 wrong usage, missing permission or I/O error.";

fn main() -> ExitCode {
    let matches = taking_negative_numbers(Args::command()).try_get_matches();
    let args = match matches.and_then(|found| Args::from_arg_matches(&found)) {
        Ok(args) => args,
        Err(error) => return told(&error),
    };
    match cmd::run(args.command) {
        Ok(verdict) => verdict.into(),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            tell!("ample: error: {}", cmd::printed(&error));
            ExitCode::from(2)
        }
    }
}

/// Prints help, or what is wrong with the arguments.
fn told(error: &clap::Error) -> ExitCode {
    match error.print() {
        // Writing help to a closed pipe is not an error of ours.
        Err(io) if io.kind() != ErrorKind::BrokenPipe => {
            tell!("ample: error: cannot write: {io}");
            ExitCode::from(2)
        }
        _ if error.use_stderr() => ExitCode::from(2),
        _ => ExitCode::SUCCESS,
    }
}

/// Lets each value begin with a minus sign, so that it is told why it is out of range; else it is
/// taken for an unknown option.
fn taking_negative_numbers(command: Command) -> Command {
    let names: Vec<String> = command
        .get_subcommands()
        .map(|own| own.get_name().to_string())
        .collect();
    let command = command.mut_args(|arg| {
        let takes_values = arg.get_action().takes_values();
        arg.allow_negative_numbers(takes_values)
    });
    names.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, taking_negative_numbers)
    })
}

/// `ample … | head` closes our standard output early: that ends the command quietly.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == ErrorKind::BrokenPipe)
    })
}
