// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans made ready for an engine: snapshots and Parquet files, many or large.

use crate::batch;
use crate::digest::RowDigest;
use crate::merged::Merged;
use crate::place::{files_of, list};
use crate::reader::TableFile;
use crate::row::{FleetRow, Labels, rows};
use ample_host::{Scan, snapshot};
use anyhow::Result;
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use bytes::Bytes;
use rayon::prelude::*;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// A file that does not count, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// The file, or the address of an object that it was.
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
    /// Files that were looked at.
    pub read: usize,
}

/// Parquet files of at least this size are read where they lie; smaller ones are put together.
const LARGE_BYTES: u64 = 4 << 20;
/// Those of more rows too, however small.
const LARGE_ROWS: u64 = 1 << 18;
/// Files that one thread reads before it hands over its rows.
const FILES_A_TASK: usize = 64;

/// Told how many files of how many are done.
pub type FilesProgress<'a> = &'a (dyn Fn(usize, usize) + Sync);

impl Sources {
    /// Makes everything that `sources` name ready: files, directories with what is below them, and
    /// patterns. Snapshots and small Parquet files are put together into large ones in `workspace`.
    ///
    /// # Errors
    /// When a source does not exist, a directory cannot be listed, or the workspace not be written.
    pub fn gather(
        sources: &[PathBuf],
        workspace: &Path,
        progress: FilesProgress<'_>,
    ) -> Result<Sources> {
        let files = files_of(sources)?;
        let mut gathering = Gathering {
            found: Sources::default(),
            writer: Merged::new(workspace),
            of: files.len(),
            progress,
        };
        gathering.files(files)?;
        let mut found = gathering.found;
        found.files.extend(gathering.writer.finish()?);
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
        let checked: Vec<_> = files.par_iter().map(|file| whole_table(file)).collect();
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

/// What is found, on the way.
struct Gathering<'a> {
    found: Sources,
    writer: Merged<'a>,
    of: usize,
    progress: FilesProgress<'a>,
}

impl Gathering<'_> {
    fn files(&mut self, files: Vec<PathBuf>) -> Result<()> {
        let mut small = Vec::new();
        for file in files {
            match kind(&file) {
                Ok(Kind::LargeTable) => self.found.files.push(file),
                Ok(_) => {
                    small.push(file);
                    continue;
                }
                Err(error) => self.found.skip(file, &error),
            }
            self.done(1);
        }
        for some in small.chunks(FILES_A_TASK * 2 * rayon::current_num_threads()) {
            self.put_together(some)?;
            self.done(some.len());
        }
        Ok(())
    }

    fn done(&mut self, files: usize) {
        self.found.read += files;
        (self.progress)(self.found.read, self.of);
    }

    /// Adds small files to the large ones of the workspace.
    fn put_together(&mut self, some: &[PathBuf]) -> Result<()> {
        let done: Vec<_> = some.par_chunks(FILES_A_TASK).map(read_some).collect();
        for taken in done {
            self.found.unusable.extend(taken.unusable);
            if let Some(batch) = taken.batch? {
                self.writer.push(&batch, taken.digest)?;
            }
            self.found.files.extend(taken.large.into_iter().cloned());
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Snapshot,
    SmallTable,
    LargeTable,
}

fn is_table(name: &Path) -> bool {
    name.extension().is_some_and(|ending| ending == "parquet")
}

/// What a file is; a large table has been opened, so that its columns are those of the table.
fn kind(file: &Path) -> Result<Kind> {
    if !is_table(file) {
        return Ok(Kind::Snapshot);
    }
    if std::fs::metadata(file)?.len() < LARGE_BYTES {
        return Ok(Kind::SmallTable);
    }
    TableFile::open(File::open(file)?)?;
    Ok(Kind::LargeTable)
}

/// Reads a table to its end.
///
/// # Errors
/// When it cannot be read, or is not what was written.
pub fn whole_table(file: &Path) -> Result<()> {
    TableFile::open(File::open(file)?)?.read(&mut |_| Ok(()))?;
    Ok(())
}

/// What some small files hold.
struct Taken<'a> {
    batch: Result<Option<RecordBatch>>,
    digest: RowDigest,
    /// Tables of many rows.
    large: Vec<&'a PathBuf>,
    unusable: Vec<Unusable>,
}

fn read_some(files: &[PathBuf]) -> Taken<'_> {
    let mut taken = Taken {
        batch: Ok(None),
        digest: RowDigest::default(),
        large: Vec::new(),
        unusable: Vec::new(),
    };
    let mut batches = Vec::new();
    for file in files {
        match read_one(file) {
            Ok(Some((own, digest))) => {
                batches.extend(own);
                taken.digest = taken.digest.and(digest);
            }
            Ok(None) => taken.large.push(file),
            Err(error) => taken.unusable.push(Unusable {
                file: file.clone(),
                reason: format!("{error:#}"),
            }),
        }
    }
    if !batches.is_empty() {
        let schema = Arc::new(batch::schema());
        let together = concat_batches(&schema, &batches);
        taken.batch = together.map(Some).map_err(Into::into);
    }
    taken
}

/// The rows of a file and their sum; `None` of a table of many.
fn read_one(file: &Path) -> Result<Option<(Vec<RecordBatch>, RowDigest)>> {
    if !is_table(file) {
        let rows = named(snapshot::read(file)?, file)?;
        return Ok(Some((vec![batch::of_rows(&rows)?], RowDigest::of(&rows))));
    }
    let table = TableFile::open(Bytes::from(std::fs::read(file)?))?;
    if table.rows > LARGE_ROWS {
        return Ok(None);
    }
    let mut batches = Vec::new();
    let digest = table.read(&mut |batch| {
        batches.push(batch);
        Ok(())
    })?;
    Ok(Some((batches, digest)))
}

/// The rows of every snapshot below the paths, each on its own; other files are left out.
///
/// # Errors
/// When a path does not exist, or a directory cannot be listed.
pub fn scans(paths: &[PathBuf]) -> Result<Vec<Vec<FleetRow>>> {
    let read = |file: &PathBuf| {
        let scan = snapshot::read(file).ok()?;
        named(scan, file).ok()
    };
    Ok(list(paths)?.par_iter().filter_map(read).collect())
}

/// A snapshot; one without a host name has the name of its file, one without a time the file's.
fn named(mut scan: Scan, file: &Path) -> Result<Vec<FleetRow>> {
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
