// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables, for pages and for terminals.

use crate::escape::escape;

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text, flush left.
    Left,
    /// Numbers, flush right.
    Right,
}

/// A table of text cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

/// Cells with more characters are sentences, which a narrow screen leaves room to read.
const SENTENCE: usize = 80;

impl Table {
    /// A table with these columns.
    pub fn new(columns: &[(&str, Align)]) -> Table {
        let columns = columns
            .iter()
            .map(|(name, align)| (name.to_string(), *align))
            .collect();
        Table {
            columns,
            rows: Vec::new(),
        }
    }

    /// A table with headings as `workload | >share`: numbers, flush right, stand under a heading
    /// that begins with `>`.
    pub fn headed(headings: &str) -> Table {
        let column = |heading: &str| match heading.trim().strip_prefix('>') {
            Some(name) => (name.to_string(), Align::Right),
            None => (heading.trim().to_string(), Align::Left),
        };
        Table {
            columns: headings.split('|').map(column).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If it does not have one cell per column (a programming error).
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "one cell per column");
        self.rows.push(cells);
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The same table with its first rows only.
    #[must_use]
    pub fn first(&self, rows: usize) -> Table {
        Table {
            columns: self.columns.clone(),
            rows: self.rows.iter().take(rows).cloned().collect(),
        }
    }

    /// The table as HTML.
    pub fn to_html(&self) -> String {
        let class = |index: usize, cell: &str| match self.columns[index].1 {
            Align::Left if cell.chars().count() > SENTENCE => " class='long'",
            Align::Left => "",
            Align::Right => " class='num'",
        };
        let cells = |tag: &str, row: &mut dyn Iterator<Item = &String>| -> String {
            row.enumerate()
                .map(|(index, cell)| {
                    let class = class(index, cell);
                    format!("<{tag}{class}>{}</{tag}>", escape(cell))
                })
                .collect()
        };
        let head = cells("th", &mut self.columns.iter().map(|(name, _)| name));
        let body: String = self
            .rows
            .iter()
            .map(|row| format!("<tr>{}</tr>\n", cells("td", &mut row.iter())))
            .collect();
        format!(
            "<div class='scroll'><table>\n<thead><tr>{head}</tr></thead>\n\
             <tbody>\n{body}</tbody>\n</table></div>\n"
        )
    }

    /// The table as text with aligned columns, two blanks apart.
    pub fn to_text(&self) -> String {
        let width = |index: usize| {
            let cells = self.rows.iter().map(|row| row[index].chars().count());
            cells
                .chain([self.columns[index].0.chars().count()])
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let line = |cells: &mut dyn Iterator<Item = &String>| -> String {
            let padded = cells
                .enumerate()
                .map(|(index, cell)| match self.columns[index].1 {
                    Align::Left => format!("{cell:<width$}", width = widths[index]),
                    Align::Right => format!("{cell:>width$}", width = widths[index]),
                });
            let text = padded.collect::<Vec<_>>().join("  ");
            format!("{}\n", text.trim_end())
        };
        let mut text = line(&mut self.columns.iter().map(|(name, _)| name));
        for row in &self.rows {
            text.push_str(&line(&mut row.iter()));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_align_right() {
        let mut table = Table::headed("policy | >share");
        table.row(vec!["linux".into(), "31 %".into()]);
        table.row(vec!["contiguitas".into(), "7 %".into()]);
        assert_eq!(
            table.to_text(),
            "policy       share\nlinux         31 %\ncontiguitas    7 %\n"
        );
        assert_eq!((table.first(1).len(), table.is_empty()), (1, false));
        assert!(table.to_html().contains("<td class='num'>7 %</td>"));
    }
}
