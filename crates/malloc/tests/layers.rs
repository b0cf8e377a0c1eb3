// SPDX-License-Identifier: MIT OR Apache-2.0
//! No module of the allocator uses one of a higher layer.

use std::path::{Path, PathBuf};

/// The folders of `src`, lowest layer first, as `src/lib.rs` describes them.
const LAYERS: [&str; 7] = ["os", "heap", "central", "cache", "watch", "front", "entry"];
/// What every layer may use, and the models, which use every layer.
const SHARED: [&str; 4] = ["units", "size_class", "near", "models"];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// The names that follow `crate::` in a text, those in braces one by one.
fn used_modules(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for rest in text.split("crate::").skip(1) {
        let grouped = rest.strip_prefix('{').map(|rest| {
            let inner = rest.split_once(';').map_or(rest, |(inner, _)| inner);
            inner.split(',').map(str::trim).collect::<Vec<_>>()
        });
        for part in grouped.unwrap_or_else(|| vec![rest]) {
            let name: String = part
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            if !name.is_empty() {
                found.push(name);
            }
        }
    }
    found
}

/// The code of a file without comments and without its tests, which come last.
fn code(text: &str) -> String {
    let text = text.split("\nmod tests {").next().unwrap_or(text);
    let lines = text.lines();
    let code = lines.map(|line| line.split("//").next().unwrap_or(line));
    code.collect::<Vec<_>>().join("\n")
}

#[test]
fn no_layer_uses_one_above_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    files(&source, &mut all);
    let rank = |name: &str| LAYERS.iter().position(|&layer| layer == name);
    let mut upward = Vec::new();
    let mut seen = [false; LAYERS.len()];
    for path in all {
        let inside = path.strip_prefix(&source).expect("it was found there");
        let top = inside.components().next().expect("a name").as_os_str();
        let top = top.to_str().expect("plain names");
        let Some(own) = rank(top) else {
            let stem = top.trim_end_matches(".rs");
            assert!(
                stem == "lib" || SHARED.contains(&stem),
                "{top} belongs to no layer"
            );
            continue;
        };
        seen[own] = true;
        if inside.iter().any(|part| part == "tests") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source file");
        for name in used_modules(&code(&text)) {
            match rank(&name) {
                Some(used) if used > own => upward.push(format!("{inside:?} uses {name}")),
                Some(_) => {}
                None => assert!(SHARED.contains(&name.as_str()), "{inside:?} uses {name}"),
            }
        }
    }
    assert!(seen.iter().all(|&seen| seen), "a layer has no file");
    assert!(upward.is_empty(), "{upward:#?}");
}

#[test]
fn every_form_of_a_path_is_seen() {
    let text = "use crate::os::sys;\nuse crate::{cache, heap::span};\n crate::front::free(1)";
    assert_eq!(used_modules(text), ["os", "cache", "heap", "front"]);
}
