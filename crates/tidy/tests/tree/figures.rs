// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules with figures, each against its exceptions.

use ample_tidy::exceptions::{Figures, judge, load};
use ample_tidy::figures::{
    MAX_CIRCLE_FILES, RULES, list_empty_docs, module_graphs, places_of_type,
};
use ample_tidy::markdown::{long_lines, mannerisms};

/// What is wrong by the rule of this name.
fn problems_of(rule: &str) -> Vec<String> {
    let (_, found) = RULES.iter().find(|(name, _)| *name == rule).expect(rule);
    judge(rule, &found(), load().get(rule).unwrap_or(&Figures::new()))
}

#[test]
fn exceptions_belong_to_rules() {
    let known = |rule: &String| RULES.iter().any(|(name, _)| name == rule);
    let unknown: Vec<String> = load().into_keys().filter(|rule| !known(rule)).collect();
    super::report(&unknown);
}

#[test]
fn crates_use_what_the_table_of_edges_allows() {
    super::report(&problems_of("edges"));
}

#[test]
fn files_fit_in_the_head() {
    super::report(&problems_of("file-lines"));
}

#[test]
fn functions_fit_on_a_screen() {
    super::report(&problems_of("function-lines"));
}

#[test]
fn modules_use_each_other_in_one_direction() {
    let mut problems = problems_of("circles");
    if !problems.is_empty() {
        for (name, graph) in module_graphs() {
            let circles = graph.circles();
            for circle in circles.iter().filter(|c| c.len() > MAX_CIRCLE_FILES) {
                problems.push(format!("{name}: a circle of {} files:", circle.len()));
                problems.extend(graph.edges_among(circle));
            }
        }
    }
    super::report(&problems);
}

#[test]
fn doc_comments_say_something() {
    let mut problems = problems_of("empty-docs");
    if !problems.is_empty() {
        let list = list_empty_docs().into_iter();
        problems.extend(list.map(|(file, line, doc)| format!("{file}:{line}: {doc}")));
    }
    super::report(&problems);
}

#[test]
fn markdown_fits_in_100_columns() {
    super::report(&with_places("markdown-columns", long_lines()));
}

#[test]
fn texts_are_plain() {
    super::report(&with_places("mannerisms", mannerisms()));
}

/// What is wrong by the rule, and where all that it counts is.
fn with_places(rule: &str, places: Vec<(String, usize)>) -> Vec<String> {
    let mut problems = problems_of(rule);
    if !problems.is_empty() {
        problems.extend(places.iter().map(|(file, line)| format!("{file}:{line}")));
    }
    problems
}

#[test]
fn a_reader_who_searches_for_a_type_finds_one() {
    let problems: Vec<String> = problems_of("names-given-twice")
        .into_iter()
        .map(|problem| {
            let name = problem.split('"').nth(1).unwrap_or("");
            format!("{problem}: {}", places_of_type(name).join(" "))
        })
        .collect();
    super::report(&problems);
}
