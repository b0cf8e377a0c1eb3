// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that a user asks for, and names that come from elsewhere.

use anyhow::Context;
use std::path::Path;

/// Writes a file whole or not at all.
pub(super) fn write_file(path: &Path, bytes: impl AsRef<[u8]>) -> anyhow::Result<()> {
    ample_kit::files::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// A name that others chose, for a terminal: control characters are escaped.
#[cfg(any(feature = "bpf", test))]
pub(super) fn printable(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for character in name.chars() {
        if character.is_control() {
            text.extend(character.escape_default());
        } else {
            text.push(character);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_cannot_steer_a_terminal() {
        assert_eq!(printable("a\nb\x1b[31m é"), "a\\nb\\u{1b}[31m é");
    }
}
