// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text of others on a terminal: whoever chooses a name could let the terminal do something.

/// Whether a terminal obeys the character: a control character, or a mark that turns the direction
/// of writing (Unicode 15, UAX #9, table 4).
pub fn obeys(character: char) -> bool {
    let turns = matches!(character, '\u{61c}' | '\u{200e}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || character.is_control()
}

/// The text with U+FFFD in place of what a terminal obeys; lines stay lines if `lines`.
pub fn plain(text: &str, lines: bool) -> String {
    let obeyed = |character| obeys(character) && !(lines && character == '\n');
    text.replace(obeyed, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_replaced() {
        assert_eq!(
            plain("a\u{9b}31m\u{1b}[31m\r", true),
            "a\u{fffd}31m\u{fffd}[31m\u{fffd}"
        );
        assert_eq!(
            plain("gpj.\u{202e}exe\u{2066}", true),
            "gpj.\u{fffd}exe\u{fffd}"
        );
        assert_eq!(
            (plain("1\n2", true), plain("1\n2", false)),
            ("1\n2".into(), "1\u{fffd}2".into())
        );
        assert_eq!(plain("Zürich, 東京 ‚x‘", false), "Zürich, 東京 ‚x‘");
    }
}
