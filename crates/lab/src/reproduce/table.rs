// SPDX-License-Identifier: MIT OR Apache-2.0
//! All values of a run in one long table.

use super::page::Contents;
use crate::claims::JudgedClaim;
use crate::rows::Rows;
use anyhow::{Context, Result};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use serde_json::{Value, json};
use std::sync::Arc;

/// One line a cell: the claims' checks as experiment `claims`, then every list of every result.
/// A number is in `number`, a truth value is 0 or 1 there, anything else in `text`.
const SCHEMA: &str = "message results {
    required binary experiment (UTF8);
    required binary table (UTF8);
    required int64 row;
    required binary column (UTF8);
    optional double number;
    optional binary text (UTF8);
}";

/// The checks of all claims as rows.
fn claim_rows(claims: &[JudgedClaim]) -> Rows {
    let columns = [
        "claim",
        "value",
        "paper",
        "here",
        "unit",
        "rule",
        "verdict",
        "fitted",
        "experiment",
    ];
    let mut rows = Vec::new();
    for claim in claims {
        for check in &claim.checks {
            let here = match check.here[..] {
                [one] => json!(one),
                [] => Value::Null,
                _ => json!(check.here_text()),
            };
            rows.push(vec![
                json!(claim.id),
                json!(check.name),
                json!(check.paper),
                here,
                json!(check.unit),
                json!(check.rule),
                json!(check.verdict),
                json!(check.fitted),
                json!(check.experiment),
            ]);
        }
        if claim.checks.is_empty() {
            let mut row = vec![Value::Null; columns.len()];
            row[0] = json!(claim.id);
            row[6] = json!(claim.verdict);
            rows.push(row);
        }
    }
    Rows {
        name: "checks".into(),
        columns: columns.map(String::from).to_vec(),
        rows,
    }
}

/// The checks of all claims as CSV.
pub(super) fn claims_csv(claims: &[JudgedClaim]) -> String {
    claim_rows(claims).to_csv()
}

#[derive(Default)]
struct Columns {
    experiment: Vec<ByteArray>,
    table: Vec<ByteArray>,
    row: Vec<i64>,
    column: Vec<ByteArray>,
    number: Vec<Option<f64>>,
    text: Vec<Option<ByteArray>>,
}

impl Columns {
    fn push(&mut self, experiment: &str, rows: &Rows) {
        for (at, row) in rows.rows.iter().enumerate() {
            debug_assert_eq!(row.len(), rows.columns.len());
            for (column, value) in rows.columns.iter().zip(row) {
                let (number, text) = match value {
                    Value::Null => continue,
                    Value::Bool(is) => (Some(f64::from(u8::from(*is))), None),
                    Value::Number(number) => (number.as_f64(), None),
                    Value::String(text) => (None, Some(ByteArray::from(text.as_str()))),
                    other => (None, Some(ByteArray::from(other.to_string().as_str()))),
                };
                self.experiment.push(ByteArray::from(experiment));
                self.table.push(ByteArray::from(rows.name.as_str()));
                self.row.push(at as i64);
                self.column.push(ByteArray::from(column.as_str()));
                self.number.push(number);
                self.text.push(text);
            }
        }
    }
}

/// `results.parquet` as bytes.
///
/// # Errors
/// When the library refuses the data, which would be a mistake of this program.
pub(super) fn parquet(contents: &Contents<'_>) -> Result<Vec<u8>> {
    let mut columns = Columns::default();
    columns.push("claims", &claim_rows(contents.claims));
    for (_, done) in contents.done {
        for rows in done.finished().iter().flat_map(|finished| &finished.rows) {
            columns.push(&done.id, rows);
        }
    }
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build();
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    required::<ByteArrayType>(&mut group, &columns.experiment)?;
    required::<ByteArrayType>(&mut group, &columns.table)?;
    required::<Int64Type>(&mut group, &columns.row)?;
    required::<ByteArrayType>(&mut group, &columns.column)?;
    optional::<DoubleType>(&mut group, columns.number)?;
    optional::<ByteArrayType>(&mut group, columns.text)?;
    group.close()?;
    Ok(file.into_inner()?)
}

type Group<'a> = SerializedRowGroupWriter<'a, Vec<u8>>;

fn required<T: DataType>(group: &mut Group<'_>, values: &[T::T]) -> Result<()> {
    write::<T>(group, values, None)
}

fn optional<T: DataType>(group: &mut Group<'_>, cells: Vec<Option<T::T>>) -> Result<()> {
    let levels: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
    let values: Vec<T::T> = cells.into_iter().flatten().collect();
    write::<T>(group, &values, Some(&levels))
}

fn write<T: DataType>(
    group: &mut Group<'_>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<()> {
    let mut writer = group.next_column()?.context("the schema has six columns")?;
    writer.typed::<T>().write_batch(values, levels, None)?;
    writer.close()?;
    Ok(())
}
