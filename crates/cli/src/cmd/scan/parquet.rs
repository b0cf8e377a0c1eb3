// SPDX-License-Identifier: MIT OR Apache-2.0
//! The long table as Apache Parquet, with what identifies the scan repeated in each row, so that
//! files of many hosts can be read as one table.

use super::rows::{MetricRow, rows};
use super::view::View;
use ample_pfn::Definition;
use anyhow::Context;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::sync::Arc;

const SCHEMA: &str = "message scan {
    optional binary hostname (UTF8);
    optional binary kernel (UTF8);
    optional binary reader (UTF8);
    optional int64 unix_time_seconds;
    optional int64 uptime_seconds;
    optional int64 node;
    optional binary zone (UTF8);
    optional binary metric (UTF8);
    optional binary definition (UTF8);
    optional int64 size_bytes;
    optional binary kind (UTF8);
    optional double low;
    optional double high;
}";

type Group<'a> = SerializedRowGroupWriter<'a, Vec<u8>>;

/// The file as bytes.
///
/// # Errors
/// When the library refuses the data, which would be a mistake of this program.
pub fn encode(view: &View) -> anyhow::Result<Vec<u8>> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build();
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let rows = rows(view);
    let mut group = file.next_row_group()?;
    let same = |text: Option<&str>| rows.iter().map(|_| bytes(text)).collect::<Vec<_>>();
    let time = |value: Option<u64>| rows.iter().map(|_| integer(value)).collect::<Vec<_>>();
    column::<ByteArrayType>(&mut group, same(view.hostname.as_deref()))?;
    column::<ByteArrayType>(&mut group, same(Some(&view.kernel)))?;
    column::<ByteArrayType>(&mut group, same(Some(&view.reader)))?;
    column::<Int64Type>(&mut group, time(view.unix_time_seconds))?;
    column::<Int64Type>(&mut group, time(view.uptime_seconds))?;
    column::<Int64Type>(&mut group, pick(&rows, |row| row.node.map(i64::from)))?;
    column::<ByteArrayType>(&mut group, pick(&rows, |row| bytes(row.zone.as_deref())))?;
    column::<ByteArrayType>(&mut group, pick(&rows, |row| bytes(Some(&row.metric))))?;
    column::<ByteArrayType>(
        &mut group,
        pick(&rows, |row| bytes(row.definition.map(Definition::name))),
    )?;
    column::<Int64Type>(&mut group, pick(&rows, |row| integer(row.size_bytes)))?;
    column::<ByteArrayType>(&mut group, pick(&rows, |row| bytes(row.kind.as_deref())))?;
    column::<DoubleType>(&mut group, pick(&rows, |row| row.low))?;
    column::<DoubleType>(&mut group, pick(&rows, |row| row.high))?;
    group.close()?;
    Ok(file.into_inner()?)
}

fn bytes(text: Option<&str>) -> Option<ByteArray> {
    text.map(ByteArray::from)
}

fn integer(value: Option<u64>) -> Option<i64> {
    value.and_then(|value| i64::try_from(value).ok())
}

fn pick<T>(rows: &[MetricRow], value: impl Fn(&MetricRow) -> Option<T>) -> Vec<Option<T>> {
    rows.iter().map(value).collect()
}

/// Writes the next column: present values, and a level of 1 or 0 for each row.
fn column<T: DataType>(group: &mut Group<'_>, cells: Vec<Option<T::T>>) -> anyhow::Result<()> {
    let levels: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
    let values: Vec<T::T> = cells.into_iter().flatten().collect();
    let mut writer = group
        .next_column()?
        .context("the schema has one column per call")?;
    writer
        .typed::<T>()
        .write_batch(&values, Some(&levels), None)?;
    writer.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ample_host::ZoneCounters;
    use ample_pfn::SizeList;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    #[test]
    fn what_is_written_can_be_read() {
        let zone = ZoneCounters {
            free_blocks: vec![1; 11],
            ..ZoneCounters::default()
        };
        let view = View::of_free_lists(vec![zone], "6.12".into(), &SizeList::standard());
        let file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut &file, &encode(&view).unwrap()).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let rows: Vec<_> = reader
            .get_row_iter(None)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(rows.len(), super::rows(&view).len());
        assert!(
            rows[0].to_string().contains("kernel: \"6.12\""),
            "{}",
            rows[0]
        );
    }
}
