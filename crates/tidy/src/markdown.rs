// SPDX-License-Identifier: MIT OR Apache-2.0
//! Markdown: columns, and turns of phrase that plain technical English does without.

use crate::exceptions::Figures;
use crate::tree::{SourceFile, files};

/// Columns of a line of Markdown.
pub const MAX_COLUMNS: usize = 100;
const MANNERISMS: [&str; 3] = ["present form", "has the last word", "not to be had"];

/// Markdown files that people write; those of `results/` are generated.
pub fn documents() -> impl Iterator<Item = &'static SourceFile> {
    files()
        .iter()
        .filter(|file| file.extension() == "md" && !file.path.starts_with("results/"))
}

/// Lines outside of code blocks, with their numbers from 1.
pub fn prose(file: &SourceFile) -> Vec<(usize, &str)> {
    let mut in_code = false;
    let mut lines = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            lines.push((index + 1, line));
        }
    }
    lines
}

/// Lines of each document that are too long: file, line. Rows of tables and lines with a link
/// cannot be broken.
pub fn long_lines() -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for file in documents() {
        for (number, line) in prose(file) {
            let is_table = line.trim_start().starts_with('|');
            if line.chars().count() > MAX_COLUMNS && !is_table && !line.contains("](") {
                found.push((file.path.clone(), number));
            }
        }
    }
    found
}

/// Mannerisms in documents, code and experiment files: file, line.
pub fn mannerisms() -> Vec<(String, usize)> {
    let judged = files().iter().filter(|file| {
        matches!(file.extension(), "md" | "rs" | "toml" | "json")
            && !file.path.starts_with("crates/tidy/")
    });
    let mut found = Vec::new();
    for file in judged {
        for (index, line) in file.text.lines().enumerate() {
            if MANNERISMS.iter().any(|phrase| line.contains(phrase)) {
                found.push((file.path.clone(), index + 1));
            }
        }
    }
    found
}

/// How often each file is among `places`.
pub fn by_file(places: Vec<(String, usize)>) -> Figures {
    let mut counts = Figures::new();
    for (file, _) in places {
        *counts.entry(file).or_default() += 1;
    }
    counts
}
