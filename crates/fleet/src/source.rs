// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans made ready for an engine: snapshots and Parquet files, many or large.

use crate::batch;
use crate::digest::RowDigest;
use crate::merged::Merged;
use crate::place::{Unusable, files_of, list};
use crate::reader::TableFile;
use crate::row::{FleetRow, Labels, rows};
use ample_host::{Scan, snapshot};
use anyhow::{Result, ensure};
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use bytes::Bytes;
use rayon::prelude::*;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

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
/// Those of more rows too, however small, once they are known to be whole.
const LARGE_ROWS: u64 = 1 << 18;
/// And those of less for a row: packed so well, they are best left where they lie.
const LEAST_BYTES_A_ROW: u64 = 2;
/// Files that one thread reads before it hands over its rows, and bytes of them.
const FILES_A_TASK: usize = 64;
const BYTES_A_TASK: u64 = 2 << 20;

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
        let named = files_of(sources)?;
        let mut gathering = Gathering {
            found: Sources {
                read: named.unusable.len(),
                unusable: named.unusable,
                ..Sources::default()
            },
            writer: Merged::new(workspace),
            of: named.files.len(),
            progress,
        };
        gathering.files(named.files)?;
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
                Ok(Kind::Small { bytes }) => {
                    small.push((file, bytes));
                    continue;
                }
                Err(error) => self.found.skip(file, &error),
            }
            self.done(1);
        }
        // Whatever the number of threads, so that the same files give the same bytes.
        let tasks = tasks(small);
        for some in tasks.chunks(2 * rayon::current_num_threads()) {
            self.put_together(some)?;
            self.done(some.iter().map(Vec::len).sum());
        }
        Ok(())
    }

    fn done(&mut self, files: usize) {
        self.found.read += files;
        (self.progress)(self.found.read, self.of);
    }

    /// Adds small files to the large ones of the workspace.
    fn put_together(&mut self, tasks: &[Vec<PathBuf>]) -> Result<()> {
        let done: Vec<_> = tasks.par_iter().map(|files| read_some(files)).collect();
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
    /// A snapshot, or a table that is read at once.
    Small {
        bytes: u64,
    },
    LargeTable,
}

/// Files in the order in which they come, so many as one thread reads before it hands over.
fn tasks(files: Vec<(PathBuf, u64)>) -> Vec<Vec<PathBuf>> {
    let mut tasks: Vec<Vec<PathBuf>> = Vec::new();
    let mut held = 0;
    for (file, bytes) in files {
        held += bytes;
        match tasks.last_mut() {
            Some(task) if task.len() < FILES_A_TASK && held <= BYTES_A_TASK => task.push(file),
            _ => {
                held = bytes;
                tasks.push(vec![file]);
            }
        }
    }
    tasks
}

fn is_table(name: &Path) -> bool {
    name.extension().is_some_and(|ending| ending == "parquet")
}

/// What a file is; a large table has been opened, so that its columns are those of the table.
fn kind(file: &Path) -> Result<Kind> {
    let bytes = std::fs::metadata(file)?.len();
    if !is_table(file) || bytes < LARGE_BYTES {
        return Ok(Kind::Small { bytes });
    }
    has_a_plain_name(file)?;
    TableFile::open(File::open(file)?)?;
    Ok(Kind::LargeTable)
}

/// An engine opens tables where they lie by addresses, which are text.
fn has_a_plain_name(file: &Path) -> Result<()> {
    let plain = |text: &str| !text.contains(char::is_control);
    ensure!(
        file.to_str().is_some_and(plain),
        "its name is not plain text, and it is too large to be copied; rename it"
    );
    Ok(())
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
    let mut bytes = Vec::new();
    ample_kit::files::open(file, LARGE_BYTES)?.read_to_end(&mut bytes)?;
    let most_rows = LARGE_ROWS.min(bytes.len() as u64 / LEAST_BYTES_A_ROW);
    let table = TableFile::open(Bytes::from(bytes))?;
    if table.rows > most_rows {
        has_a_plain_name(file)?;
        table.read(&mut |_| Ok(()))?;
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
    Ok(list(paths)?.files.par_iter().filter_map(read).collect())
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
