// SPDX-License-Identifier: MIT OR Apache-2.0
//! The manifests of the crates.

use std::collections::{BTreeMap, BTreeSet};

use ample_tidy::edges::{crate_of_manifest, manifest, table};
use ample_tidy::tree::{files, text};

fn crates() -> BTreeSet<&'static str> {
    files()
        .iter()
        .filter_map(|file| crate_of_manifest(&file.path))
        .collect()
}

#[test]
fn the_table_of_edges_names_every_crate() {
    let known: BTreeSet<&str> = table().into_iter().map(|(name, _, _)| name).collect();
    let there = crates();
    let differing = known.symmetric_difference(&there).map(|name| {
        format!("{name} is only one of: a folder of crates/, a line of the table of edges")
    });
    super::report(&differing.collect::<Vec<_>>());
}

/// The versions of other people's crates are said once, in the workspace.
#[test]
fn a_dependency_of_two_crates_has_its_version_in_the_workspace() {
    let root: toml::Table = text("Cargo.toml")
        .expect("Cargo.toml")
        .parse()
        .expect("a manifest");
    let shared = root["workspace"]["dependencies"]
        .as_table()
        .expect("a table");
    let mut own_versions = BTreeMap::new();
    let mut problems = Vec::new();
    for name in crates() {
        let manifest = manifest(name);
        for section in ["dependencies", "build-dependencies", "dev-dependencies"] {
            let table = manifest.get(section).and_then(|t| t.as_table());
            for (used, wanted) in table.into_iter().flatten() {
                if wanted.get("workspace").is_some() {
                    continue;
                }
                if shared.contains_key(used) {
                    problems.push(format!("crates/{name}/Cargo.toml: {used}.workspace = true"));
                }
                let before = own_versions.insert(used.clone(), name);
                if let Some(before) = before.filter(|before| *before != name) {
                    problems.push(format!(
                        "crates/{name}, crates/{before}: move the version of {used} to Cargo.toml"
                    ));
                }
            }
        }
    }
    super::report(&problems);
}
