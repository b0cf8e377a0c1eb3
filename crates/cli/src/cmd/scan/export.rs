// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text formats for machines: JSON and CSV.

use super::rows::rows;
use super::view::View;
use ample_pfn::Definition;
use serde::Serialize;
use std::fmt::{Display, Write};

/// One JSON object, indented, with a final newline.
///
/// # Errors
/// Never in practice: the values hold no map with keys that JSON lacks.
pub fn json<T: Serialize>(value: &T) -> anyhow::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(value)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// A header and one line a value; empty cells are absent.
pub fn csv(view: &View) -> Vec<u8> {
    let mut text = String::from("node,zone,metric,definition,size_bytes,kind,low,high\n");
    for row in rows(view) {
        let cells = [
            cell(row.node),
            cell(row.zone.as_deref()),
            cell(Some(row.metric)),
            cell(row.definition.map(Definition::name)),
            cell(row.size_bytes),
            cell(row.kind.as_deref()),
            cell(row.low),
            cell(row.high),
        ];
        let _ = writeln!(text, "{}", cells.join(","));
    }
    text.into_bytes()
}

/// A cell, quoted where RFC 4180 asks for it.
fn cell<T: Display>(value: Option<T>) -> String {
    let text = value.map_or(String::new(), |value| value.to_string());
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::cell;

    #[test]
    fn cells_are_quoted_only_where_needed() {
        assert_eq!(cell(Some("Normal")), "Normal");
        assert_eq!(cell(Some("a,\"b\"")), "\"a,\"\"b\"\"\"");
        assert_eq!(cell(None::<u64>), "");
        assert_eq!(cell(Some(0.5)), "0.5");
    }
}
