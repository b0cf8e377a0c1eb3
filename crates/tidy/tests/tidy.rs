// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules of the tree that a compiler does not check. Each failure names file and line and says
//! what to do.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A crate may use only those before it in this list. The allocator uses none of them.
const CRATE_ORDER: [&str; 14] = [
    "kit",
    "pfn",
    "host",
    "trace",
    "mm",
    "translate",
    "memory",
    "migration",
    "memsys",
    "machine",
    "malloc",
    "report",
    "lab",
    "cli",
];
/// Crates that may contain `unsafe` code (the bench binds the allocator's peers), and single
/// files of other crates.
const UNSAFE_CRATES: [&str; 3] = ["crates/malloc/", "crates/host/", "bench/malloc/"];
const UNSAFE_FILES: [&str; 1] = ["crates/mm/src/policy/policy_ffi.rs"];
const MAX_LINE_CHARS: usize = 100;
const MAX_FILE_LINES: usize = 700;
const SOURCE_EXTENSIONS: [&str; 8] = ["rs", "c", "h", "py", "sh", "toml", "S", "mk"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the tree")
}

/// Tracked and new files that still exist, relative to the root.
fn files() -> Vec<String> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git must be installed");
    assert!(
        output.status.success(),
        "git ls-files failed; tidy checks run in a git checkout"
    );
    let text = String::from_utf8(output.stdout).expect("file names are UTF-8");
    text.lines()
        .filter(|file| root().join(file).is_file())
        .map(String::from)
        .collect()
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_default()
}

fn extension(file: &str) -> &str {
    Path::new(file)
        .extension()
        .and_then(|e| e.to_str())
        .unwrap_or("")
}

fn sources() -> impl Iterator<Item = (String, String)> {
    let wanted = |file: &String| SOURCE_EXTENSIONS.contains(&extension(file));
    files()
        .into_iter()
        .filter(wanted)
        .map(|file| (file.clone(), read(&file)))
}

fn report(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[test]
fn crates_use_only_crates_before_them() {
    let mut problems = Vec::new();
    let rank = |name: &str| CRATE_ORDER.iter().position(|&c| c == name);
    for file in files() {
        let Some(name) = file
            .strip_prefix("crates/")
            .and_then(|f| f.strip_suffix("/Cargo.toml"))
        else {
            continue;
        };
        if name == "tidy" || name.contains('/') {
            continue;
        }
        let Some(own) = rank(name) else {
            problems.push(format!(
                "{file}: crate {name} is not in CRATE_ORDER of the tidy test"
            ));
            continue;
        };
        let manifest: toml::Table = read(&file).parse().expect("a valid manifest");
        for section in ["dependencies", "build-dependencies"] {
            let Some(table) = manifest.get(section).and_then(|t| t.as_table()) else {
                continue;
            };
            for used in table.keys().filter_map(|key| key.strip_prefix("ample-")) {
                if name == "malloc" || rank(used).is_none_or(|used| used >= own) {
                    problems.push(format!("{file}: {name} may not use {used}"));
                }
            }
        }
    }
    report(&problems);
}

#[test]
fn every_source_file_names_its_licence() {
    let mut problems = Vec::new();
    for (file, text) in sources().filter(|(file, _)| !file.ends_with("Cargo.lock")) {
        let head: String = text.lines().take(3).collect();
        let expected = if file.ends_with("contiguitas_policy.h") {
            "GPL-2.0-only OR MIT"
        } else if file.starts_with("kernel/") {
            "GPL-2.0"
        } else {
            "MIT OR Apache-2.0"
        };
        if !head.contains(&format!("SPDX-License-Identifier: {expected}")) {
            problems.push(format!(
                "{file}:1: first lines need SPDX-License-Identifier: {expected}"
            ));
        }
    }
    report(&problems);
}

#[test]
fn lines_and_files_stay_readable() {
    let mut problems = Vec::new();
    // Strings in TOML cannot be broken without changing them. Kernel C is judged by checkpatch,
    // which forbids to break the message of a printk.
    let judged_elsewhere = |file: &str| {
        extension(file) == "toml" || file.starts_with("kernel/") && file.ends_with(".c")
    };
    for (file, text) in sources().filter(|(file, _)| !judged_elsewhere(file)) {
        let tab = if matches!(extension(&file), "c" | "h") {
            8
        } else {
            4
        };
        for (index, line) in text.lines().enumerate() {
            let columns: usize = line.chars().map(|c| if c == '\t' { tab } else { 1 }).sum();
            if columns > MAX_LINE_CHARS {
                problems.push(format!("{file}:{}: {columns} columns", index + 1));
            }
            if line.trim_end() != line {
                problems.push(format!("{file}:{}: trailing blanks", index + 1));
            }
        }
        let lines = text.lines().count();
        if matches!(extension(&file), "rs" | "c" | "py") && lines > MAX_FILE_LINES {
            problems.push(format!(
                "{file}: {lines} lines, split it (limit {MAX_FILE_LINES})"
            ));
        }
    }
    report(&problems);
}

/// A Rust file that no `mod` names is not compiled; a guide that the book does not list is not
/// found.
#[test]
fn no_file_is_dead() {
    let files = files();
    let mut problems = Vec::new();
    let modules: BTreeSet<String> = files
        .iter()
        .filter(|file| extension(file) == "rs")
        .flat_map(|file| module_names(&read(file)))
        .collect();
    for file in files
        .iter()
        .filter(|f| extension(f) == "rs" && f.contains("/src/"))
    {
        let path = Path::new(file);
        let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or("");
        let parent = path
            .parent()
            .and_then(|p| p.file_name())
            .and_then(|p| p.to_str());
        let name = if stem == "mod" {
            parent.unwrap_or("")
        } else {
            stem
        };
        let is_root = matches!(stem, "lib" | "main") || parent == Some("bin");
        if !is_root && !modules.contains(name) {
            problems.push(format!("{file}: no file declares `mod {name};`"));
        }
    }
    let summary = read("docs/SUMMARY.md");
    for file in files
        .iter()
        .filter(|f| f.starts_with("docs/") && f.ends_with(".md"))
    {
        let name = file.trim_start_matches("docs/");
        if name != "SUMMARY.md" && !summary.contains(&format!("({name})")) {
            problems.push(format!("{file}: not listed in docs/SUMMARY.md"));
        }
    }
    report(&problems);
}

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
    for (file, text) in sources().filter(|(file, _)| extension(file) == "rs") {
        let allowed = UNSAFE_CRATES.iter().any(|dir| file.starts_with(dir))
            || UNSAFE_FILES.contains(&file.as_str())
            || file.starts_with("crates/tidy/");
        if allowed {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            if code.contains("unsafe ") {
                problems.push(format!("{file}:{}: unsafe code", index + 1));
            }
        }
    }
    report(&problems);
}

/// Every figure has its command: a results table row without one cannot be checked by anybody.
#[test]
fn results_name_their_commands() {
    let mut problems = Vec::new();
    for (index, section) in read("RESULTS.md").split("\n## ").enumerate().skip(1) {
        let title = section.lines().next().unwrap_or("");
        if !section.contains("`make ")
            && !section.contains("`ample ")
            && !section.contains("cargo ")
        {
            problems.push(format!(
                "RESULTS.md: section {index} ({title}) names no command"
            ));
        }
    }
    report(&problems);
}
