// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the terminal can show, and texts that fit it.

use std::fmt::Write;
use std::io::IsTerminal;

/// Width used when there is no terminal to ask.
const DEFAULT_COLUMNS: usize = 80;
/// Narrower than this nothing fits; wider than this no eye follows a row.
const COLUMN_LIMITS: (usize, usize) = (60, 200);

/// How text is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Use colours.
    pub colour: bool,
    /// Use block characters beyond ASCII.
    pub unicode: bool,
    /// Columns to fill.
    pub columns: usize,
}

/// Colours by meaning, from the 256-colour palette, readable on dark and light backgrounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Wholly free memory.
    Free,
    /// Movable memory.
    Movable,
    /// May be held.
    Doubtful,
    /// Partly held.
    Polluted,
    /// Held throughout.
    Held,
    /// Less important.
    Dim,
    /// Headings, in bold.
    Strong,
}

impl Colour {
    /// Index in the 256-colour palette.
    pub fn index(self) -> u8 {
        match self {
            Colour::Free => 71,
            Colour::Movable => 68,
            Colour::Doubtful => 179,
            Colour::Polluted => 208,
            Colour::Held => 160,
            Colour::Dim | Colour::Strong => 7,
        }
    }
}

impl Style {
    /// What standard output can show. No colour when it is not a terminal (`to_stdout` false:
    /// never), or when `NO_COLOR` is set and not empty.
    pub fn detect(to_stdout: bool) -> Style {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let terminal = to_stdout && std::io::stdout().is_terminal();
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(|name| variable(name));
        let utf8 = |locale: String| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        };
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
        let columns = size
            .map(|size| usize::from(size.ws_col))
            .filter(|&columns| terminal && columns > 0)
            .or_else(|| variable("COLUMNS")?.parse().ok())
            .unwrap_or(DEFAULT_COLUMNS);
        Style {
            colour: terminal
                && variable("NO_COLOR").is_none()
                && variable("TERM").is_none_or(|term| term != "dumb"),
            unicode: locale.is_some_and(utf8),
            columns: columns.clamp(COLUMN_LIMITS.0, COLUMN_LIMITS.1),
        }
    }

    /// `text` in a colour, where colours are on.
    pub fn paint(&self, colour: Colour, text: &str) -> String {
        let code = match colour {
            Colour::Dim => "2".to_string(),
            Colour::Strong => "1".to_string(),
            colour => format!("38;5;{}", colour.index()),
        };
        if self.colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_string()
        }
    }
}

/// Seconds in the two largest units that say something.
pub fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes} min"),
        (0, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// A sentence as lines of at most `columns`, the first marked with a dash.
pub fn wrap(text: &str, columns: usize) -> String {
    let mut lines = String::from("-");
    let mut used = 1;
    for word in text.split_whitespace() {
        if used + 1 + word.chars().count() > columns {
            lines.push_str("\n ");
            used = 1;
        }
        let _ = write!(lines, " {word}");
        used += 1 + word.chars().count();
    }
    lines + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_use_two_units() {
        assert_eq!(duration(1020), "17 min");
        assert_eq!(duration(3660), "1 h 1 min");
        assert_eq!(duration(90_000), "1 d 1 h");
    }

    #[test]
    fn notes_wrap_at_the_width() {
        assert_eq!(wrap("aa bb cc", 6), "- aa\n  bb\n  cc\n");
    }
}
