// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `ample` command. Thin: parses arguments, calls one function of [`cmd`], turns its answer
//! into an exit code.

mod cmd;

use clap::Parser;
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
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Writing help to a closed pipe is not an error of ours.
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(2)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    match cmd::run(args.command) {
        Ok(verdict) => verdict.into(),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ample: error: {}", cmd::printed(&error));
            ExitCode::from(2)
        }
    }
}

/// `ample … | head` closes our standard output early: that ends the command quietly.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
