// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lists of a result as flat rows of plain values: what tables, CSV and Parquet are made of.

use serde_json::{Map, Value};

/// One list of objects.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// Path of the list in the result: `rows`, `tables.points`.
    pub name: String,
    /// Columns in the order of the fields; a field of an object in the row is `outer.inner`, an
    /// element of a short list `field.0`. Rows of a nested list begin with the plain columns of
    /// the row that holds it.
    pub columns: Vec<String>,
    /// Cells: null, booleans, numbers and strings.
    pub rows: Vec<Vec<Value>>,
}

/// Fields of a result that say what was run.
pub(crate) const DECLARED: [&str; 3] = ["parameters", "params", "experiment"];
/// Lists of at most so many plain values are columns of their own.
const SHORT: usize = 6;

fn is_plain(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

/// A list of objects, and so a table.
fn is_table(value: &Value) -> bool {
    value
        .as_array()
        .is_some_and(|items| !items.is_empty() && items.iter().all(Value::is_object))
}

/// All lists of objects in a result, parameters and declaration left out, in the order of its
/// fields, outer lists before those inside.
pub fn rows(result: &Value) -> Vec<Rows> {
    let mut found = Vec::new();
    if let Some(object) = result.as_object() {
        for (name, value) in object {
            if !DECLARED.contains(&name.as_str()) {
                collect(name, value, &[], &mut found);
            }
        }
    }
    found
}

type Cells = Vec<(String, Value)>;

fn collect(path: &str, value: &Value, outer: &[Cells], found: &mut Vec<Rows>) {
    if let Some(object) = value.as_object() {
        for (name, inner) in object {
            collect(&format!("{path}.{name}"), inner, outer, found);
        }
    }
    if !is_table(value) {
        return;
    }
    let items = value.as_array().into_iter().flatten();
    let items: Vec<&Map<String, Value>> = items.filter_map(Value::as_object).collect();
    let cells: Vec<Cells> = items
        .iter()
        .enumerate()
        .map(|(at, item)| {
            let mut cells = outer.get(at).cloned().unwrap_or_default();
            flatten("", item, &mut cells);
            cells
        })
        .collect();
    found.push(table(path, &cells));
    let mut names: Vec<&String> = Vec::new();
    for (name, inner) in items.iter().flat_map(|item| item.iter()) {
        if is_table(inner) && !names.contains(&name) {
            names.push(name);
        }
    }
    for name in names {
        let mut inner = Vec::new();
        let mut holders = Vec::new();
        for (item, cells) in items.iter().zip(&cells) {
            for row in item
                .get(name)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                inner.push(row.clone());
                holders.push(cells.clone());
            }
        }
        collect(
            &format!("{path}.{name}"),
            &Value::Array(inner),
            &holders,
            found,
        );
    }
}

/// The plain values of an object, depth first.
fn flatten(prefix: &str, object: &Map<String, Value>, cells: &mut Cells) {
    for (name, value) in object {
        let name = format!("{prefix}{name}");
        match value {
            Value::Object(inner) => flatten(&format!("{name}."), inner, cells),
            Value::Array(items) if items.len() <= SHORT && items.iter().all(is_plain) => {
                for (at, item) in items.iter().enumerate() {
                    cells.push((format!("{name}.{at}"), item.clone()));
                }
            }
            Value::Array(_) => {}
            plain => cells.push((name, plain.clone())),
        }
    }
}

fn table(name: &str, cells: &[Cells]) -> Rows {
    let mut columns: Vec<String> = Vec::new();
    for (at, (column, _)) in cells.iter().flat_map(|row| row.iter().enumerate()) {
        if !columns.contains(column) {
            columns.insert(at.min(columns.len()), column.clone());
        }
    }
    let cell = |row: &Cells, column: &String| {
        let found = row.iter().rev().find(|(name, _)| name == column);
        found.map_or(Value::Null, |(_, value)| value.clone())
    };
    let row = |row: &Cells| columns.iter().map(|column| cell(row, column)).collect();
    Rows {
        name: name.into(),
        rows: cells.iter().map(row).collect(),
        columns,
    }
}

impl Rows {
    /// As CSV (RFC 4180), null as an empty cell.
    pub fn to_csv(&self) -> String {
        let mut text = line(self.columns.iter().cloned());
        for row in &self.rows {
            text += &line(row.iter().map(|value| match value {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                plain => plain.to_string(),
            }));
        }
        text
    }
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let quoted = cells.map(|cell| match cell.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    });
    quoted.collect::<Vec<_>>().join(",") + "\r\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_plain_value_of_a_row_has_a_column() {
        let result = json!({
            "schema": "x", "parameters": {"list": [{"a": 1}]},
            "rows": [
                {"what": "a, \"b\"", "range": {"min": 1, "median": 2, "max": 3}, "pair": [4, 5],
                 "points": [{"x": 1.5}, {"x": 2.5}]},
                {"what": "c", "range": null, "pair": [6, 7], "late": true, "points": []},
            ],
            "inner": {"list": [{"y": 1}]},
        });
        let all = rows(&result);
        let names: Vec<&str> = all.iter().map(|rows| rows.name.as_str()).collect();
        assert_eq!(names, ["rows", "rows.points", "inner.list"]);
        let mut columns = all[0].columns.clone();
        columns.sort();
        let wanted = "late pair.0 pair.1 range range.max range.median range.min what";
        assert_eq!(columns.join(" "), wanted);
        let points = &all[1];
        assert_eq!(
            (points.rows.len(), points.columns.last().unwrap().as_str()),
            (2, "x")
        );
        let csv = all[0].to_csv();
        assert!(
            csv.lines().nth(1).unwrap().starts_with("\"a, \"\"b\"\"\","),
            "{csv}"
        );
    }
}
