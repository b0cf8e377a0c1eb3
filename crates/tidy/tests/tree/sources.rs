// SPDX-License-Identifier: MIT OR Apache-2.0
//! Licences, columns, `unsafe`, and files that nothing names.

use std::collections::BTreeSet;
use std::path::Path;

use ample_tidy::rust::rust_files;
use ample_tidy::tree::{SourceFile, files, root};

/// Crates that may contain `unsafe` code (the bench binds the allocator's peers), and single
/// files of other crates.
const UNSAFE_CRATES: [&str; 3] = ["crates/malloc/", "crates/host/", "bench/malloc/"];
const UNSAFE_FILES: [&str; 2] = [
    "crates/mm/src/policy/policy_ffi.rs",
    "crates/malloc-tools/src/main.rs",
];
const MAX_COLUMNS: usize = 100;
const SOURCE_EXTENSIONS: [&str; 13] = [
    "rs", "c", "h", "cc", "cpp", "py", "sh", "toml", "S", "mk", "v", "sv", "tcl",
];
/// Bytes of the largest file: recordings of guests, compressed, come close.
const MAX_FILE_BYTES: u64 = 1_200_000;

fn sources() -> impl Iterator<Item = &'static SourceFile> {
    files()
        .iter()
        .filter(|file| SOURCE_EXTENSIONS.contains(&file.extension()))
}

#[test]
fn every_source_file_names_its_licence() {
    let mut problems = Vec::new();
    for file in sources() {
        let head: String = file.text.lines().take(3).collect();
        let expected = if file.path.ends_with("contiguitas_policy.h") {
            "GPL-2.0-only OR MIT"
        } else if file.path.starts_with("kernel/") {
            "GPL-2.0"
        } else {
            "MIT OR Apache-2.0"
        };
        if !head.contains(&format!("SPDX-License-Identifier: {expected}")) {
            problems.push(format!(
                "{}:1: first lines need SPDX-License-Identifier: {expected}",
                file.path
            ));
        }
    }
    super::report(&problems);
}

#[test]
fn lines_fit_in_100_columns() {
    let mut problems = Vec::new();
    // Strings in TOML cannot be broken without changing them. Kernel C is judged by checkpatch,
    // which forbids to break the message of a printk.
    let judged_elsewhere = |file: &SourceFile| {
        file.extension() == "toml" || file.path.starts_with("kernel/") && file.extension() == "c"
    };
    for file in sources().filter(|file| !judged_elsewhere(file)) {
        let tab = if matches!(file.extension(), "c" | "h") {
            8
        } else {
            4
        };
        for (index, line) in file.text.lines().enumerate() {
            let columns: usize = line.chars().map(|c| if c == '\t' { tab } else { 1 }).sum();
            if columns > MAX_COLUMNS {
                problems.push(format!("{}:{}: {columns} columns", file.path, index + 1));
            }
            if line.trim_end() != line {
                problems.push(format!("{}:{}: trailing blanks", file.path, index + 1));
            }
        }
    }
    super::report(&problems);
}

/// What a tool has left behind is not committed.
#[test]
fn no_file_is_large() {
    let mut problems = Vec::new();
    for file in files() {
        let bytes = std::fs::metadata(root().join(&file.path)).map_or(0, |found| found.len());
        if bytes > MAX_FILE_BYTES {
            problems.push(format!("{}: {bytes} bytes", file.path));
        }
    }
    super::report(&problems);
}

/// A Rust file that no `mod` names is not compiled.
#[test]
fn every_rust_file_is_compiled() {
    let modules: BTreeSet<String> = files()
        .iter()
        .filter(|file| file.extension() == "rs")
        .flat_map(|file| module_names(&file.text))
        .collect();
    let mut problems = Vec::new();
    for file in rust_files().iter().filter(|f| f.path.contains("/src/")) {
        let path = Path::new(&file.path);
        let part = |part: Option<&std::ffi::OsStr>| {
            part.and_then(|p| p.to_str()).unwrap_or("").to_string()
        };
        let stem = part(path.file_stem());
        let parent = part(path.parent().and_then(|p| p.file_name()));
        let name = if stem == "mod" { &parent } else { &stem };
        let is_root = matches!(stem.as_str(), "lib" | "main") || parent == "bin";
        if !is_root && !modules.contains(name) {
            problems.push(format!("{}: no file declares `mod {name};`", file.path));
        }
    }
    super::report(&problems);
}

/// Names after `mod`, in tests and under `cfg` too.
fn module_names(text: &str) -> Vec<String> {
    let declaration = |line: &str| {
        let line = line.trim().trim_end_matches(';');
        let after = line
            .split_once("mod ")
            .filter(|(before, _)| before.is_empty() || before.starts_with("pub"))?;
        Some(after.1.split(' ').next().unwrap_or("").to_string())
    };
    text.lines().filter_map(declaration).collect()
}

#[test]
fn unsafe_code_stays_where_the_design_allows_it() {
    let mut problems = Vec::new();
    for file in sources().filter(|file| file.extension() == "rs") {
        let allowed = UNSAFE_CRATES.iter().any(|dir| file.path.starts_with(dir))
            || UNSAFE_FILES.contains(&file.path.as_str())
            || file.path.starts_with("crates/tidy/");
        if allowed {
            continue;
        }
        for (index, line) in file.text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            if code.contains("unsafe ") {
                problems.push(format!("{}:{}: unsafe code", file.path, index + 1));
            }
        }
    }
    super::report(&problems);
}
