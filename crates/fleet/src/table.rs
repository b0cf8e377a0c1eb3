// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table as Apache Parquet.

use crate::digest::{DIGEST_KEY, RowDigest, WRITER};
use crate::row::FleetRow;
use anyhow::Result;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::fmt::Write;
use std::sync::Arc;

/// The schema in the notation of Parquet: texts, then numbers, all of them optional.
fn schema() -> String {
    let mut text = String::from("message fleet {\n");
    for name in FleetRow::TEXTS {
        let _ = writeln!(text, "    optional binary {name} (UTF8);");
    }
    for name in FleetRow::NUMBERS {
        let _ = writeln!(text, "    optional int64 {name};");
    }
    text + "}"
}

/// The table as a file; each of `groups` becomes one row group, empty ones none.
///
/// # Errors
/// When the library refuses the data, which would be a mistake of this program.
pub fn encode(groups: &[Vec<FleetRow>]) -> Result<Vec<u8>> {
    let schema = Arc::new(parse_message_type(&schema())?);
    let digest = (groups.iter()).fold(RowDigest::default(), |sum, rows| {
        sum.and(RowDigest::of(rows))
    });
    let digest = KeyValue::new(DIGEST_KEY.to_string(), digest.to_string());
    let properties = WriterProperties::builder()
        .set_created_by(WRITER.to_string())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(Some(vec![digest]))
        .build();
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    for rows in groups.iter().filter(|rows| !rows.is_empty()) {
        let mut group = file.next_row_group()?;
        let texts: Vec<_> = rows.iter().map(FleetRow::texts).collect();
        for at in 0..FleetRow::TEXTS.len() {
            let values = texts.iter().map(|row| row[at].map(ByteArray::from));
            column::<ByteArrayType>(&mut group, values.collect())?;
        }
        let numbers: Vec<_> = rows.iter().map(FleetRow::numbers).collect();
        for at in 0..FleetRow::NUMBERS.len() {
            column::<Int64Type>(&mut group, numbers.iter().map(|row| row[at]).collect())?;
        }
        group.close()?;
    }
    Ok(file.into_inner()?)
}

type Group<'a> = SerializedRowGroupWriter<'a, Vec<u8>>;

fn column<T: DataType>(group: &mut Group<'_>, values: Vec<Option<T::T>>) -> Result<()> {
    let Some(mut column) = group.next_column()? else {
        anyhow::bail!("the schema has fewer columns than the row");
    };
    let levels: Vec<i16> = values.iter().map(|value| value.is_some().into()).collect();
    let present: Vec<T::T> = values.into_iter().flatten().collect();
    column
        .typed::<T>()
        .write_batch(&present, Some(&levels), None)?;
    Ok(column.close()?)
}
