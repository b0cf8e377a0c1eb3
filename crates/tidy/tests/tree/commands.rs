// SPDX-License-Identifier: MIT OR Apache-2.0
//! Make targets, scripts and experiment files: none that nobody can find.

use std::collections::{BTreeMap, BTreeSet};

use ample_tidy::tree::{SourceFile, files, text};

const MAKEFILES: [&str; 2] = ["Makefile", "kernel/Makefile"];

/// The targets of the Makefiles and what their line says after `##`.
fn targets() -> BTreeMap<&'static str, Option<&'static str>> {
    let mut found = BTreeMap::new();
    for line in MAKEFILES
        .iter()
        .filter_map(|m| text(m))
        .flat_map(str::lines)
    {
        let Some((name, rest)) = line.split_once(':') else {
            continue;
        };
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if !name.is_empty() && name.chars().all(is_name) && !rest.starts_with('=') {
            let help = rest.split_once("##").map(|(_, help)| help.trim());
            found.insert(name, help);
        }
    }
    assert!(found.contains_key("test"), "the Makefiles have targets");
    found
}

/// Whether make knows this target.
pub(super) fn is_target(name: &str) -> bool {
    targets().contains_key(name)
}

#[test]
fn make_targets_are_documented() {
    let pages: Vec<&SourceFile> = ample_tidy::markdown::documents()
        .filter(|file| file.path.starts_with("docs/") || !file.path.contains('/'))
        .collect();
    let mut problems = Vec::new();
    for (target, help) in targets() {
        if help.is_none_or(str::is_empty) {
            problems.push(format!("make {target}: no text after ## for `make help`"));
        }
        let wanted = format!("make {target}");
        let named = pages.iter().any(|page| {
            page.text.match_indices(&wanted).any(|(at, _)| {
                let next = page.text[at + wanted.len()..].chars().next();
                next.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '-' && c != '_')
            })
        });
        if !named {
            problems.push(format!("make {target}: not in docs/ nor CONTRIBUTING.md"));
        }
    }
    super::report(&problems);
}

#[test]
fn scripts_are_reached_from_a_make_target() {
    let is_script = |file: &&SourceFile| {
        matches!(file.extension(), "sh" | "py") && !file.path.starts_with("kernel/guest/")
    };
    let mut left: BTreeMap<&str, &SourceFile> = files()
        .iter()
        .filter(is_script)
        .map(|file| (file.path.as_str(), file))
        .collect();
    let mut open: Vec<&str> = MAKEFILES.iter().filter_map(|m| text(m)).collect();
    while let Some(caller) = open.pop() {
        let called: Vec<&str> = left
            .keys()
            .copied()
            .filter(|path| mentions(caller, path))
            .collect();
        open.extend(
            called
                .iter()
                .map(|path| left.remove(path).expect("it is there").text.as_str()),
        );
    }
    let lost = left
        .keys()
        .map(|path| format!("{path}: no make target leads to it"));
    super::report(&lost.collect::<Vec<_>>());
}

/// If `text` runs the script `path`, or imports it where that is Python.
fn mentions(text: &str, path: &str) -> bool {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let package = folder.rsplit('/').next().unwrap_or("");
    let module = match file.strip_suffix(".py") {
        Some("__init__") => package,
        Some(module) => module,
        None => file,
    };
    let imports = |line: &str| {
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        (line.starts_with("import ") || line.starts_with("from "))
            && words.into_iter().any(|word| word == module)
    };
    text.contains(file) || text.lines().any(imports)
}

/// Experiment, machine and workload files are embedded in the program or named by one that is.
#[test]
fn experiment_files_are_in_a_registry() {
    let named: BTreeSet<&str> = files()
        .iter()
        .filter(|file| file.extension() == "rs" || file.path.starts_with("experiments/"))
        .flat_map(|file| file.text.split(['"', '/']))
        .map(|word| word.trim_end_matches(".toml"))
        .collect();
    let mut problems = Vec::new();
    for file in files() {
        let own = file
            .path
            .strip_prefix("experiments/")
            .and_then(|f| f.strip_suffix(".toml"));
        let name = own.map(|own| own.rsplit('/').next().unwrap_or(own));
        if name.is_some_and(|name| !named.contains(name)) {
            problems.push(format!("{}: no registry names it", file.path));
        }
    }
    super::report(&problems);
}
