// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules that have a figure and a limit, and with them exceptions.

use std::collections::{BTreeMap, BTreeSet};

use crate::edges::foreign_edges;
use crate::exceptions::Figures;
use crate::markdown::{by_file, long_lines, mannerisms};
use crate::modules::ModuleGraph;
use crate::rust::{RustFacts, rust_files};
use crate::tree::files;

/// Lines of a file of Rust, Python, shell or C.
pub const MAX_FILE_LINES: usize = 450;
/// Lines of a function of Rust, from `fn` to its closing brace.
pub const MAX_FUNCTION_LINES: usize = 70;
/// Files of one crate that may use each other in a circle.
pub const MAX_CIRCLE_FILES: usize = 3;

/// A rule: its name in `exceptions.toml`, and what is over its limit.
pub type FigureRule = (&'static str, fn() -> Figures);

/// Every rule with a figure.
pub const RULES: [FigureRule; 8] = [
    ("edges", foreign_edges),
    ("file-lines", file_lines),
    ("function-lines", function_lines),
    ("circles", circles),
    ("empty-docs", empty_docs),
    ("names-given-twice", names_given_twice),
    ("markdown-columns", || by_file(long_lines())),
    ("mannerisms", || by_file(mannerisms())),
];

/// Files that are too long to be held in the head.
fn file_lines() -> Figures {
    files()
        .iter()
        .filter(|file| {
            let read = ["rs", "py", "sh", "c", "h", "cc", "cpp"];
            read.contains(&file.extension())
        })
        .map(|file| (file.path.clone(), file.text.lines().count()))
        .filter(|(_, lines)| *lines > MAX_FILE_LINES)
        .collect()
}

/// Functions that are too long; of several with one name in a file the longest.
fn function_lines() -> Figures {
    let mut found = Figures::new();
    for file in rust_files() {
        for function in &file.functions {
            if function.lines > MAX_FUNCTION_LINES {
                let what = format!("{}: {}", file.path, function.name);
                let figure = found.entry(what).or_default();
                *figure = function.lines.max(*figure);
            }
        }
    }
    found
}

/// Circles of modules: `CRATE 1` is the largest of a crate, `CRATE 2` the next.
fn circles() -> Figures {
    let mut found = Figures::new();
    for (name, graph) in module_graphs() {
        let circles = graph.circles().into_iter();
        for (index, circle) in circles.filter(|c| c.len() > MAX_CIRCLE_FILES).enumerate() {
            found.insert(format!("{name} {}", index + 1), circle.len());
        }
    }
    found
}

/// The modules of every crate, by the name of the crate: `lib.rs` and `main.rs` are two.
pub fn module_graphs() -> Vec<(String, ModuleGraph)> {
    let facts: BTreeMap<&str, &RustFacts> = rust_files()
        .iter()
        .map(|file| (file.path.as_str(), file))
        .collect();
    let mut graphs = Vec::new();
    for path in facts.keys() {
        let Some((name, root)) = path
            .strip_prefix("crates/")
            .and_then(|rest| rest.split_once("/src/"))
        else {
            continue;
        };
        match root {
            "lib.rs" => graphs.push((name.to_string(), ModuleGraph::new(path, &facts))),
            "main.rs" => graphs.push((format!("{name} (main)"), ModuleGraph::new(path, &facts))),
            _ => {}
        }
    }
    graphs
}

/// Doc comments of each crate that say no more than the name of their item.
fn empty_docs() -> Figures {
    let mut found = Figures::new();
    for (file, _, _) in list_empty_docs() {
        let name = crate_of(&file).unwrap_or("elsewhere");
        *found.entry(name.to_string()).or_default() += 1;
    }
    found
}

/// Doc comments that say nothing: file, line, text.
pub fn list_empty_docs() -> Vec<(String, usize, String)> {
    let mut found = Vec::new();
    for file in rust_files() {
        let empty = file
            .documented
            .iter()
            .filter(|item| says_nothing(&item.name, &item.doc));
        found.extend(empty.map(|item| (file.path.clone(), item.line, item.doc.clone())));
    }
    found
}

/// If `doc` is one word, or the words of `name` over again.
fn says_nothing(name: &str, doc: &str) -> bool {
    let own: BTreeSet<String> = words(name).into_iter().collect();
    let said = words(doc);
    said.len() <= 1 || said.iter().all(|word| own.contains(word))
}

/// The words of a text or of an identifier in any case, small, singular, without articles.
fn words(text: &str) -> Vec<String> {
    let mut spaced = String::new();
    let mut lower_before = false;
    for c in text.chars() {
        if c.is_uppercase() && lower_before {
            spaced.push(' ');
        }
        lower_before = c.is_lowercase();
        spaced.extend(c.to_lowercase());
    }
    spaced
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| {
            !matches!(
                *word,
                "" | "the" | "a" | "an" | "of" | "this" | "its" | "all"
            )
        })
        .map(|word| word.trim_end_matches('s').to_string())
        .collect()
}

/// Public types of the crates whose name is given to more than one.
fn names_given_twice() -> Figures {
    let mut found = Figures::new();
    for file in rust_files().iter().filter(|f| crate_of(&f.path).is_some()) {
        for (name, _) in &file.public_types {
            *found.entry(name.clone()).or_default() += 1;
        }
    }
    found.retain(|_, count| *count > 1);
    found
}

/// Where the public type `name` is defined: `file:line`.
pub fn places_of_type(name: &str) -> Vec<String> {
    let mut places = Vec::new();
    for file in rust_files().iter().filter(|f| crate_of(&f.path).is_some()) {
        let found = file.public_types.iter().filter(|(own, _)| own == name);
        places.extend(found.map(|(_, line)| format!("{}:{line}", file.path)));
    }
    places
}

/// The crate in whose `src` the file lies.
fn crate_of(path: &str) -> Option<&str> {
    let (name, _) = path.strip_prefix("crates/")?.split_once("/src/")?;
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doc_comment_has_to_say_more_than_the_name() {
        for (name, doc) in [
            ("seed", "Seed."),
            ("rows", "The rows."),
            ("free_pages", "Free pages."),
            ("PageClass", "The class of a page."),
            ("seed", "One."),
        ] {
            assert!(says_nothing(name, doc), "{doc}");
        }
        for (name, doc) in [
            ("seed", "Seed of the workload."),
            ("free", "Free 4 KB pages."),
            ("free_pages", "Free pages, in both regions."),
        ] {
            assert!(!says_nothing(name, doc), "{doc}");
        }
    }
}
