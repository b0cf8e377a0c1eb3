// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of all experiments.

use crate::experiment::AnyExperiment;
use anyhow::{Result, bail};

/// The experiment of an id.
///
/// # Errors
/// If there is none: the message names the nearest id and all that exist.
pub fn by_id(id: &str) -> Result<&'static dyn AnyExperiment> {
    if let Some(found) = crate::ALL
        .iter()
        .find(|experiment| experiment.about().id == id)
    {
        return Ok(*found);
    }
    let ids = || crate::ALL.iter().map(|experiment| experiment.about().id);
    let hint = nearest(id, ids()).map_or(String::new(), |id| format!("did you mean {id}? "));
    bail!(
        "there is no experiment {id:?}; {hint}there are: {}",
        ids().collect::<Vec<_>>().join(", ")
    )
}

/// The name that differs least from what was typed, if any is close.
pub fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = typed.chars().count().div_ceil(3).max(1);
    names
        .map(|name| (distance(typed, name), name))
        .filter(|(distance, name)| *distance <= limit || name.starts_with(typed))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (row, x) in a.chars().enumerate() {
        let mut next = vec![row + 1];
        for (column, &y) in b.iter().enumerate() {
            let change = last[column] + usize::from(x != y);
            next.push(change.min(last[column + 1] + 1).min(next[column] + 1));
        }
        last = next;
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_offered() {
        let names = ["fig10", "fig11", "hw-traffic", "walks"];
        let of = |typed| nearest(typed, names.iter().copied());
        assert_eq!(of("hw-trafic"), Some("hw-traffic"));
        assert_eq!(of("walk"), Some("walks"));
        assert_eq!(of("fig1"), Some("fig10"));
        assert_eq!(of("something else"), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn ids_are_unique_and_dependencies_exist() {
        let mut ids: Vec<&str> = crate::ALL.iter().map(|e| e.about().id).collect();
        for experiment in crate::ALL {
            for needed in experiment.about().depends_on {
                assert!(ids.contains(needed), "{needed}");
            }
        }
        ids.sort_unstable();
        let count = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), count);
        let error = by_id("fig1").err().expect("no such id").to_string();
        assert!(error.contains("did you mean fig10?"), "{error}");
    }
}
