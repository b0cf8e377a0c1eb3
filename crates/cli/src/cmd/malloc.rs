// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample malloc`: the allocator's own program, `ample-malloc`, which lies beside this one. It is a
//! program of its own because linking the allocator here would replace this program's malloc.

use super::Verdict;
use anyhow::{Context, bail};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
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

/// Where the program may be, from the folder of this one: beside it, or as cargo builds it.
const PLACES: [&str; 2] = ["ample-malloc", "../malloc/ample-malloc"];

fn program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell where this program is")?;
    let folder = own.parent().map(PathBuf::from).unwrap_or_default();
    let found = PLACES
        .iter()
        .map(|place| folder.join(place))
        .find(|path| path.exists());
    match found {
        Some(path) => Ok(path),
        None => bail!(
            "ample-malloc is not in {}; build it with \
             cargo build --profile malloc -p ample-malloc-tools",
            folder.display()
        ),
    }
}

/// Becomes `ample-malloc`.
///
/// # Errors
/// When the program is missing or cannot be started.
pub fn run(args: &MallocArgs) -> anyhow::Result<Verdict> {
    become_program(&args.args)
}

fn become_program(args: &[OsString]) -> anyhow::Result<Verdict> {
    let path = program()?;
    let error = Command::new(&path).args(args).exec();
    Err(error).with_context(|| format!("cannot run {}", path.display()))
}

/// Figures of the allocator's paper, as `ample sim` names them.
pub const FIGURES: [(&str, &str); 4] = [
    (
        "temeraire-fig9",
        "a loop that drains one hugepage: calls to the system",
    ),
    (
        "temeraire-fig10",
        "the HugeCache under a saw-toothed demand",
    ),
    (
        "temeraire-fig11",
        "strategies of the HugeFiller when demand drops to a third",
    ),
    (
        "temeraire-fig12",
        "slack of a program that asks for 1.1 MiB only, with and without regions",
    ),
];

/// Runs one of [`FIGURES`].
///
/// # Errors
/// As for [`run`].
pub fn figure(id: &str, json: bool) -> anyhow::Result<Verdict> {
    let number = id.trim_start_matches("temeraire-fig");
    let mut args = vec![OsString::from("figures"), OsString::from(number)];
    if json {
        args.push("--json".into());
    }
    become_program(&args)
}
