// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the pages of `results/` from `results/data/` (`make results`), and brings the figures
//! marked in other Markdown files up to date.
//!
//! Usage: `ample-results [--check] [ROOT]`. With `--check` nothing is written. Exit codes: 0 done,
//! 1 a generated file differs, 2 usage, bad data or I/O error.

use ample_report::results::{GeneratedFile, Results, ResultsError};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut check = false;
    let mut root = PathBuf::from(".");
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--check" => check = true,
            option if option.starts_with('-') => {
                eprintln!("usage: ample-results [--check] [ROOT]");
                return ExitCode::from(2);
            }
            path => root = path.into(),
        }
    }
    match run(&root, check) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("ample-results: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether every generated file is now as it should be.
fn run(root: &Path, check: bool) -> Result<bool, ResultsError> {
    let results = Results::load(root)?;
    let mut same = true;
    for file in results.generated(root)? {
        let path = root.join(&file.path);
        if std::fs::read_to_string(&path).is_ok_and(|old| old == file.text) {
            continue;
        }
        if check {
            println!(
                "{} differs from results/data; run `make results`",
                file.path.display()
            );
            same = false;
        } else {
            write(&path, &file)?;
            println!("wrote {}", file.path.display());
        }
    }
    Ok(same)
}

fn write(path: &Path, file: &GeneratedFile) -> Result<(), ResultsError> {
    let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    let written = folder.and_then(|()| std::fs::write(path, &file.text));
    written.map_err(|error| ResultsError {
        path: file.path.clone(),
        what: error.to_string(),
    })
}
