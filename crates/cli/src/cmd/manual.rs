// SPDX-License-Identifier: MIT OR Apache-2.0
//! Manual pages and completions, made from the one table of options.

use super::{Verdict, write_file};
use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;
use std::path::PathBuf;

/// Print the completions of a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = COMPLETIONS)]
pub struct CompletionsArgs {
    /// Whose completions to print.
    #[arg(value_enum)]
    shell: Shell,
}

const COMPLETIONS: &str = "Examples:
  ample completions bash > ~/.local/share/bash-completion/completions/ample
  ample completions zsh > ~/.zfunc/_ample";

/// Write the manual pages, one for each command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  ample man ~/.local/share/man/man1 && man ample-scan")]
pub struct ManArgs {
    /// Where to; the directory is made if it does not exist.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Prints the completions.
///
/// # Errors
/// When standard output is closed.
pub fn completions(args: &CompletionsArgs) -> anyhow::Result<Verdict> {
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut crate::Args::command(),
        "ample",
        &mut script,
    );
    std::io::Write::write_all(&mut std::io::stdout().lock(), &script)?;
    Ok(Verdict::Ok)
}

/// Writes the manual pages.
///
/// # Errors
/// When the directory cannot be written.
pub fn man(args: &ManArgs) -> anyhow::Result<Verdict> {
    let directory = &args.directory;
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot write to {}", directory.display()))?;
    let mut command = crate::Args::command().disable_help_subcommand(true);
    command.build();
    let mut left = vec![command];
    while let Some(command) = left.pop() {
        let name = command.get_display_name().unwrap_or(command.get_name());
        let mut page = Vec::new();
        clap_mangen::Man::new(command.clone()).render(&mut page)?;
        write_file(&directory.join(format!("{name}.1")), page)?;
        let visible = command.get_subcommands().filter(|own| !own.is_hide_set());
        left.extend(visible.cloned());
    }
    Ok(Verdict::Ok)
}
