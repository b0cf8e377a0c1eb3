// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values of a figure: what a page tells at a place of it, and lists below it as a table.

use crate::escape::{escape, unescape};
use crate::table::{Align, Table};
use serde::{Deserialize, Serialize};

/// Rows that a table below a figure has at most; a figure with more points lists some of them.
pub(crate) const MAX_ROWS: usize = 48;

/// Name of the attribute that carries the values from the figure to the page.
const ATTRIBUTE: &str = " data-values='";

/// What a figure shows, row by row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FigureValues {
    /// Where each row is drawn, in pixels of the figure from the left; empty where a row has no
    /// place of its own.
    pub(crate) at: Vec<f64>,
    /// Headings: what the rows go by, then one a series.
    pub(crate) heads: Vec<String>,
    /// One cell a heading.
    pub(crate) rows: Vec<Vec<String>>,
}

impl FigureValues {
    /// The attribute, with the blank before it.
    pub(crate) fn attribute(&self) -> String {
        let json = serde_json::to_string(self).unwrap_or_default();
        format!("{ATTRIBUTE}{}'", escape(&json))
    }

    /// The table of all rows.
    fn table(&self) -> Table {
        let column = |(index, head)| match index {
            0 => (String::as_str(head), Align::Left),
            _ => (String::as_str(head), Align::Right),
        };
        let columns: Vec<_> = self.heads.iter().enumerate().map(column).collect();
        let mut table = Table::new(&columns);
        for row in &self.rows {
            table.row(row.clone());
        }
        table
    }
}

/// A figure and the values that it carries.
fn split(svg: &str) -> (String, Option<FigureValues>) {
    let found = svg.split_once(ATTRIBUTE).and_then(|(before, rest)| {
        let (value, after) = rest.split_once('\'')?;
        Some((before, value, after))
    });
    let Some((before, value, after)) = found else {
        return (svg.to_string(), None);
    };
    let values = serde_json::from_str(&unescape(value)).ok();
    (format!("{before}{after}"), values)
}

/// The figure alone, for a file of its own.
pub(crate) fn without_values(svg: &str) -> String {
    split(svg).0
}

/// The figure for a page, with the places of its rows, and the table that goes below it.
pub(crate) fn on_a_page(svg: &str) -> (String, String) {
    let (svg, values) = split(svg);
    let Some(values) = values.filter(|own| !own.rows.is_empty()) else {
        return (svg, String::new());
    };
    let places = match values.at.is_empty() {
        true => String::new(),
        false => format!(" data-at='{}'", serde_json::json!(values.at)),
    };
    let svg = svg.replacen("<svg class='fig'", &format!("<svg class='fig'{places}"), 1);
    let table = values.table().to_html();
    let below = format!("<details><summary>Values</summary>\n{table}</details>\n");
    (svg, below)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> FigureValues {
        FigureValues {
            at: vec![56.0, 120.5],
            heads: vec!["time <s>".into(), "a 'b' & \"c\"".into()],
            rows: vec![
                vec!["0 s".into(), "3 %".into()],
                vec!["1 s".into(), "4 %".into()],
            ],
        }
    }

    #[test]
    fn what_goes_into_an_attribute_comes_out_of_it() {
        let svg = format!("<svg class='fig' x='1'{}>\n</svg>", values().attribute());
        assert_eq!(split(&svg).1, Some(values()));
        assert_eq!(without_values(&svg), "<svg class='fig' x='1'>\n</svg>");
        let (drawn, below) = on_a_page(&svg);
        assert!(drawn.contains("data-at='[56.0,120.5]'"), "{drawn}");
        assert!(below.contains("<th class='num'>a &#39;b&#39; &amp; &quot;c&quot;</th>"));
        assert!(
            below.contains("<td>1 s</td><td class='num'>4 %</td>"),
            "{below}"
        );
    }

    #[test]
    fn a_figure_without_values_stays_as_it_is() {
        let svg = "<svg class='fig'>\n</svg>";
        assert_eq!(on_a_page(svg), (svg.to_string(), String::new()));
        let torn = format!("<svg class='fig'{ATTRIBUTE}{{&quot;x");
        assert_eq!(on_a_page(&torn).0, torn);
    }
}
