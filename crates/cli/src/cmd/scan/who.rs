// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who holds unmovable pages, as a table for a person.

use super::style::{Style, duration, wrap};
use ample_host::{OwnerKind, PageOwner, Who};
use ample_pfn::format_bytes;
use ample_report::Table;
use std::fmt::Write;

/// Owners shown to a person; JSON has all.
const MOST_ROWS: usize = 24;
/// Share of pages without a name above which the report says what would name them.
const UNKNOWN_RATIO: f64 = 0.1;

/// Name and control group, at most `columns` wide.
fn name(owner: &PageOwner, columns: usize) -> String {
    let group = owner.cgroup.as_ref();
    let text = group.map_or(owner.name.clone(), |group| {
        format!("{} in {group}", owner.name)
    });
    match text.chars().count() > columns {
        true => text.chars().take(columns - 1).chain(['~']).collect(),
        false => text,
    }
}

/// The table, what is not known, and why.
pub fn render(who: &Who, style: &Style) -> String {
    let mut table = Table::headed(
        "kind | owner | >memory | >2 MB blocks | >alone | >1 GB blocks | >alone | >age",
    );
    let columns = style.columns.saturating_sub(64).clamp(16, 60);
    for owner in who.owners.iter().take(MOST_ROWS) {
        table.row(vec![
            owner.kind.title().into(),
            name(owner, columns),
            format_bytes(owner.pages * 4096),
            owner.blocks_2m.to_string(),
            owner.alone_2m.to_string(),
            owner.blocks_1g.to_string(),
            owner.alone_1g.to_string(),
            owner.age_seconds.map_or(String::new(), duration),
        ]);
    }
    let mut text = table.to_text();
    if let Some(rest) = who.owners.get(MOST_ROWS..).filter(|rest| !rest.is_empty()) {
        let pages: u64 = rest.iter().map(|owner| owner.pages).sum();
        let held = format_bytes(pages * 4096);
        let _ = writeln!(text, "{} more hold {held}; --json has all", rest.len());
    }
    let (all, unknown) = (who.pages().max(1), who.unknown_pages());
    let share = unknown as f64 / all as f64;
    let summary = format!(
        "{} of unmovable memory have {} owners, {:.1} % have no name. Found in {:.0} ms after \
         the pages were read.",
        format_bytes(all * 4096),
        who.owners
            .iter()
            .filter(|own| own.kind != OwnerKind::Unknown)
            .count(),
        100.0 * share,
        who.duration_ns as f64 / 1e6,
    );
    let mut lines = vec![summary];
    if share > UNKNOWN_RATIO {
        lines.push(
            "To name the rest, boot a kernel with CONFIG_PAGE_OWNER with page_owner=on and add \
             --owners."
                .into(),
        );
    }
    lines.extend(who.hints.iter().map(|hint| format!("not followed: {hint}")));
    for line in lines {
        text.push_str(&wrap(&line, style.columns.min(100)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(kind: OwnerKind, name: &str, pages: u64) -> PageOwner {
        PageOwner {
            kind,
            name: name.into(),
            cgroup: Some("/system.slice".into()),
            age_seconds: Some(3660),
            pages,
            blocks_2m: 3,
            alone_2m: 2,
            blocks_1g: 1,
            alone_1g: 0,
        }
    }

    #[test]
    fn what_has_no_name_is_counted_and_explained() {
        let style = Style {
            colour: false,
            unicode: false,
            columns: 80,
        };
        let mut who = Who {
            owners: vec![owner(OwnerKind::Pipe, "a-program-with-a-long-name", 95)],
            ..Who::default()
        };
        who.owners
            .push(owner(OwnerKind::Unknown, "single pages", 5));
        let text = render(&who, &style);
        assert!(text.contains("pipe     a-program-with-~"), "{text}");
        assert!(
            text.contains("1 h 1 min") && text.contains("5.0 % have no name"),
            "{text}"
        );
        assert!(!text.contains("page_owner"));
        who.owners[1].pages = 50;
        assert!(render(&who, &style).contains("page_owner=on"));
    }
}
