// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any experiment result as text: the scalars of the object, then one table for each list of
//! objects in it. Experiments of the hardware simulators share no row type, so this works on
//! their JSON.

use ample_report::{Align, Table};
use serde_json::{Map, Value};

/// A cell: numbers with four digits, short lists joined, `None` for what has no place in one.
fn cell(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("–".into()),
        Value::Bool(flag) => Some(if *flag { "yes" } else { "no" }.into()),
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole.to_string(),
            (None, Some(real)) => significant(real),
            (None, None) => number.to_string(),
        }),
        Value::Array(items) if items.len() <= 6 => {
            let cells: Option<Vec<String>> = items.iter().map(cell).collect();
            cells.map(|cells| cells.join(" "))
        }
        Value::Object(fields) => spread(fields),
        _ => None,
    }
}

/// A mean over seeds with its smallest and largest value.
fn spread(fields: &Map<String, Value>) -> Option<String> {
    let number = |name: &str| Some(significant(fields.get(name)?.as_f64()?));
    let mean = number("mean")?;
    Some(format!("{mean} ({}–{})", number("min")?, number("max")?))
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

/// A list of objects as a table with the fields of the first as columns.
fn table(rows: &[Value]) -> Option<Table> {
    let first = rows.first()?.as_object()?;
    let columns: Vec<&String> = first
        .iter()
        .filter(|(_, value)| cell(value).is_some())
        .map(|(name, _)| name)
        .collect();
    let align = |name: &str| match first[name] {
        Value::String(_) | Value::Bool(_) => Align::Left,
        _ => Align::Right,
    };
    let heads: Vec<(&str, Align)> = columns
        .iter()
        .map(|name| (name.as_str(), align(name)))
        .collect();
    let mut table = Table::new(&heads);
    for row in rows {
        let row = row.as_object()?;
        let text = |name: &&String| row.get(*name).and_then(cell).unwrap_or_else(|| "–".into());
        table.row(columns.iter().map(text).collect());
    }
    Some(table)
}

/// The whole result, depth first.
pub fn render(result: &Value) -> String {
    let mut text = String::new();
    if let Some(object) = result.as_object() {
        object_text(object, &mut text);
    }
    text
}

fn object_text(object: &Map<String, Value>, text: &mut String) {
    for (name, value) in object {
        if let Some(cell) = cell(value) {
            text.push_str(&format!("{name}: {cell}\n"));
        }
    }
    for (name, value) in object {
        match value {
            Value::Array(rows) => {
                if let Some(table) = table(rows) {
                    text.push_str(&format!("\n{name}\n{}", table.to_text()));
                }
                // Tables inside rows (a grid of each program, say).
                for row in rows.iter().filter_map(Value::as_object) {
                    let nested = row
                        .values()
                        .any(|v| v.as_array().is_some_and(|a| a.len() > 6));
                    if nested {
                        text.push('\n');
                        object_text(row, text);
                    }
                }
            }
            Value::Object(inner) if cell(value).is_none() => {
                text.push_str(&format!("\n{name}\n"));
                object_text(inner, text);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_then_tables() {
        let result = serde_json::json!({
            "machine": "m", "partial": false,
            "rows": [{"program": "gups", "percent": [83.1, 53.25]}, {"program": "cg"}],
        });
        let expected = "machine: m\npartial: no\n\nrows\n    percent  program\n\
                        83.10 53.25  gups\n          –  cg\n";
        assert_eq!(render(&result), expected);
    }

    #[test]
    fn spreads_are_cells() {
        let result = serde_json::json!({"rows": [{
            "gain": {"mean": 1.5, "min": 1.0, "max": 2.0, "sd": 0.5, "n": 3},
        }]});
        let expected = "\nrows\n               gain\n1.500 (1.000–2.000)\n";
        assert_eq!(render(&result), expected);
    }
}
