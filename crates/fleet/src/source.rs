// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding scans: snapshots and Parquet files, many or large, made ready for an engine.

use crate::batch;
use crate::row::{FleetRow, Labels, rows};
use ample_host::snapshot;
use anyhow::{Context, Result, ensure};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use rayon::prelude::*;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// A file that does not count, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// Where it is.
    pub file: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// Files for an engine.
#[derive(Debug, Default)]
pub struct Sources {
    /// Parquet files that hold the table, those made by [`Sources::gather`] included.
    pub files: Vec<PathBuf>,
    /// What could not be used.
    pub unusable: Vec<Unusable>,
    /// Files that were read.
    pub read: usize,
}

/// Parquet files of at least this size are read where they lie; smaller ones are put together.
const LARGE_BYTES: u64 = 4 << 20;
/// Files that one thread reads before it hands over its rows.
const FILES_A_TASK: usize = 64;
/// Rows of a file that is put together.
const ROWS_A_FILE: usize = 4 << 20;

impl Sources {
    /// Makes everything below `paths` (files, or directories with what is below them) ready:
    /// snapshots and small Parquet files are put together into large ones in `workspace`.
    ///
    /// # Errors
    /// When a path does not exist, a directory cannot be listed, or the workspace not be written.
    pub fn gather(
        paths: &[PathBuf],
        workspace: &Path,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Sources> {
        let mut found = Sources::default();
        let mut small = Vec::new();
        for file in list(paths)? {
            match kind(&file) {
                Ok(Kind::LargeTable) => found.files.push(file),
                Ok(kind) => small.push((file, kind)),
                Err(error) => found.skip(file, &error),
            }
        }
        let all = small.len();
        let mut writer = Merged::new(workspace);
        for tasks in small.chunks(FILES_A_TASK * 2 * rayon::current_num_threads()) {
            let done: Vec<_> = tasks.par_chunks(FILES_A_TASK).map(read_some).collect();
            for (batch, unusable) in done {
                found.unusable.extend(unusable);
                if let Some(batch) = batch? {
                    writer.push(&batch)?;
                }
            }
            found.read += tasks.len();
            progress(found.read, all);
        }
        found.read += found.files.len();
        found.files.extend(writer.finish()?);
        Ok(found)
    }

    fn skip(&mut self, file: PathBuf, error: &anyhow::Error) {
        let reason = format!("{error:#}");
        self.unusable.push(Unusable { file, reason });
    }

    /// Reads every file to its end and sets aside those that cannot be read, after an engine
    /// failed over one of them; how many there were.
    pub fn set_broken_aside(&mut self) -> usize {
        let files = std::mem::take(&mut self.files);
        let read = |file: &PathBuf| read_table(file, &mut |_| Ok(()));
        let checked: Vec<_> = files.par_iter().map(read).collect();
        let before = self.unusable.len();
        for (file, result) in files.into_iter().zip(checked) {
            match result {
                Ok(()) => self.files.push(file),
                Err(error) => self.skip(file, &error),
            }
        }
        self.unusable.len() - before
    }
}

/// All files below the paths, sorted, each once.
fn list(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut left = paths.to_vec();
    while let Some(path) = left.pop() {
        let about = || format!("cannot read {}", path.display());
        if std::fs::metadata(&path).with_context(about)?.is_dir() {
            for entry in std::fs::read_dir(&path).with_context(about)? {
                let entry = entry.with_context(about)?;
                let name = entry.file_name();
                let hidden = name.to_string_lossy().starts_with('.');
                if !hidden && (entry.path().is_dir() || entry.path().is_file()) {
                    left.push(entry.path());
                }
            }
        } else {
            files.push(path);
        }
    }
    files.sort();
    files.dedup();
    Ok(files)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Snapshot,
    SmallTable,
    LargeTable,
}

/// What a file is; a large table has been opened, so that its columns are those of the table.
fn kind(file: &Path) -> Result<Kind> {
    if file.extension().is_none_or(|ending| ending != "parquet") {
        return Ok(Kind::Snapshot);
    }
    if std::fs::metadata(file)?.len() < LARGE_BYTES {
        return Ok(Kind::SmallTable);
    }
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(file)?)?;
    batch::conform(&RecordBatch::new_empty(builder.schema().clone()))?;
    Ok(Kind::LargeTable)
}

type Read = (Result<Option<RecordBatch>>, Vec<Unusable>);

/// The rows of some files.
fn read_some(files: &[(PathBuf, Kind)]) -> Read {
    let mut batches = Vec::new();
    let mut unusable = Vec::new();
    for (file, kind) in files {
        let mut own = Vec::new();
        let result = match kind {
            Kind::Snapshot => snapshot_rows(file)
                .and_then(|rows| batch::of_rows(&rows))
                .map(|batch| own.push(batch)),
            _ => read_table(file, &mut |batch| {
                own.push(batch);
                Ok(())
            }),
        };
        match result {
            Ok(()) => batches.extend(own),
            Err(error) => unusable.push(Unusable {
                file: file.clone(),
                reason: format!("{error:#}"),
            }),
        }
    }
    let together = (!batches.is_empty())
        .then(|| concat_batches(&Arc::new(batch::schema()), &batches).map_err(Into::into));
    (together.transpose(), unusable)
}

/// The rows of every snapshot below the paths, each on its own; other files are left out.
///
/// # Errors
/// When a path does not exist, or a directory cannot be listed.
pub fn scans(paths: &[PathBuf]) -> Result<Vec<Vec<FleetRow>>> {
    let files = list(paths)?;
    Ok(files
        .par_iter()
        .filter_map(|file| snapshot_rows(file).ok())
        .collect())
}

/// A snapshot; one without a host name has the name of its file, one without a time the file's.
fn snapshot_rows(file: &Path) -> Result<Vec<FleetRow>> {
    let mut scan = snapshot::read(file)?;
    if scan.meta.hostname.is_none() {
        let name = file.file_stem().map(|name| name.to_string_lossy().into());
        scan.meta.hostname = name;
    }
    if scan.meta.unix_time_seconds.is_none() {
        let changed = std::fs::metadata(file)?.modified()?;
        let since = changed.duration_since(UNIX_EPOCH).ok();
        scan.meta.unix_time_seconds = since.map(|since| since.as_secs());
    }
    Ok(rows(&mut scan, &Labels::default()))
}

/// Hands the batches of a Parquet file to `sink`.
fn read_table(file: &Path, sink: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(file)?)?;
    ensure!(reader.metadata().num_row_groups() > 0, "holds no scan");
    for batch in reader.build()? {
        sink(batch::conform(&batch?)?)?;
    }
    Ok(())
}

/// Parquet files that grow until they are large.
pub(crate) struct Merged<'a> {
    folder: &'a Path,
    open: Option<(ArrowWriter<File>, usize)>,
    files: Vec<PathBuf>,
}

impl<'a> Merged<'a> {
    pub(crate) fn new(folder: &'a Path) -> Merged<'a> {
        Merged {
            folder,
            open: None,
            files: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let (mut writer, rows) = match self.open.take() {
            Some(open) => open,
            None => {
                let path = self
                    .folder
                    .join(format!("fleet-{:05}.parquet", self.files.len()));
                let file = File::create(&path)
                    .with_context(|| format!("cannot write {}", path.display()))?;
                self.files.push(path);
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(ZstdLevel::default()))
                    .set_max_row_group_row_count(Some(1 << 17))
                    .build();
                let schema = Arc::new(batch::schema());
                (ArrowWriter::try_new(file, schema, Some(properties))?, 0)
            }
        };
        writer.write(batch)?;
        let rows = rows + batch.num_rows();
        if rows < ROWS_A_FILE {
            self.open = Some((writer, rows));
        } else {
            writer.close()?;
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<Vec<PathBuf>> {
        if let Some((writer, _)) = self.open.take() {
            writer.close()?;
        }
        Ok(self.files)
    }
}
