// SPDX-License-Identifier: MIT OR Apache-2.0
//! Links of Markdown to files and headings of this repository. Those to other sites are not
//! followed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use ample_tidy::markdown::prose;
use ample_tidy::tree::{SourceFile, files, root, text};

#[test]
fn links_lead_somewhere() {
    let mut problems = Vec::new();
    for file in files().iter().filter(|file| file.extension() == "md") {
        for (number, target) in links(file) {
            if let Some(problem) = broken(&file.path, &target) {
                problems.push(format!("{}:{number}: {target}: {problem}", file.path));
            }
        }
    }
    super::report(&problems);
}

/// Targets of `[text](target)`, outside of code, with the line.
fn links(file: &SourceFile) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(file) {
        let text = without_code(line);
        for after in text.split("](").skip(1) {
            let target = after.split([')', ' ']).next().unwrap_or("");
            found.push((number, target.to_string()));
        }
    }
    found
}

/// The line without what stands between backquotes.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// Why a link of the file `from` leads nowhere.
fn broken(from: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() {
        from.to_string()
    } else {
        let folder = Path::new(from).parent().unwrap_or(Path::new(""));
        match normal(&folder.join(path)) {
            Some(path) => path,
            None => return Some("leads out of the repository".to_string()),
        }
    };
    if !root().join(&path).exists() {
        return Some(format!("there is no {path}"));
    }
    let is_page = path.ends_with(".md") && !anchor.is_empty();
    let known = |page: &str| anchors(page).contains(anchor);
    (is_page && !text(&path).is_some_and(known)).then(|| format!("{path} has no such heading"))
}

/// The path with `..` resolved, unless it leads above the root.
fn normal(path: &Path) -> Option<String> {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => parts.pop().then_some(())?,
            Component::Normal(part) => parts.push(part),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    parts.to_str().map(String::from)
}

/// The anchors that headings get, and those set by `id="…"`.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let mut in_code = false;
    for line in page.lines() {
        in_code ^= line.trim_start().starts_with("```");
        for after in line.split("id=\"").skip(1) {
            found.extend(after.split('"').next().map(String::from));
        }
        let heading = line.trim_start_matches('#');
        if in_code || heading == line || !heading.starts_with(' ') {
            continue;
        }
        let anchor: String = heading
            .trim()
            .to_lowercase()
            .chars()
            .filter_map(|c| match c {
                ' ' => Some('-'),
                _ => (c.is_alphanumeric() || c == '-' || c == '_').then_some(c),
            })
            .collect();
        let count = times.entry(anchor.clone()).or_default();
        found.insert(match *count {
            0 => anchor,
            n => format!("{anchor}-{n}"),
        });
        *count += 1;
    }
    found
}

#[test]
fn a_broken_link_is_seen() {
    assert_eq!(broken("docs/SUMMARY.md", "definitions.md"), None);
    assert_eq!(broken("docs/SUMMARY.md", "../README.md"), None);
    assert!(broken("docs/SUMMARY.md", "no-such-page.md").is_some());
    assert!(broken("README.md", "../outside.md").is_some());
    assert!(broken("README.md", "#no-such-heading-at-all").is_some());
    let page = "# One `two`: three!\n## One\n## One\n```\n# code\n```\n";
    let found = anchors(page);
    assert_eq!(
        found.iter().map(String::as_str).collect::<Vec<_>>(),
        ["one", "one-1", "one-two-three"]
    );
}
