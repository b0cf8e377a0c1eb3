// SPDX-License-Identifier: MIT OR Apache-2.0
//! "Where is what" (`docs/where.md`) names files and what is found in them.

use ample_tidy::tree::{root, text};

/// Every row of the page's tables names a path that exists and names that occur in that file.
#[test]
fn where_is_what_names_what_is_there() {
    let page = text("docs/where.md").expect("docs/where.md");
    let mut problems = Vec::new();
    let mut rows = 0;
    for (index, line) in page.lines().enumerate() {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, _, path, names, _] = cells[..] else {
            continue;
        };
        let Some(path) = code(path).first().copied() else {
            continue;
        };
        rows += 1;
        if !root().join(path).exists() {
            problems.push(format!(
                "docs/where.md:{}: {path} does not exist",
                index + 1
            ));
            continue;
        }
        let found = text(path).unwrap_or_default();
        for name in code(names).iter().filter(|name| !found.contains(**name)) {
            problems.push(format!("docs/where.md:{}: {path} has no {name}", index + 1));
        }
    }
    assert!(rows > 20, "docs/where.md has {rows} rows");
    super::report(&problems);
}

/// The pieces of a cell between backquotes.
fn code(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}
