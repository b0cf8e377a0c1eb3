// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text into HTML and SVG.

/// Escapes text for element content and double-quoted attributes.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Control characters are not allowed in XML, even escaped.
            c if c.is_control() && c != '\n' && c != '\t' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// The text that [`escape`] was given, but for control characters.
pub(crate) fn unescape(escaped: &str) -> String {
    // The ampersand last: what it begins is text.
    [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ]
    .iter()
    .fold(escaped.to_string(), |text, (from, to)| {
        text.replace(from, to)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_escaped_comes_back(text in "[&<>\"';a-z#0-9]{0,40}") {
            prop_assert_eq!(unescape(&escape(&text)), text);
        }
    }

    #[test]
    fn markup_and_control_characters_are_neutralised() {
        assert_eq!(
            escape("<a href=\"x\">&'\0"),
            "&lt;a href=&quot;x&quot;&gt;&amp;&#39;\u{fffd}"
        );
    }
}
