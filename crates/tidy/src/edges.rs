// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which crate may use which.

use crate::exceptions::Figures;
use crate::tree::{files, text};

/// For each crate what it may use of the others; after `|` what only its tests and benches may use.
/// The graph has no circle because cargo refuses one.
const EDGES: &str = "
    kit:
    pfn: kit
    host: kit pfn
    trace: kit pfn
    mm: kit pfn trace
    translate: kit pfn
    memory: kit
    migration: kit memory
    machine: kit trace translate memory migration
    system: kit trace translate memory migration machine
    rtl-check: kit machine migration
    malloc:
    malloc-tools: kit malloc
    report: kit pfn
    fleet: kit pfn host
    store: kit
    lab: kit pfn host trace mm translate memory migration machine malloc-tools report fleet
    cli: kit pfn host trace mm translate migration malloc-tools report fleet store lab system
    python: kit pfn host mm report fleet lab
    tidy: | lab
";

/// A line of the table: the crate, what it may use, and what only its tests may use.
pub type Allowed = (&'static str, Vec<&'static str>, Vec<&'static str>);

/// The table of edges.
pub fn table() -> Vec<Allowed> {
    let line = |line: &'static str| {
        let (name, used) = line.trim().split_once(':')?;
        let (used, in_tests) = used.split_once('|').unwrap_or((used, ""));
        let names = |list: &'static str| list.split_whitespace().collect();
        Some((name, names(used), names(in_tests)))
    };
    EDGES.lines().filter_map(line).collect()
}

/// The name of the crate whose manifest `path` is.
pub fn crate_of_manifest(path: &str) -> Option<&str> {
    let name = path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
    (!name.contains('/')).then_some(name)
}

/// Edges between crates that the table does not allow: `report -> machine`.
pub fn foreign_edges() -> Figures {
    let mut found = Figures::new();
    let table = table();
    for name in files()
        .iter()
        .filter_map(|file| crate_of_manifest(&file.path))
    {
        let own = table.iter().find(|(own, _, _)| *own == name);
        for section in ["dependencies", "build-dependencies", "dev-dependencies"] {
            let in_tests = section == "dev-dependencies";
            let allowed = |used: &str| {
                own.is_some_and(|(_, always, tests)| {
                    always.contains(&used) || in_tests && tests.contains(&used)
                })
            };
            let manifest = manifest(name);
            let used = manifest.get(section).and_then(|t| t.as_table());
            let used = used.into_iter().flat_map(|table| table.keys());
            for used in used.filter_map(|key| key.strip_prefix("ample-")) {
                if used != name && !allowed(used) {
                    found.insert(format!("{name} -> {used} ({section})"), 1);
                }
            }
        }
    }
    found
}

/// The manifest of a crate.
///
/// # Panics
/// If there is none, or it is no TOML.
pub fn manifest(name: &str) -> toml::Table {
    let path = format!("crates/{name}/Cargo.toml");
    let text = text(&path).unwrap_or_else(|| panic!("no {path}"));
    text.parse()
        .unwrap_or_else(|error| panic!("{path}: {error}"))
}
