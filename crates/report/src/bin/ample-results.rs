// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the pages of `results/` from `results/data/` (`make results`), and brings the figures
//! marked in other Markdown files up to date.
//!
//! With `--check` nothing is written. `--refresh` first takes the rows of the result ID from the
//! object that `ample sim ID --json` printed (`make refresh ID=walks`). Exit codes: 0 done, 1 a
//! generated file differs, 2 usage, bad data or I/O error.

use ample_report::results::{GeneratedFile, Results, ResultsError};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: ample-results [--check] [--refresh ID FILE DATE COMMIT] [ROOT]";

/// What the command line asks for.
struct Wanted {
    check: bool,
    /// Id, file, date and commit.
    refresh: Option<[String; 4]>,
    root: PathBuf,
}

fn main() -> ExitCode {
    let Some(wanted) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(&wanted) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("ample-results: {error}");
            ExitCode::from(2)
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Wanted> {
    let mut wanted = Wanted {
        check: false,
        refresh: None,
        root: ".".into(),
    };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--check" => wanted.check = true,
            "--refresh" => {
                let values: Vec<_> = arguments.by_ref().take(4).collect();
                wanted.refresh = Some(values.try_into().ok()?);
            }
            option if option.starts_with('-') => return None,
            path => wanted.root = path.into(),
        }
    }
    Some(wanted)
}

/// Whether every generated file is now as it should be.
fn run(wanted: &Wanted) -> Result<bool, ResultsError> {
    let root = &wanted.root;
    let mut results = Results::load(root)?;
    if let Some([id, path, date, commit]) = &wanted.refresh {
        let named = |what: String| ResultsError {
            path: path.into(),
            what,
        };
        let text = std::fs::read_to_string(path).map_err(|error| named(error.to_string()))?;
        let result = serde_json::from_str(&text).map_err(|error| named(error.to_string()))?;
        results.refresh(id, &result, date, commit).map_err(named)?;
    }
    let mut same = true;
    for file in results.generated(root)? {
        let path = root.join(&file.path);
        if std::fs::read_to_string(&path).is_ok_and(|old| old == file.text) {
            continue;
        }
        if wanted.check {
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
    let written = folder.and_then(|()| ample_kit::files::write(path, &file.text));
    written.map_err(|error| ResultsError {
        path: file.path.clone(),
        what: error.to_string(),
    })
}
