// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table in the engine's memory: batches of columns.

use crate::digest::RowDigest;
use crate::row::FleetRow;
use anyhow::{Result, ensure};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use std::sync::Arc;

/// The columns of the table: texts, then numbers, all of them optional.
pub fn schema() -> Schema {
    let texts = FleetRow::TEXTS.iter().map(|&name| (name, DataType::Utf8));
    let numbers = FleetRow::NUMBERS
        .iter()
        .map(|&name| (name, DataType::Int64));
    let field = |(name, kind)| Field::new(name, kind, true);
    Schema::new(texts.chain(numbers).map(field).collect::<Vec<_>>())
}

/// Rows as a batch.
///
/// # Errors
/// When the library refuses the data, which would be a mistake of this program.
pub fn of_rows(rows: &[FleetRow]) -> Result<RecordBatch> {
    let texts: Vec<_> = rows.iter().map(FleetRow::texts).collect();
    let numbers: Vec<_> = rows.iter().map(FleetRow::numbers).collect();
    let text = |at: usize| -> ArrayRef {
        Arc::new(texts.iter().map(|row| row[at]).collect::<StringArray>())
    };
    let number = |at: usize| -> ArrayRef {
        Arc::new(numbers.iter().map(|row| row[at]).collect::<Int64Array>())
    };
    let columns = (0..FleetRow::TEXTS.len()).map(text);
    let columns = columns.chain((0..FleetRow::NUMBERS.len()).map(number));
    Ok(RecordBatch::try_new(Arc::new(schema()), columns.collect())?)
}

/// A batch from a file with the columns of the table, by their names; others are left out.
///
/// # Errors
/// When a column is missing or of another type, or a number does not fit the table's.
pub fn conform(batch: &RecordBatch) -> Result<RecordBatch> {
    let schema = Arc::new(schema());
    let mut columns = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let Some(column) = batch.column_by_name(field.name()) else {
            anyhow::bail!("no column `{}`: not a table of a fleet", field.name());
        };
        let found = column.data_type();
        let same = match field.data_type() {
            DataType::Utf8 => found.is_string(),
            _ => found.is_integer(),
        };
        ensure!(same, "column `{}` is of type {found}", field.name());
        // A number beyond those of the table is an error, not a gap.
        let strict = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        columns.push(cast_with_options(column, field.data_type(), &strict)?);
    }
    Ok(RecordBatch::try_new(schema, columns)?)
}

/// Bytes of all texts of a batch that conforms.
pub fn text_bytes(batch: &RecordBatch) -> u64 {
    let texts = &batch.columns()[..FleetRow::TEXTS.len()];
    let bytes = |own: &ArrayRef| {
        let offsets = own.as_string::<i32>().offsets();
        offsets
            .last()
            .zip(offsets.first())
            .map(|(last, first)| last - first)
    };
    texts
        .iter()
        .filter_map(bytes)
        .map(|bytes| bytes as u64)
        .sum()
}

/// Adds the rows of a batch that conforms to a sum.
///
/// # Errors
/// When a text is longer than `longest_bytes`.
pub fn add_to<'a>(
    batch: &'a RecordBatch,
    longest_bytes: usize,
    digest: &mut RowDigest,
) -> Result<()> {
    let (texts, numbers) = batch.columns().split_at(FleetRow::TEXTS.len());
    let texts: Vec<_> = texts.iter().map(|own| own.as_string::<i32>()).collect();
    let numbers: Vec<_> = (numbers.iter())
        .map(|own| own.as_primitive::<Int64Type>())
        .collect();
    let mut buffer = Vec::new();
    for at in 0..batch.num_rows() {
        let text = |&own: &&'a StringArray| own.is_valid(at).then(|| own.value(at));
        let number = |own: &&Int64Array| own.is_valid(at).then(|| own.value(at));
        let longest = texts.iter().filter_map(text).map(str::len).max();
        ensure!(
            longest.is_none_or(|bytes| bytes <= longest_bytes),
            "a name of more than {longest_bytes} bytes"
        );
        digest.add_row(
            texts.iter().map(text),
            numbers.iter().map(number),
            &mut buffer,
        );
    }
    Ok(())
}
