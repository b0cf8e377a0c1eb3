// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading one table: what is damaged is refused, what claims too much too, nothing panics.
#![cfg(feature = "reader")]

use ample_fleet::{FleetRow, RowDigest, TableFile, encode};
use anyhow::Result;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt64Array, new_null_array};
use arrow::datatypes::{DataType, Field, Schema};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use std::sync::Arc;

fn rows() -> Vec<FleetRow> {
    let row = |number: i64| FleetRow {
        kind: Some("size".into()),
        host: Some(format!("host{number}")),
        kernel: Some("6.12.1".into()),
        schema_version: Some(2),
        blocks: Some(1000 + number * number),
        unmovable_blocks_high: (number % 2 == 0).then_some(number),
        ..FleetRow::default()
    };
    (0..20).map(row).collect()
}

fn read(bytes: Vec<u8>) -> Result<(RowDigest, u64)> {
    let table = TableFile::open(Bytes::from(bytes))?;
    let (said, mut rows) = (table.rows, 0);
    let digest = table.read(&mut |batch| {
        rows += batch.num_rows() as u64;
        Ok(())
    })?;
    assert_eq!(rows, said, "rows handed on, and said at first");
    Ok((digest, rows))
}

#[test]
fn what_is_written_is_read() {
    let groups: Vec<_> = rows().chunks(7).map(<[FleetRow]>::to_vec).collect();
    let read = read(encode(&groups).unwrap()).unwrap();
    assert_eq!(read, (RowDigest::of(&rows()), 20));
}

/// However a byte is changed, the table is refused or says what it said.
#[test]
fn a_damaged_table_is_refused_or_the_same() {
    let whole = encode(&[rows()]).unwrap();
    let wanted = (RowDigest::of(&rows()), 20);
    let mut refused = 0;
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        match read(damaged) {
            Ok(read) => assert_eq!(read, wanted, "byte {at}"),
            Err(_) => refused += 1,
        }
    }
    // Its end, which counts rows, at every bit.
    for bit in 0..8 * 256 {
        let mut damaged = whole.clone();
        let at = whole.len() - 1 - bit / 8;
        damaged[at] ^= 1 << (bit % 8);
        if let Ok(read) = read(damaged) {
            assert_eq!(read, wanted, "bit {bit} from the end");
        }
    }
    // The rest are bytes that say nothing of the rows: names of the writer, statistics.
    let all = whole.len();
    assert!(refused * 3 > all, "{refused} of {all} are noticed");
}

/// One of ours whose sum cannot be found is damaged; a table of another writer has none.
#[test]
fn our_table_without_its_sum_is_refused() {
    let mut damaged = encode(&[rows()]).unwrap();
    let key = b"ample.digest";
    let at = damaged.windows(key.len()).position(|part| part == key);
    damaged[at.unwrap()] ^= 1;
    let told = read(damaged).unwrap_err().to_string();
    assert_eq!(told, "damaged: the sum of its values is not there");
    assert!(read(written(columns(None, 2), 1)).is_ok());
}

#[test]
fn a_table_that_breaks_off_is_refused_at_any_byte() {
    let whole = encode(&[rows()]).unwrap();
    for length in 0..whole.len() {
        assert!(
            read(whole[..length].to_vec()).is_err(),
            "{length} of {}",
            whole.len()
        );
    }
}

/// Columns of a table, with something in place of the last.
fn columns(last: Option<(&str, ArrayRef)>, length: usize) -> Vec<(String, ArrayRef)> {
    let texts = FleetRow::TEXTS.iter().map(|name| (*name, DataType::Utf8));
    let numbers = FleetRow::NUMBERS
        .iter()
        .map(|name| (*name, DataType::Int64));
    let null = |(name, kind): (&str, DataType)| (name.to_string(), new_null_array(&kind, length));
    let mut all: Vec<_> = texts.chain(numbers).map(null).collect();
    if let Some((name, array)) = last {
        *all.last_mut().unwrap() = (name.to_string(), array);
    }
    all
}

fn written(columns: Vec<(String, ArrayRef)>, times: usize) -> Vec<u8> {
    let field =
        |(name, array): &(String, ArrayRef)| Field::new(name, array.data_type().clone(), true);
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    let batch = RecordBatch::try_new(schema.clone(), arrays).unwrap();
    let properties = WriterProperties::builder()
        .set_data_page_row_count_limit(usize::MAX)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties)).unwrap();
    for _ in 0..times {
        writer.write(&batch).unwrap();
    }
    writer.into_inner().unwrap()
}

#[test]
fn a_file_that_is_another_table_says_which_column_is_wrong() {
    let told = |bytes| read(bytes).unwrap_err().to_string();
    let number: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["1", "2"]));
    let name = *FleetRow::NUMBERS.last().unwrap();
    assert_eq!(
        read(written(columns(Some((name, number.clone())), 2), 1))
            .unwrap()
            .1,
        2
    );
    let other = told(written(columns(Some(("elsewhere", number)), 2), 1));
    assert!(other.contains(&format!("no column `{name}`")), "{other}");
    let kind = told(written(columns(Some((name, text)), 2), 1));
    assert!(
        kind.contains(&format!("column `{name}` is of type Utf8")),
        "{kind}"
    );
    assert!(told(encode(&[]).unwrap()).contains("holds no scan"));
    assert!(read(Vec::new()).is_err() && read(b"PAR1PAR1".to_vec()).is_err());
}

#[test]
fn a_number_beyond_the_table_is_refused() {
    let name = *FleetRow::NUMBERS.last().unwrap();
    let most: ArrayRef = Arc::new(UInt64Array::from(vec![1, u64::MAX]));
    assert!(read(written(columns(Some((name, most)), 2), 1)).is_err());
    let fits: ArrayRef = Arc::new(UInt64Array::from(vec![1, 2]));
    assert!(read(written(columns(Some((name, fits)), 2), 1)).is_ok());
}

/// A name is there once in the file and in every row of the table.
#[test]
fn one_long_name_does_not_become_gigabytes() {
    let rows = 200_000;
    let name: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(4096); 1000]));
    let mut with_name = columns(None, 1000);
    with_name[3].1 = name;
    let bomb = written(with_name, rows / 1000);
    assert!(bomb.len() < 200_000, "{} bytes", bomb.len());
    let told = read(bomb).unwrap_err().to_string();
    assert!(told.contains("holds names of"), "{told}");
}

#[test]
fn a_few_bytes_do_not_become_millions_of_rows() {
    let bomb = written(columns(None, 1 << 17), 16);
    assert!(bomb.len() < 20_000, "{} bytes", bomb.len());
    let told = read(bomb).unwrap_err().to_string();
    assert!(told.contains("claims 2097152 rows in"), "{told}");
    let long: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(5000)]));
    let mut with_long = columns(None, 1);
    with_long[3].1 = long;
    let told = read(written(with_long, 1)).unwrap_err().to_string();
    assert!(told.contains("a name of more than 4096 bytes"), "{told}");
}
