// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample record --program`: the memory accesses of a real program, into a trace or through the
//! model of translation.

use super::{Verdict, sim};
use ample_lab::machines;
use ample_lab::recorded::{self, Model, RecordOptions};
use ample_translate::PageSize;
use anyhow::ensure;
use std::io::Write;
use std::path::PathBuf;

/// Record every memory access of an unmodified program.
///
/// The program runs under QEMU's user-mode emulator (Debian: qemu-user) with a plugin that is
/// built on the spot (gcc). Loads, stores, instruction lines and changes of the address space
/// (mmap, munmap, mprotect, brk) go into a trace file, through a model of translation hardware
/// while the program runs, or both; without either they are counted. The program's standard
/// output goes to standard error. Ctrl-C ends the recording: what is there is whole and says that
/// it is partial (exit code 1). Page events of a kernel are recorded by scripts/record-pages.sh.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RecordArgs {
    /// Record a program (the only thing there is to record here).
    #[arg(long, required = true)]
    program: bool,
    /// Trace file to write; ample trace reads and converts it.
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Translation hardware to run behind the program: skylake, sapphire-rapids, zen4, …
    #[arg(long, value_name = "PRESET|FILE")]
    model: Option<String>,
    /// Scheme of the model: paging, colt, rmm, …
    #[arg(
        long,
        value_name = "SCHEME",
        default_value = "paging",
        requires = "model"
    )]
    scheme: String,
    /// Pages that the model's faults bring in: 4k or 2m.
    #[arg(long, value_name = "SIZE", default_value = "4k", requires = "model",
          value_parser = page_size)]
    pages: PageSize,
    /// Stop the program after this many accesses.
    #[arg(long, value_name = "N", default_value_t = 100_000_000)]
    limit: u64,
    /// Print one object, schema ample.record/1.
    #[arg(long)]
    json: bool,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

const EXAMPLES: &str = "Examples:
  ample record --program -o ls.trace -- ls -R /usr/share     a trace of ls
  ample record --program --model skylake -- sqlite3 :memory: 'SELECT 1'
                                                             TLB misses and walks, live
  ample trace run ls.trace --machine zen4                    then simulate it";

/// The page sizes that faults can bring in.
pub(super) fn page_size(text: &str) -> Result<PageSize, String> {
    match text {
        "4k" => Ok(PageSize::K4),
        "2m" => Ok(PageSize::M2),
        _ => Err("known: 4k, 2m".into()),
    }
}

/// Runs the command.
///
/// # Errors
/// When QEMU or gcc is missing, the program cannot be run, or the file cannot be written.
pub fn run(args: &RecordArgs) -> anyhow::Result<Verdict> {
    ensure!(args.program, "say what to record: --program -- CMD");
    ensure!(args.limit > 0, "--limit 0 records nothing; give at least 1");
    sim::stop_on_interrupt()?;
    let model = args.model.as_ref().map(|name| {
        anyhow::Ok(Model {
            machine: machines::named(name)?,
            scheme: args.scheme.clone(),
            pages: args.pages,
        })
    });
    let options = RecordOptions {
        command: args.command.clone(),
        out: args.out.clone(),
        model: model.transpose()?,
        limit: args.limit,
    };
    tell!("recording at most {} accesses (Ctrl-C ends it)", args.limit);
    let recorded = recorded::record(&options)?;
    let value = serde_json::to_value(&recorded)?;
    let text = sim::object(&value, args.json)?;
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(if recorded.partial {
        Verdict::Negative
    } else {
        Verdict::Ok
    })
}
