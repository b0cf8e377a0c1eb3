// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths and packages that texts and scripts name are there.

use std::collections::BTreeSet;

use ample_tidy::edges::crate_of_manifest;
use ample_tidy::tree::{SourceFile, files, root};

/// Folders whose name begins a path of this repository.
const FOLDERS: [&str; 9] = [
    "crates/",
    "kernel/src/",
    "kernel/scripts/",
    "scripts/",
    "experiments/",
    "hw/",
    "docs/",
    "bench/",
    "results/",
];

/// Texts that tell of the tree as it is; the changelog and results tell of what it was.
fn texts() -> impl Iterator<Item = &'static SourceFile> {
    files().iter().filter(|file| {
        let is_text = matches!(file.extension(), "md" | "sh" | "py" | "rs" | "toml");
        (is_text || file.path.ends_with("Makefile"))
            && file.path != "CHANGELOG.md"
            && !file.path.starts_with("results/")
            && !file.path.starts_with("crates/tidy/")
    })
}

/// Words of a line; what ends a sentence is taken off.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| c.is_whitespace() || "`'\"()[]{},;=|".contains(c))
        .map(|word| word.trim_end_matches(['.', ':', '/', '?']))
}

/// If `path` stands for several: it holds a wildcard, a variable, or a word like `ID`.
fn is_pattern(path: &str) -> bool {
    let placeholder = |part: &str| {
        let stem = part.split('.').next().unwrap_or(part);
        stem.len() > 1 && stem.chars().all(|c| c.is_ascii_uppercase()) && !part.ends_with(".md")
    };
    path.contains(['*', '$', '<', '…', '%', '\\']) || path.split('/').any(placeholder)
}

#[test]
fn paths_that_texts_name_exist() {
    let mut problems = Vec::new();
    for file in texts() {
        for (index, line) in file.text.lines().enumerate() {
            let line = line.replace("$(kdir)", "kernel/");
            for word in words(&line) {
                let path = word.split([':', '#']).next().unwrap_or(word);
                let is_path = FOLDERS.iter().any(|folder| path.starts_with(folder));
                // A guide tells the reader to write a file that is not there.
                let is_new = line.contains(&format!("Write `{path}`"));
                if is_path && !is_new && !is_pattern(path) && !root().join(path).exists() {
                    problems.push(format!("{}:{}: there is no {path}", file.path, index + 1));
                }
            }
        }
    }
    super::report(&problems);
}

#[test]
fn packages_that_commands_name_exist() {
    let packages: BTreeSet<String> = files()
        .iter()
        .filter_map(|file| crate_of_manifest(&file.path))
        .map(|name| format!("ample-{name}"))
        .collect();
    let mut problems = Vec::new();
    for file in texts() {
        for (index, line) in file.text.lines().enumerate() {
            for after in line.split(" -p ").skip(1) {
                let name = words(after).next().unwrap_or("");
                if name.starts_with("ample-") && !packages.contains(name) {
                    problems.push(format!("{}:{}: there is no {name}", file.path, index + 1));
                }
            }
        }
    }
    super::report(&problems);
}
