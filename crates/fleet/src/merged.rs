// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parquet files that grow until they are large.

use crate::batch;
use crate::digest::{DIGEST_KEY, RowDigest, WRITER};
use anyhow::{Context, Result};
use arrow::array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows of a file that is put together.
const ROWS_A_FILE: usize = 4 << 20;

/// The file that is written, and those before it.
pub(crate) struct Merged<'a> {
    folder: &'a Path,
    open: Option<Growing>,
    files: Vec<PathBuf>,
}

struct Growing {
    path: PathBuf,
    writer: ArrowWriter<File>,
    rows: usize,
    digest: RowDigest,
}

impl Growing {
    fn close(mut self) -> Result<()> {
        let digest = KeyValue::new(DIGEST_KEY.to_string(), self.digest.to_string());
        self.writer.append_key_value_metadata(digest);
        let about = || format!("cannot write {}", self.path.display());
        self.writer.close().with_context(about)?;
        Ok(())
    }
}

/// Files of a merge that did not come to its end would be taken for the whole.
impl Drop for Merged<'_> {
    fn drop(&mut self) {
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
    }
}

impl<'a> Merged<'a> {
    pub(crate) fn new(folder: &'a Path) -> Merged<'a> {
        Merged {
            folder,
            open: None,
            files: Vec::new(),
        }
    }

    /// Adds rows whose sum is known.
    pub(crate) fn push(&mut self, batch: &RecordBatch, digest: RowDigest) -> Result<()> {
        let mut growing = match self.open.take() {
            Some(open) => open,
            None => self.start()?,
        };
        let about = || format!("cannot write {}", growing.path.display());
        growing.writer.write(batch).with_context(about)?;
        growing.rows += batch.num_rows();
        growing.digest = growing.digest.and(digest);
        if growing.rows < ROWS_A_FILE {
            self.open = Some(growing);
            return Ok(());
        }
        growing.close()
    }

    fn start(&mut self) -> Result<Growing> {
        let name = format!("fleet-{:05}.parquet", self.files.len());
        let path = self.folder.join(name);
        let file =
            File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        self.files.push(path.clone());
        let properties = WriterProperties::builder()
            .set_created_by(WRITER.to_string())
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(1 << 17))
            .build();
        let schema = Arc::new(batch::schema());
        Ok(Growing {
            path,
            writer: ArrowWriter::try_new(file, schema, Some(properties))?,
            rows: 0,
            digest: RowDigest::default(),
        })
    }

    pub(crate) fn finish(mut self) -> Result<Vec<PathBuf>> {
        if let Some(growing) = self.open.take() {
            growing.close()?;
        }
        Ok(std::mem::take(&mut self.files))
    }
}
