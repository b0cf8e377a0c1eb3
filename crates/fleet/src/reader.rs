// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading one Parquet file, whoever wrote it.

use crate::batch;
use crate::digest::{DIGEST_KEY, RowDigest};
use crate::row::LONGEST_TEXT_BYTES;
use anyhow::{Context, Result, bail, ensure};
use arrow::array::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::reader::ChunkReader;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

/// A table holds at most so many rows for each of its bytes. Writers start a page at least every
/// twenty thousand rows, of each of the columns, so that the most even table has some 30.
const ROWS_A_BYTE: u64 = 64;
/// All texts of a row, in the mean over a file, unless the file itself is large for them.
const TEXT_BYTES_A_ROW: u64 = 512;
const TEXT_BYTES_A_BYTE: u64 = 16;
/// A file of fewer bytes than a table is read where it lies gives no more memory than this.
const UNPACKED_BYTES: u64 = 1 << 30;

/// A Parquet file that is a table of a fleet, as far as its footer tells.
pub struct TableFile<R: ChunkReader + 'static> {
    builder: ParquetRecordBatchReaderBuilder<R>,
    /// Rows in all.
    pub rows: u64,
    /// Length of the file: what is packed in it may be larger by so much.
    bytes: u64,
    digest: Option<String>,
}

impl<R: ChunkReader + 'static> TableFile<R> {
    /// Opens it.
    ///
    /// # Errors
    /// When it is no Parquet, no table of a fleet, holds nothing, or claims what its size does not
    /// allow.
    pub fn open(input: R) -> Result<TableFile<R>> {
        let bytes = input.len();
        let opened = guarded(|| Ok(ParquetRecordBatchReaderBuilder::try_new(input)?))?;
        batch::conform(&RecordBatch::new_empty(opened.schema().clone()))?;
        let own = |&at: &usize| {
            let column = opened.parquet_schema().column(at);
            FIELDS.iter().any(|names| names.contains(&column.name()))
        };
        let columns: Vec<usize> = (0..opened.parquet_schema().num_columns())
            .filter(own)
            .collect();
        let mut rows = 0u64;
        let mut unpacked = 0u64;
        for group in opened.metadata().row_groups() {
            rows = rows.saturating_add(u64::try_from(group.num_rows())?);
            for &at in &columns {
                let size = u64::try_from(group.column(at).uncompressed_size())?;
                unpacked = unpacked.saturating_add(size);
            }
        }
        ensure!(rows > 0, "holds no scan");
        ensure!(
            rows <= bytes.saturating_mul(ROWS_A_BYTE),
            "claims {rows} rows in {bytes} bytes"
        );
        ensure!(
            unpacked <= UNPACKED_BYTES.max(bytes.saturating_mul(ROWS_A_BYTE)),
            "claims {unpacked} bytes in {bytes} bytes"
        );
        let about = opened.metadata().file_metadata();
        let digest = about.key_value_metadata().and_then(|pairs| {
            let own = pairs.iter().find(|pair| pair.key == DIGEST_KEY);
            own.and_then(|pair| pair.value.clone())
        });
        ensure!(
            digest.is_some() || !about.created_by().is_some_and(is_ours),
            "damaged: the sum of its values is not there"
        );
        let mask = ProjectionMask::leaves(opened.parquet_schema(), columns);
        Ok(TableFile {
            builder: opened.with_projection(mask),
            rows,
            bytes,
            digest,
        })
    }

    /// Hands all its rows to `sink`, batch by batch, and compares their sum with that of the file,
    /// if it has one.
    ///
    /// # Errors
    /// When the file breaks off, is not what was written, or the sink fails; what the sink was
    /// given then does not count.
    pub fn read(self, sink: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<RowDigest> {
        let (wanted, said) = (self.digest, self.rows);
        let reader = guarded(|| Ok(self.builder.build()?));
        let mut reader = reader?;
        let mut digest = RowDigest::default();
        let (mut found, mut texts) = (0, 0);
        while let Some(batch) = guarded(|| Ok(reader.next().transpose()?))? {
            let batch = batch::conform(&batch)?;
            batch::add_to(&batch, LONGEST_TEXT_BYTES, &mut digest)?;
            found += batch.num_rows() as u64;
            texts += batch::text_bytes(&batch);
            // A name that is there once may be unpacked a hundred thousand times.
            let most = (found + LONGEST_TEXT_BYTES as u64) * TEXT_BYTES_A_ROW;
            ensure!(
                texts <= most.max(self.bytes.saturating_mul(TEXT_BYTES_A_BYTE)),
                "holds names of {texts} bytes in {found} rows"
            );
            sink(batch)?;
        }
        ensure!(
            found == said,
            "damaged: it holds {found} rows and says {said}"
        );
        if let Some(wanted) = wanted {
            ensure!(
                digest.to_string() == wanted,
                "damaged: its values are not those that were written"
            );
        }
        Ok(digest)
    }
}

/// Whether the file of a writer must have a sum.
fn is_ours(writer: &str) -> bool {
    writer.starts_with("ample-fleet ")
}

const FIELDS: [&[&str]; 2] = [crate::row::FleetRow::TEXTS, crate::row::FleetRow::NUMBERS];

thread_local! {
    /// Whether this thread is in the library, where a panic is an answer.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Work in the library, which may panic over a file that was made to break it. Such a panic is told
/// as an error alone.
fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let told = take_hook();
        set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                told(panic);
            }
        }));
    });
    GUARDED.set(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(false);
    match done {
        Ok(result) => result,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied());
            bail!("malformed: {}", text.context("the reader stopped")?)
        }
    }
}
