// SPDX-License-Identifier: MIT OR Apache-2.0
//! `exceptions.toml`: for each rule the figures of today that are over its limit. They may only
//! shrink: one that is too large, or no longer needed, is refused like one that is missing.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::tree::root;

/// Figures by what they are the figure of: a file, a function, a crate.
pub type Figures = BTreeMap<String, usize>;

const FILE: &str = "crates/tidy/exceptions.toml";
const HEAD: &str = "\
# SPDX-License-Identifier: MIT OR Apache-2.0
# What is over the limit of a rule today (crates/tidy/src/figures.rs). A figure here may only
# shrink: `make tighten` lowers each to what it is, and takes out what is no longer needed.
";

/// The exceptions of each rule.
///
/// # Panics
/// If the file is missing or is not `[rule]` with `"what" = figure`.
pub fn load() -> BTreeMap<String, Figures> {
    let text = std::fs::read_to_string(root().join(FILE)).expect(FILE);
    toml::from_str(&text).unwrap_or_else(|error| panic!("{FILE}: {error}"))
}

/// What is wrong with `found`, the figures over the limit of a rule, given its exceptions.
pub fn judge(rule: &str, found: &Figures, allowed: &Figures) -> Vec<String> {
    let over = found.iter().filter_map(|(what, &figure)| {
        let line = format!("\"{what}\" = {figure}");
        match allowed.get(what) {
            None => Some(format!("over the limit: {line}")),
            Some(&allowed) if figure > allowed => Some(format!("grew from {allowed}: {line}")),
            Some(&allowed) if figure < allowed => Some(format!(
                "better than its exception of {allowed}, run `make tighten`: {line}"
            )),
            Some(_) => None,
        }
    });
    let idle = allowed.keys().filter(|what| !found.contains_key(*what));
    let idle = idle.map(|what| format!("no exception needed, run `make tighten`: \"{what}\""));
    over.chain(idle)
        .map(|problem| format!("[{rule}] {problem}"))
        .collect()
}

/// The exceptions, lowered to `found`: nothing is added, nothing grows.
pub fn tightened(
    allowed: &BTreeMap<String, Figures>,
    found: &BTreeMap<String, Figures>,
) -> BTreeMap<String, Figures> {
    let lower = |rule: &String, figures: &Figures| {
        let found = found.get(rule)?;
        let kept = figures.iter().filter_map(|(what, &figure)| {
            let now = *found.get(what)?;
            Some((what.clone(), now.min(figure)))
        });
        Some((rule.clone(), kept.collect()))
    };
    allowed
        .iter()
        .filter_map(|(rule, figures)| lower(rule, figures))
        .collect()
}

/// Writes the exceptions file.
///
/// # Errors
/// If it cannot be written.
pub fn store(exceptions: &BTreeMap<String, Figures>) -> std::io::Result<()> {
    let mut text = HEAD.to_string();
    for (rule, figures) in exceptions.iter().filter(|(_, figures)| !figures.is_empty()) {
        writeln!(text, "\n[{rule}]").expect("a string takes all");
        for (what, figure) in figures {
            writeln!(text, "\"{what}\" = {figure}").expect("a string takes all");
        }
    }
    std::fs::write(root().join(FILE), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(list: &[(&str, usize)]) -> Figures {
        list.iter()
            .map(|&(what, n)| (what.to_string(), n))
            .collect()
    }

    #[test]
    fn a_figure_may_only_shrink() {
        let allowed = figures(&[("same", 5), ("less", 5), ("more", 5), ("gone", 5)]);
        let found = figures(&[("same", 5), ("less", 4), ("more", 6), ("new", 9)]);
        let problems = judge("rule", &found, &allowed);
        assert_eq!(problems.len(), 4, "{problems:?}");
        for word in ["\"less\" = 4", "\"more\" = 6", "\"new\" = 9", "\"gone\""] {
            assert!(problems.iter().any(|p| p.contains(word)), "{word}");
        }
        let before = BTreeMap::from([("rule".to_string(), allowed)]);
        let after = tightened(&before, &BTreeMap::from([("rule".to_string(), found)]));
        assert_eq!(
            after["rule"],
            figures(&[("same", 5), ("less", 4), ("more", 5)])
        );
    }
}
