// SPDX-License-Identifier: MIT OR Apache-2.0
//! Objects copied to files, several at once.

use crate::{Absent, ObjectStore, StoredObject, plain};
use anyhow::{Context, Result, bail, ensure};
use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

/// Objects that are under way at once.
const AT_ONCE: usize = 16;
/// A large object comes in parts of this size, each within the patience.
const PART_BYTES: u64 = 4 << 20;
/// No file of a fleet is larger.
const LARGEST_BYTES: u64 = 64 << 30;
/// So many objects in a row that cannot be read, and the store is given up; so, too, where so many
/// cannot be read that they are more than one in [`PARTS`] of all.
const MOST_FAILURES: usize = 8;
const PARTS: usize = 10;
/// File systems take no longer names.
const LONGEST_NAME_BYTES: usize = 200;

/// What is wrong with an object that its store gives as it should.
#[derive(Debug)]
struct Unfit(String);

impl fmt::Display for Unfit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Unfit {}

/// What several threads copy together.
struct Copying {
    next: usize,
    results: Vec<Option<Result<PathBuf>>>,
    /// How many have failed by the fault of the store.
    failures: usize,
    /// The object that was one too many of those, and of how many, in words.
    hopeless: Option<(usize, String)>,
}

impl Copying {
    fn take(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    fn note(&mut self, at: usize, result: Result<PathBuf>) {
        self.results[at] = Some(result);
        let failed = |&at: &usize| {
            let error = self.results[at].as_ref().and_then(|own| own.as_ref().err());
            error.is_some_and(|error| !error.is::<Absent>() && !error.is::<Unfit>())
        };
        if !failed(&at) || self.hopeless.is_some() {
            return;
        }
        self.failures += 1;
        let (all, failures) = (self.results.len(), self.failures);
        let in_a_row =
            (at..all).take_while(failed).count() + (0..at).rev().take_while(failed).count();
        let words = match in_a_row >= MOST_FAILURES {
            true => format!("{in_a_row} objects in a row"),
            false => format!("{failures} of {all} objects"),
        };
        if in_a_row >= MOST_FAILURES || failures >= MOST_FAILURES && failures * PARTS > all {
            self.hopeless = Some((at, words));
            self.next = all;
        }
    }
}

impl ObjectStore {
    /// Copies objects to files of their names below `folder`, in the order of the objects: each
    /// file, or why the object does not count. `progress` is told how many are done.
    ///
    /// # Errors
    /// When so many objects cannot be read that the others are no fair part of all.
    pub fn copy(
        &self,
        objects: &[StoredObject],
        folder: &Path,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Result<PathBuf>>> {
        let shared = Mutex::new(Copying {
            next: 0,
            results: objects.iter().map(|_| None).collect(),
            failures: 0,
            hopeless: None,
        });
        let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
        let work = || loop {
            let at = lock().take();
            let Some(object) = objects.get(at) else {
                return;
            };
            let result = self.copy_one(object, &folder.join(at.to_string()));
            let mut copying = lock();
            copying.note(at, result);
            progress(copying.next.min(objects.len()));
        };
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE.min(objects.len()) {
                scope.spawn(work);
            }
        });
        let mut copying = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some((last, words)) = copying.hopeless {
            let error = copying.results[last].take().and_then(Result::err);
            bail!(
                "{} is given up: {words} could not be read, the last one {} ({:#})",
                self.name(),
                plain(&objects[last].address),
                error.context("no reason")?
            );
        }
        let all: Option<Vec<_>> = copying.results.into_iter().collect();
        all.context("an object was left out")
    }

    /// Copies an object into a folder of its own.
    fn copy_one(&self, object: &StoredObject, folder: &Path) -> Result<PathBuf> {
        ensure!(object.bytes > 0, Unfit("empty".into()));
        ensure!(
            object.bytes <= LARGEST_BYTES,
            Unfit(format!(
                "the store says that it has {} bytes: no file of a fleet has",
                object.bytes
            ))
        );
        let file = folder.join(file_name(&object.key));
        let about = || format!("cannot write {}", file.display());
        fs::create_dir_all(folder).with_context(about)?;
        let mut out = File::create(&file).with_context(about)?;
        let mut at = 0;
        while at < object.bytes {
            let end = object.bytes.min(at + PART_BYTES);
            let part = self.part(object, at..end);
            let part = part.inspect_err(|_| drop(fs::remove_file(&file)))?;
            out.write_all(&part).with_context(about)?;
            at = end;
        }
        if let Some(seconds) = object.unix_time_seconds {
            let time = UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
            out.set_modified(time.unwrap_or(UNIX_EPOCH))
                .with_context(about)?;
        }
        Ok(file)
    }

    /// A part of an object, of the version that was listed.
    fn part(&self, object: &StoredObject, range: Range<u64>) -> Result<Vec<u8>> {
        let wanted = range.end - range.start;
        let mut headers = Vec::new();
        if let Some(version) = &object.version {
            headers.push(("if-match", version.clone()));
        }
        if range != (0..object.bytes) {
            let bytes = format!("bytes={}-{}", range.start, range.end - 1);
            headers.push(("range", bytes));
        }
        let bytes = self.requests.object(&object.key, &headers, wanted)?;
        ensure!(
            bytes.len() as u64 == wanted,
            "{} bytes came of {wanted} that the list of the store says",
            bytes.len()
        );
        Ok(bytes)
    }
}

/// The last part of a key as the name of a file, which keeps its ending.
fn file_name(key: &str) -> String {
    let name = key.rsplit('/').next().unwrap_or_default();
    let name = name.replace(char::is_control, "_");
    let mut from = name.len().saturating_sub(LONGEST_NAME_BYTES);
    while !name.is_char_boundary(from) {
        from += 1;
    }
    name[from..].to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `all` objects are tried, of which those that `fails` cannot be read, and why the
    /// store is given up.
    fn tried(all: usize, fails: &dyn Fn(usize) -> bool) -> (usize, Option<String>) {
        let mut copying = Copying {
            next: 0,
            results: (0..all).map(|_| None).collect(),
            failures: 0,
            hopeless: None,
        };
        for at in 0..all {
            if copying.take() == at {
                let result = match fails(at) {
                    true => Err(anyhow::anyhow!("status 500")),
                    false => Ok(PathBuf::new()),
                };
                copying.note(at, result);
            }
        }
        let done = copying.results.iter().flatten().count();
        (done, copying.hopeless.map(|(_, words)| words))
    }

    #[test]
    fn a_store_is_given_up_where_it_fails_in_a_row_or_in_one_of_ten() {
        let words = |text: &str| Some(text.to_string());
        assert_eq!(
            tried(1000, &|at| at >= 20),
            (28, words("8 objects in a row"))
        );
        assert_eq!(tried(20, &|at| at % 8 != 0), (10, words("8 of 20 objects")));
        assert_eq!(
            tried(1000, &|at| at % 9 == 0),
            (901, words("101 of 1000 objects"))
        );
        // So few may be the fault of the objects.
        assert_eq!(tried(1000, &|at| at % 10 == 0), (1000, None));
        assert_eq!(tried(14, &|at| at % 2 == 0), (14, None));
    }

    #[test]
    fn objects_that_are_not_fit_are_no_fault_of_the_store() {
        let mut copying = Copying {
            next: 0,
            results: (0..20).map(|_| None).collect(),
            failures: 0,
            hopeless: None,
        };
        for at in 0..20 {
            let error = match at % 2 {
                0 => Absent.into(),
                _ => Unfit("empty".into()).into(),
            };
            copying.note(at, Err(error));
        }
        assert!(copying.hopeless.is_none());
    }

    #[test]
    fn a_key_of_any_form_becomes_the_name_of_a_file() {
        assert_eq!(file_name("2026/a/host1.parquet"), "host1.parquet");
        assert_eq!(file_name("a/x\0\n.snap"), "x__.snap");
        let long = file_name(&("é".repeat(400) + ".parquet"));
        assert!(long.len() <= LONGEST_NAME_BYTES && long.ends_with("é.parquet"));
    }
}
