// SPDX-License-Identifier: MIT OR Apache-2.0
//! Result files as text: one row a line, so that a change of a figure is a change of a line.

use super::cell::{Cell, SpreadCell};
use super::record::{BarRecord, ResultRecord, Scalar};
use serde::Serialize;

impl ResultRecord {
    /// The record as the text of its file.
    pub fn to_text(&self) -> String {
        let mut fields = vec![
            field("schema", json(&self.schema)),
            field("id", json(&self.id)),
            field("layer", json(&self.layer)),
            field("title", json(&self.title)),
            field("what", json(&self.what)),
            field("command", json(&self.command)),
        ];
        let parameters = self.parameters.iter().map(|(name, value)| match value {
            Scalar::Number(value) => format!("{}: {}", json(name), number(*value)),
            Scalar::Text(text) => format!("{}: {}", json(name), json(text)),
        });
        fields.push(field("parameters", inline_object(parameters)));
        let seeds = self.seeds.iter().map(u64::to_string);
        fields.push(field("seeds", inline_list(seeds)));
        fields.push(field("machine", json(&self.machine)));
        let versions = self.versions.iter();
        let versions = versions.map(|(name, value)| format!("{}: {}", json(name), json(value)));
        fields.push(field("versions", inline_object(versions)));
        fields.push(field("date", json(&self.date)));
        fields.push(field("load", json(&self.load)));
        fields.push(field("kind", json(&self.kind)));
        if let Some(figure) = &self.figure {
            fields.push(field("figure", json(figure)));
        }
        if let Some(list) = &self.list {
            fields.push(field("list", json(list)));
        }
        if !self.only.is_empty() {
            fields.push(field("only", json(&self.only)));
        }
        if !self.rows_by.is_empty() {
            fields.push(field("rows_by", json(&self.rows_by)));
        }
        fields.push(field("columns", lines(self.columns.iter().map(json), 2)));
        let rows = self
            .rows
            .iter()
            .map(|row| inline_list(row.iter().map(cell)));
        fields.push(field("rows", lines(rows, 2)));
        fields.push(field("bars", lines(self.bars.iter().map(bar), 2)));
        fields.push(field("notes", lines(self.notes.iter().map(json), 2)));
        format!("{{\n  {}\n}}\n", fields.join(",\n  "))
    }
}

fn bar(bar: &BarRecord) -> String {
    let fields = [
        field("id", json(&bar.id)),
        field("claim", json(&bar.claim)),
        field("what", json(&bar.what)),
        field("figure", json(&bar.figure)),
        field("bar", json(&bar.bar)),
        field("met", json(&bar.met)),
        field("reason", json(&bar.reason)),
        field("tried", lines(bar.tried.iter().map(json), 6)),
    ];
    format!("{{\n      {}\n    }}", fields.join(",\n      "))
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Absent => "null".into(),
        Cell::Number(value) => number(*value),
        Cell::Text(text) => json(text),
        Cell::Spread(spread) => {
            let SpreadCell {
                value,
                low,
                high,
                plus_minus,
            } = *spread;
            let parts = [
                ("value", value),
                ("low", low),
                ("high", high),
                ("plus_minus", plus_minus),
            ];
            let parts = parts
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)));
            inline_object(parts.map(|(name, value)| format!("\"{name}\": {}", number(value))))
        }
    }
}

/// The shortest text that reads back as the same number, without an exponent.
fn number(value: f64) -> String {
    debug_assert!(value.is_finite(), "checked when the record was read");
    let text = format!("{value}");
    if text == "-0" { "0".into() } else { text }
}

fn field(name: &str, value: String) -> String {
    format!("\"{name}\": {value}")
}

fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("plain data has a JSON text")
}

fn inline_list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

fn inline_object(items: impl Iterator<Item = String>) -> String {
    format!("{{{}}}", items.collect::<Vec<_>>().join(", "))
}

/// A list with one item a line, for a field that is indented by `indent` blanks.
fn lines(items: impl Iterator<Item = String>, indent: usize) -> String {
    let items: Vec<_> = items.collect();
    if items.is_empty() {
        return "[]".into();
    }
    let (outer, inner) = (" ".repeat(indent), " ".repeat(indent + 2));
    format!("[\n{inner}{}\n{outer}]", items.join(&format!(",\n{inner}")))
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::example;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn text_reads_back_as_the_same_record(
            thousandths in proptest::collection::vec(-1_000_000_000i32..1_000_000_000, 1..20),
            label in "[a-z \"\\\\µ|]{0,12}",
        ) {
            let mut record = example();
            record.rows = thousandths
                .iter()
                .map(|&value| {
                    let value = f64::from(value) / 1000.0;
                    vec![Cell::Text(label.clone()), Cell::Number(value)]
                })
                .collect();
            let text = record.to_text();
            let again: ResultRecord = serde_json::from_str(&text).expect("valid JSON");
            prop_assert_eq!(&again, &record);
            prop_assert_eq!(again.to_text(), text);
        }
    }
}
