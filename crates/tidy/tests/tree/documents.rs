// SPDX-License-Identifier: MIT OR Apache-2.0
//! The book's list of pages and the commands of results.

use ample_tidy::tree::{files, text};

/// A guide that the book does not list is not found.
#[test]
fn the_book_lists_every_guide() {
    let summary = text("docs/SUMMARY.md").expect("docs/SUMMARY.md");
    let mut problems = Vec::new();
    for file in files() {
        let name = file
            .path
            .strip_prefix("docs/")
            .filter(|name| name.ends_with(".md"));
        let Some(name) = name.filter(|name| *name != "SUMMARY.md") else {
            continue;
        };
        if !summary.contains(&format!("({name})")) && !summary.contains(&format!("(./{name})")) {
            problems.push(format!("{}: not listed in docs/SUMMARY.md", file.path));
        }
    }
    super::report(&problems);
}

/// A figure without its command cannot be checked by anybody.
#[test]
fn results_name_their_commands() {
    let mut problems = Vec::new();
    let data = files().iter().filter(|file| {
        file.path.starts_with("results/data/")
            && file.extension() == "json"
            && file.path.matches('/').count() > 2
    });
    for file in data {
        let result: serde_json::Value = serde_json::from_str(&file.text)
            .unwrap_or_else(|error| panic!("{}: {error}", file.path));
        let command = result["command"].as_str().unwrap_or("").trim();
        if command.is_empty() {
            problems.push(format!("{}: no \"command\"", file.path));
        }
    }
    super::report(&problems);
}

/// A result that names an experiment can be made again by it.
#[test]
fn results_name_experiments_that_exist() {
    let mut problems = Vec::new();
    for file in files() {
        if !file.path.starts_with("results/data/") || file.extension() != "json" {
            continue;
        }
        for after in file.text.split("ample sim ").skip(1) {
            let id = after.split([' ', '"', '`', ';', ',', '.', '\\']).next();
            let id = id.unwrap_or("");
            if text(&format!("experiments/{id}.toml")).is_none() {
                problems.push(format!(
                    "{}: experiments/{id}.toml does not exist",
                    file.path
                ));
            }
        }
    }
    super::report(&problems);
}
