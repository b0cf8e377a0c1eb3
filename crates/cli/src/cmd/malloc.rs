// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample malloc`: the allocator's own program, `ample-malloc`, which lies beside this one. It is a
//! program of its own because linking the allocator here would replace this program's malloc.

use super::Verdict;
use anyhow::Context;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Run programs under the allocator that fills huge pages, look at them, replay page heaps.
///
/// ample malloc run -- COMMAND, ample malloc stats PID, and others: ample malloc --help.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct MallocArgs {
    /// What ample-malloc is to do.
    #[arg(
        value_name = "ARGS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    args: Vec<OsString>,
}

/// Becomes `ample-malloc`.
///
/// # Errors
/// When the program is missing or cannot be started.
pub fn run(args: &MallocArgs) -> anyhow::Result<Verdict> {
    let path = ample_lab::needs::built("ample-malloc").context(
        "ample-malloc is not beside this program: install the package libample-malloc, or \
             cargo build --profile malloc -p ample-malloc-tools",
    )?;
    let error = Command::new(&path).args(&args.args).exec();
    Err(error).with_context(|| format!("cannot run {}", path.display()))
}
