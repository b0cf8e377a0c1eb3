// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names from the kernel, made safe to print.

/// The text with control characters and others that a terminal might act on written as escapes.
pub fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\'' => safe.push(character),
            other => safe.extend(other.escape_debug()),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_cannot_reach_the_terminal() {
        assert_eq!(printable("nginx: worker"), "nginx: worker");
        assert_eq!(printable("a\nb\x1b[31m"), "a\\nb\\u{1b}[31m");
        assert_eq!(printable("it's\u{202e}x\\n"), "it's\\u{202e}x\\\\n");
    }
}
