// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses of objects, and patterns of keys.

use anyhow::{Context, Result, ensure};
use glob::{MatchOptions, Pattern};

/// How an address of an object store begins.
pub const SCHEME: &str = "s3://";
/// What makes a key a pattern.
const WILD: [char; 3] = ['*', '?', '['];

/// A name as it may be printed: whoever writes to a store chooses the names in it, and a terminal
/// obeys control characters, and marks that turn the direction of writing.
pub fn plain(name: &str) -> String {
    ample_kit::terminal::plain(name, false)
}

/// `s3://BUCKET/KEY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreAddress {
    /// Name of the bucket.
    pub bucket: String,
    /// What comes after it: an object, the beginning of keys up to a `/`, or a pattern.
    pub key: String,
}

impl StoreAddress {
    /// Reads an address.
    ///
    /// # Errors
    /// When the text does not begin with `s3://`, names no bucket, or its key has parts that are
    /// empty, mean another folder or hold control characters.
    pub fn parse(text: &str) -> Result<StoreAddress> {
        let rest = text.strip_prefix(SCHEME);
        let shown = plain(text);
        let rest =
            rest.with_context(|| format!("`{shown}` is no address such as s3://scans/2026"))?;
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let plain = |letter: char| letter.is_ascii_alphanumeric() || ".-_".contains(letter);
        ensure!(
            bucket.contains(|letter: char| letter.is_ascii_alphanumeric())
                && bucket.chars().all(plain),
            "`{shown}` names no bucket: give s3://BUCKET/KEY"
        );
        let key = key.strip_suffix('/').unwrap_or(key);
        let is = |part: &str| !["", ".", ".."].contains(&part) && !part.contains(char::is_control);
        ensure!(
            key.is_empty() || key.split('/').all(is),
            "`{shown}` has a key that no object has"
        );
        Ok(StoreAddress {
            bucket: bucket.into(),
            key: key.into(),
        })
    }
}

/// A key as a pattern, if it is one.
pub(crate) fn pattern(key: &str) -> Result<Option<Pattern>> {
    let pattern = key.contains(WILD).then(|| Pattern::new(key)).transpose();
    pattern.with_context(|| format!("`{key}` is no pattern"))
}

/// The part of a key that all keys of its pattern begin with, up to a `/`.
pub(crate) fn fixed_part(key: &str) -> &str {
    match key.find(WILD) {
        Some(at) => key[..at].rfind('/').map_or("", |slash| &key[..slash]),
        None => key,
    }
}

pub(crate) fn fits(pattern: &Pattern, key: &str) -> bool {
    let options = MatchOptions {
        case_sensitive: true,
        require_literal_separator: true,
        require_literal_leading_dot: true,
    };
    pattern.matches_with(key, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_a_bucket_and_a_key() {
        let parse = |text: &str| StoreAddress::parse(text).map(|own| (own.bucket, own.key));
        let own = |bucket: &str, key: &str| (bucket.to_string(), key.to_string());
        assert_eq!(parse("s3://scans").unwrap(), own("scans", ""));
        assert_eq!(parse("s3://scans/").unwrap(), own("scans", ""));
        assert_eq!(parse("s3://scans/a/b/").unwrap(), own("scans", "a/b"));
        assert_eq!(
            parse("s3://s/2026-*/web?").unwrap(),
            own("s", "2026-*/web?")
        );
        for wrong in [
            "scans",
            "s3://",
            "s3:///a",
            "s3://..",
            "s3://a b/c",
            "s3://a/../b",
            "s3://a//b",
            "s3://a/b\n",
            "s3://user@host/x",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_all_keys_of_a_pattern_begin_with() {
        for (key, fixed) in [
            ("", ""),
            ("2026/a", "2026/a"),
            ("2026/a*", "2026"),
            ("*/a", ""),
            ("2026/a/host[12]", "2026/a"),
        ] {
            assert_eq!(fixed_part(key), fixed, "{key}");
        }
    }
}
