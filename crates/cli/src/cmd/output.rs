// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that a user asks for, errors, and lines beside the result.

use anyhow::Context;
use std::fmt::Arguments;
use std::io::Write;
use std::path::Path;

/// What `tell!` calls.
pub fn tell_line(text: Arguments) {
    tell_part(format_args!("{text}\n"));
}

/// Says a part of a line, for a line that is drawn again and again.
pub(super) fn tell_part(text: Arguments) {
    let _ = std::io::stderr().write_fmt(text);
}

/// Writes a file whole or not at all.
pub(super) fn write_file(path: &Path, bytes: impl AsRef<[u8]>) -> anyhow::Result<()> {
    ample_kit::files::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// Looks whether a file can be written, before the long work whose result goes into it.
pub(super) fn can_write(path: &Path) -> anyhow::Result<()> {
    // A pipe or a device: what it takes is seen when it is written.
    if path
        .metadata()
        .is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
    {
        return Ok(());
    }
    let begun = ample_kit::files::WholeFile::create(path);
    begun
        .map(drop)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// An error with its causes as it may be printed: names in it may be anybody's. Lines stay lines.
pub fn printed(error: &anyhow::Error) -> String {
    ample_kit::terminal::plain(&format!("{error:#}"), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_an_error_reaches_no_terminal() {
        let error = anyhow::anyhow!("line 1\nline 2").context("a\u{9b}31m\u{1b}[31m\r\u{202e}");
        assert_eq!(
            printed(&error),
            "a\u{fffd}31m\u{fffd}[31m\u{fffd}\u{fffd}: line 1\nline 2"
        );
    }
}
