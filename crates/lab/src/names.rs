// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that people mistype.

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
}
