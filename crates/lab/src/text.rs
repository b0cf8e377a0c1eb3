// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of any kind as text: their plain fields, and their lists as tables. A mean or median
//! with its smallest and largest value is one cell.

use crate::rows::{DECLARED, Rows};
use ample_report::{Align, Table};
use serde_json::Value;

/// Any object as text: its plain fields, then its lists as tables.
pub fn render(result: &Value) -> String {
    let mut text = scalars(result);
    for rows in crate::rows::rows(result) {
        let (name, table) = table(&rows);
        text += &format!("\n{name}\n{}", table.to_text());
    }
    text
}

/// The fields of a result that are no lists of objects, one a line; a field of an object in it is
/// `outer.inner`.
pub(crate) fn scalars(result: &Value) -> String {
    let mut text = String::new();
    fields("", result, &mut text);
    text
}

fn fields(outer: &str, object: &Value, text: &mut String) {
    for (name, value) in object.as_object().into_iter().flatten() {
        let name = format!("{outer}{name}");
        match value {
            Value::Object(_) if DECLARED.contains(&name.as_str()) => {}
            Value::Object(_) => fields(&format!("{name}."), value, text),
            Value::Array(items) if items.iter().any(|item| item.is_object()) => {}
            Value::Array(items) if items.is_empty() => {}
            plain => *text += &format!("{name}: {}\n", cell(&name, plain)),
        }
    }
}

/// Name and table of some rows.
pub fn table(rows: &Rows) -> (String, Table) {
    let columns = columns(rows);
    let align = |column: &Column| match column.parts[..] {
        [at] if rows
            .rows
            .iter()
            .any(|row| row[at].is_string() || row[at].is_boolean()) =>
        {
            Align::Left
        }
        _ => Align::Right,
    };
    let heads: Vec<(&str, Align)> = columns
        .iter()
        .map(|column| (column.name, align(column)))
        .collect();
    let mut table = Table::new(&heads);
    for row in &rows.rows {
        table.row(columns.iter().map(|column| column.cell(row)).collect());
    }
    (rows.name.clone(), table)
}

/// One column of text, made of one or three columns of values.
struct Column<'a> {
    name: &'a str,
    /// Places of the value, or of middle, smallest and largest.
    parts: Vec<usize>,
}

impl Column<'_> {
    fn cell(&self, row: &[Value]) -> String {
        let values: Vec<&Value> = self.parts.iter().map(|&at| &row[at]).collect();
        match values[..] {
            [middle, low, high] if middle.is_number() => format!(
                "{} ({}–{})",
                cell(self.name, middle),
                cell(self.name, low),
                cell(self.name, high)
            ),
            [value, ..] => cell(self.name, value),
            [] => String::new(),
        }
    }
}

/// What a value's least and greatest over the seeds are called, before its own name.
const END_OF_SEEDS: [&str; 2] = ["seeds.least.", "seeds.greatest."];

/// Columns for people: the parts of a spread as one, its standard deviation and count left out.
fn columns(rows: &Rows) -> Vec<Column<'_>> {
    let place = |name: &str| rows.columns.iter().position(|column| column == name);
    let mut columns = Vec::new();
    for (at, name) in rows.columns.iter().enumerate() {
        if END_OF_SEEDS.iter().any(|end| name.starts_with(end)) {
            continue;
        }
        let [least, greatest] = END_OF_SEEDS.map(|end| place(&format!("{end}{name}")));
        if let Some((low, high)) = least.zip(greatest) {
            columns.push(Column {
                name,
                parts: vec![at, low, high],
            });
            continue;
        }
        let (outer, part) = name.rsplit_once('.').unwrap_or(("", name));
        let ends = (
            place(&format!("{outer}.min")),
            place(&format!("{outer}.max")),
        );
        match (part, ends) {
            ("mean" | "median", (Some(low), Some(high))) => columns.push(Column {
                name: outer,
                parts: vec![at, low, high],
            }),
            ("min" | "max" | "sd" | "n", (Some(_), Some(_))) => {}
            _ if rows
                .columns
                .iter()
                .any(|other| other.starts_with(&format!("{name}."))) => {}
            _ => columns.push(Column {
                name,
                parts: vec![at],
            }),
        }
    }
    columns
}

/// A value: sizes and addresses as people write them, other numbers with four digits.
fn cell(name: &str, value: &Value) -> String {
    match value {
        Value::Null => "–".into(),
        Value::Bool(flag) => if *flag { "yes" } else { "no" }.into(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(bytes), _) if name.ends_with("_bytes") => ample_pfn::format_bytes(bytes),
            (Some(address), _) if name.ends_with("_address") => format!("{address:#x}"),
            (Some(whole), _) => whole.to_string(),
            (None, Some(real)) => significant(real),
            (None, None) => number.to_string(),
        },
        Value::Array(items) => {
            let cells: Vec<String> = items.iter().map(|item| cell(name, item)).collect();
            cells.join(" ")
        }
        Value::Object(_) => String::new(),
    }
}

fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 1000.0 || v == 0.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        v if v >= 0.01 => 3,
        _ => 6,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::rows;
    use serde_json::json;

    fn text(result: &Value) -> String {
        rows(result)
            .iter()
            .map(|rows| table(rows).1.to_text())
            .collect()
    }

    #[test]
    fn columns_keep_the_order_of_the_fields() {
        let result = json!({"machine": "m", "partial": false,
            "rows": [{"program": "gups", "percent": 83.1, "bytes_bytes": 2048},
                {"program": "cg"}]});
        assert_eq!(scalars(&result), "machine: m\npartial: no\n");
        let expected = "program  percent  bytes_bytes\ngups       83.10           2K\n\
                        cg             –            –\n";
        assert_eq!(text(&result), expected);
    }

    /// The tables of hw-migration and hw-unavailable, which have medians, lacked our values.
    #[test]
    fn means_and_medians_with_their_range_are_cells() {
        for middle in ["mean", "median"] {
            let result = json!({"rows": [{"gain": {middle: 1.5, "min": 1.0, "max": 2.0}}]});
            assert_eq!(text(&result), "               gain\n1.500 (1.000–2.000)\n");
        }
    }

    #[test]
    fn a_value_with_its_ends_over_the_seeds_is_a_cell() {
        let ends = json!({"least": {"share": 1.0}, "greatest": {"share": 2.0}});
        let result = json!({"rows": [{"share": 1.5, "seeds": ends}]});
        assert_eq!(text(&result), "              share\n1.500 (1.000–2.000)\n");
    }
}
