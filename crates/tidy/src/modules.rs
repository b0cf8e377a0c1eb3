// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which module of a crate uses which, and the circles among them.
//!
//! A module is a file. It uses another if its code (not its tests) names something that is defined
//! there, directly or by a name that a third module hands on.

use std::collections::{BTreeMap, BTreeSet};

use crate::rust::RustFacts;

/// The modules of one crate.
#[derive(Debug, Default)]
pub struct ModuleGraph {
    /// The files, in the order of discovery: the root first.
    pub files: Vec<String>,
    /// For each file those that it uses, itself left out.
    pub edges: Vec<BTreeSet<usize>>,
    parents: Vec<Option<usize>>,
    children: Vec<BTreeMap<String, usize>>,
}

/// Re-exports are followed this many times; a longer chain ends where it is.
const MAX_HOPS: usize = 8;

impl ModuleGraph {
    /// The graph of the crate whose root is the file `root`, of `facts` by path.
    pub fn new(root: &str, facts: &BTreeMap<&str, &RustFacts>) -> Self {
        let mut graph = Self::default();
        graph.add(root, None, facts);
        let mut next = 0;
        while next < graph.files.len() {
            let path = graph.files[next].clone();
            for name in &facts[path.as_str()].child_files {
                let candidates = [
                    format!("{}{name}.rs", child_folder(&path)),
                    format!("{}{name}/mod.rs", child_folder(&path)),
                ];
                if let Some(file) = candidates.iter().find(|c| facts.contains_key(c.as_str())) {
                    let child = graph.add(file, Some(next), facts);
                    graph.children[next].insert(name.clone(), child);
                }
            }
            next += 1;
        }
        for module in 0..graph.files.len() {
            for path in &facts[graph.files[module].as_str()].used {
                let used = graph.resolve(module, path, facts, MAX_HOPS);
                if let Some(used) = used.filter(|&used| used != module) {
                    graph.edges[module].insert(used);
                }
            }
        }
        graph
    }

    fn add(
        &mut self,
        file: &str,
        parent: Option<usize>,
        facts: &BTreeMap<&str, &RustFacts>,
    ) -> usize {
        assert!(facts.contains_key(file), "{file} was not read");
        self.files.push(file.to_string());
        self.edges.push(BTreeSet::new());
        self.parents.push(parent);
        self.children.push(BTreeMap::new());
        self.files.len() - 1
    }

    /// The module that defines what `path` names in `module`; `None` if that is another crate's.
    fn resolve(
        &self,
        module: usize,
        path: &[String],
        facts: &BTreeMap<&str, &RustFacts>,
        hops: usize,
    ) -> Option<usize> {
        let mut at = module;
        let mut rest = path;
        match rest.first().map(String::as_str)? {
            "crate" => (at, rest) = (0, &rest[1..]),
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|segment| segment == "super") {
                    at = self.parents[at]?;
                    rest = &rest[1..];
                }
            }
            name => at = *self.children[at].get(name)?,
        }
        if at != module
            && path
                .first()
                .is_some_and(|s| self.children[module].get(s) == Some(&at))
        {
            rest = &rest[1..];
        }
        while let Some(name) = rest.first() {
            if let Some(&child) = self.children[at].get(name) {
                (at, rest) = (child, &rest[1..]);
                continue;
            }
            let imports = &facts[self.files[at].as_str()].imports;
            if let Some((_, target)) = imports.iter().find(|(given, _)| given == name)
                && hops > 0
            {
                let target: Vec<String> = target.iter().chain(&rest[1..]).cloned().collect();
                return self.resolve(at, &target, facts, hops - 1);
            }
            break;
        }
        Some(at)
    }

    /// The circles: sets of modules each of which uses every other, at least indirectly; files by
    /// name, the largest circle first.
    pub fn circles(&self) -> Vec<Vec<&str>> {
        let reached: Vec<BTreeSet<usize>> = (0..self.files.len())
            .map(|from| self.reachable(from))
            .collect();
        let mut seen = BTreeSet::new();
        let mut circles = Vec::new();
        for from in 0..self.files.len() {
            if !reached[from].contains(&from) || !seen.insert(from) {
                continue;
            }
            let members: Vec<usize> = reached[from]
                .iter()
                .copied()
                .filter(|&to| reached[to].contains(&from))
                .collect();
            seen.extend(&members);
            let mut names: Vec<&str> = members.iter().map(|&m| self.files[m].as_str()).collect();
            names.sort_unstable();
            circles.push(names);
        }
        circles.sort_by_key(|names| std::cmp::Reverse(names.len()));
        circles
    }

    /// Modules that `from` uses, directly or not; itself only if on a circle.
    fn reachable(&self, from: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            for &next in &self.edges[at] {
                if reached.insert(next) {
                    open.push(next);
                }
            }
        }
        reached
    }

    /// The edges among `members`, a line each: `a -> b, c`.
    pub fn edges_among(&self, members: &[&str]) -> Vec<String> {
        let inside = |file: usize| members.contains(&self.files[file].as_str());
        (0..self.files.len())
            .filter(|&from| inside(from))
            .map(|from| {
                let used = self.edges[from].iter().filter(|&&to| inside(to));
                let names: Vec<&str> = used.map(|&to| self.files[to].as_str()).collect();
                format!("{} -> {}", self.files[from], names.join(", "))
            })
            .collect()
    }
}

/// Where the modules of the file `path` lie, with a slash at the end.
fn child_folder(path: &str) -> String {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    match file {
        "mod.rs" | "lib.rs" | "main.rs" => format!("{folder}/"),
        _ if folder.ends_with("src/bin") => format!("{folder}/"),
        _ => format!("{folder}/{}/", file.trim_end_matches(".rs")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rust::facts;

    fn graph_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let parsed: Vec<RustFacts> = files.iter().map(|(path, text)| facts(path, text)).collect();
        let by_path = parsed.iter().map(|f| (f.path.as_str(), f)).collect();
        let graph = ModuleGraph::new(files[0].0, &by_path);
        let circles = graph.circles();
        let owned = |names: &Vec<&str>| names.iter().map(|name| name.to_string()).collect();
        circles.iter().map(owned).collect()
    }

    #[test]
    fn a_circle_is_found_through_a_re_export_and_a_folder() {
        let circles = graph_of(&[
            ("src/lib.rs", "mod a; mod b; mod leaf; pub use b::Thing;"),
            ("src/a.rs", "mod inner; use crate::leaf::Leaf;"),
            ("src/a/inner.rs", "fn f(_: crate::Thing) {}"),
            ("src/b/mod.rs", "use crate::a::inner; pub struct Thing;"),
            ("src/leaf.rs", "pub struct Leaf;"),
        ]);
        assert_eq!(circles, [["src/a/inner.rs", "src/b/mod.rs"]]);
    }

    #[test]
    fn tests_and_handed_on_names_make_no_circle() {
        let circles = graph_of(&[
            ("src/lib.rs", "mod a; mod b; pub use a::A; pub struct Root;"),
            (
                "src/a.rs",
                "use crate::Root; #[cfg(test)] mod t { use crate::b::B; }",
            ),
            ("src/b.rs", "use super::a::A;"),
        ]);
        assert!(circles.is_empty(), "{circles:?}");
    }

    #[test]
    fn a_parent_that_uses_its_child_and_back_is_a_circle() {
        let circles = graph_of(&[
            ("src/lib.rs", "mod a; pub struct Root; fn f() { a::g(); }"),
            ("src/a.rs", "use super::Root; pub fn g() {}"),
        ]);
        assert_eq!(circles, [["src/a.rs", "src/lib.rs"]]);
    }
}
