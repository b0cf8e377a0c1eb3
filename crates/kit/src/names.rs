// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that people mistype.

use strsim::levenshtein;

/// The name that differs least from what was typed, if any is close.
pub fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = typed.chars().count().div_ceil(3).max(1);
    names
        .map(|name| (levenshtein(typed, name), name))
        .filter(|(distance, name)| *distance <= limit || name.starts_with(typed))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// The same as the end of a message: "; did you mean walks?", or nothing.
pub fn meant<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> String {
    nearest(typed, names).map_or(String::new(), |name| format!("; did you mean {name}?"))
}

/// The names that there are and the one that may have been meant: "known: fig10, walks; did you
/// mean walks?"
pub fn known<S: AsRef<str>>(typed: &str, names: &[S]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let hint = meant(typed, names.iter().copied());
    format!("known: {}{hint}", names.join(", "))
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
        assert_eq!(meant("wlaks", names.into_iter()), "; did you mean walks?");
        assert_eq!(meant("something else", names.into_iter()), "");
        assert_eq!(
            known("fig1", &names[..2]),
            "known: fig10, fig11; did you mean fig10?"
        );
    }
}
