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

/// Fences of a page that open a block without saying its language: `sh` is run by
/// scripts/book-run.py, anything else is not.
fn untold_blocks(page: &str) -> Vec<usize> {
    let mut inside = false;
    let mut found = Vec::new();
    for (index, line) in page.lines().enumerate() {
        let Some(language) = line.trim_start().strip_prefix("```") else {
            continue;
        };
        if !inside && language.trim().is_empty() {
            found.push(index + 1);
        }
        inside = !inside;
    }
    found
}

#[test]
fn blocks_of_the_book_say_their_language() {
    assert_eq!(untold_blocks("```sh\n```\n\n```\n```\n"), [4]);
    let of_the_book =
        |path: &str| path == "README.md" || (path.starts_with("docs/") && path.ends_with(".md"));
    let pages = files().iter().filter(|file| of_the_book(&file.path));
    let problems: Vec<String> = pages
        .flat_map(|file| {
            let lines = untold_blocks(&file.text);
            lines.into_iter().map(|line| {
                format!(
                    "{}:{line}: a block without a language: sh where it can be run, text, toml",
                    file.path
                )
            })
        })
        .collect();
    super::report(&problems);
}

/// What a command of a result names and the tree does not hold: a target of make, a script, or a
/// package, bench, example or test of cargo.
fn absent(command: &str) -> Vec<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let there = |folder: &str, name: &str| {
        files().iter().any(|file| {
            let path = file.path.strip_prefix("crates/");
            let path = path.and_then(|path| path.split_once('/'));
            path.is_some_and(|(_, path)| {
                path == format!("{folder}/{name}.rs") || path == format!("{folder}/{name}/main.rs")
            })
        })
    };
    let exists = |before: &str, word: &str| match before {
        "-p" => text(&format!(
            "crates/{}/Cargo.toml",
            word.trim_start_matches("ample-")
        ))
        .is_some(),
        "--bench" => there("benches", word),
        "--example" => there("examples", word),
        "--test" => there("tests", word),
        _ => true,
    };
    let pairs = words.windows(2).filter(|pair| !exists(pair[0], pair[1]));
    let mut absent: Vec<String> = pairs.map(|pair| pair.join(" ")).collect();
    match words.split_first() {
        Some((&"make", targets)) => absent.extend(
            (targets.iter())
                .filter(|target| !target.contains('=') && !super::commands::is_target(target))
                .map(|target| format!("make {target}")),
        ),
        Some((script, _)) if script.contains('/') && text(script).is_none() => {
            absent.push((*script).into());
        }
        _ => {}
    }
    absent
}

#[test]
fn an_absent_part_of_a_command_is_seen() {
    for (command, wanted) in [
        ("make results", ""),
        ("make nothing-of-it", "make nothing-of-it"),
        ("hw/energy.sh", ""),
        ("bench/nothing.py x", "bench/nothing.py"),
        ("cargo bench -p ample-mm --bench model", ""),
        ("cargo run -p ample-mm --example none", "--example none"),
        (
            "cargo test -p ample-none --test walks",
            "-p ample-none, --test walks",
        ),
    ] {
        assert_eq!(absent(command).join(", "), wanted, "{command}");
    }
}

/// A figure without its command, or with one that is not there, cannot be checked by anybody.
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
        let absent = absent(command).into_iter();
        problems.extend(absent.map(|part| format!("{}: there is no {part}", file.path)));
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
