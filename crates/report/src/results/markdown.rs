// SPDX-License-Identifier: MIT OR Apache-2.0
//! Markdown with lines of at most 100 columns, except in tables.

const WIDTH: usize = 100;

/// A paragraph and the blank line behind it.
pub(crate) fn paragraph(text: &str) -> String {
    format!("{}\n\n", wrapped(text, "", ""))
}

/// An item of a list, with its line end.
pub(crate) fn item(text: &str) -> String {
    format!("{}\n", wrapped(text, "- ", "  "))
}

/// A table; the first `labels` columns are texts, the others numbers.
pub(crate) fn table(headings: &[String], numeric: &[bool], rows: &[Vec<String>]) -> String {
    debug_assert_eq!(headings.len(), numeric.len());
    let line = |cells: &[String]| {
        let cells: Vec<_> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = |numeric: &bool| if *numeric { "---:" } else { "---" }.to_string();
    let rules: Vec<_> = numeric.iter().map(rule).collect();
    let body: String = rows.iter().map(|row| line(row)).collect();
    format!("{}{}{body}\n", line(headings), line(&rules))
}

/// The anchor that Markdown renderers give a heading.
pub(crate) fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn wrapped(text: &str, first: &str, later: &str) -> String {
    let mut lines = vec![first.to_string()];
    let mut start = true;
    for word in words(text) {
        let line = lines.last_mut().expect("there is always a line");
        let width = line.chars().count() + usize::from(!start) + word.chars().count();
        if width > WIDTH && !start {
            lines.push(format!("{later}{word}"));
        } else {
            if !start {
                line.push(' ');
            }
            line.push_str(word);
        }
        start = false;
    }
    lines.join("\n")
}

/// Words of a text; a link or a piece of code counts as one, so that it stays on one line.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let mut end = 0;
        while let Some(c) = rest[end..].chars().next().filter(|c| !c.is_whitespace()) {
            end += whole(&rest[end..]).unwrap_or(c.len_utf8());
        }
        words.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    words
}

/// Length of the link or the piece of code that a text begins with.
fn whole(text: &str) -> Option<usize> {
    if let Some(code) = text.strip_prefix('`') {
        return Some(code.find('`')? + 2);
    }
    let label = text.strip_prefix('[')?.find(']')? + 2;
    let target = text[label..].strip_prefix('(')?.find(')')? + 2;
    Some(label + target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn wrapping_keeps_every_word_and_the_width(
            words in proptest::collection::vec("[a-zµ]{1,30}", 0..60),
        ) {
            let text = item(&words.join(" "));
            let kept: Vec<_> = text.trim_start_matches('-').split_whitespace().collect();
            prop_assert_eq!(kept, words);
            prop_assert!(text.lines().all(|line| line.chars().count() <= WIDTH));
        }
    }

    #[test]
    fn links_and_code_stay_on_one_line() {
        let link = format!("[{}](page.md#a)", "word ".repeat(30).trim());
        let code = format!("`{}`,", "word ".repeat(30).trim());
        let text = paragraph(&format!("{} {link} {code} [an, interval]", "x ".repeat(40)));
        assert!(text.lines().any(|line| line == link), "{text}");
        assert!(text.lines().any(|line| line == code), "{text}");
    }

    #[test]
    fn anchors_are_those_of_the_renderers() {
        assert_eq!(
            anchor("Figure 11: four workloads, 2 MB"),
            "figure-11-four-workloads-2-mb"
        );
    }

    #[test]
    fn cells_cannot_break_a_table() {
        let text = table(&["a|b".into()], &[true], &[vec!["|".into()]]);
        assert_eq!(text, "| a\\|b |\n| ---: |\n| \\| |\n\n");
    }
}
