// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans that wait on the local disk, one file each.
//!
//! A file gets its name when it is whole and on the disk, so that a crash at any byte leaves the
//! files that were there before. What a crash left of an unfinished file goes at the next start.

use ample_kit::files;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fmt, fs};

/// What unfinished files of the spool begin with.
const UNFINISHED: &str = ".scan-";
/// What an unfinished [`LAST`] begins with.
const UNREMEMBERED: &str = "..last-scan";
/// How the files of the spool end.
const SUFFIX: &str = ".parquet";

/// The file that says what the last scan cost.
const LAST: &str = ".last-scan";

/// A directory of at most so many bytes.
#[derive(Clone, Debug)]
pub struct Spool {
    directory: PathBuf,
    limit_bytes: u64,
}

/// What a scan cost: the next one waits for its share of a processor, also after a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastScan {
    /// When it began, since 1970.
    pub began: Duration,
    /// Processor time of the round.
    pub cpu: Duration,
}

impl LastScan {
    /// Reads the two numbers of nanoseconds; `None` of anything else, as no scan.
    pub fn parse(text: &str) -> Option<LastScan> {
        let mut numbers = text.split_ascii_whitespace().map(str::parse);
        let (began, cpu) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        numbers.next().is_none().then(|| LastScan {
            began: Duration::from_nanos(began),
            cpu: Duration::from_nanos(cpu),
        })
    }
}

impl fmt::Display for LastScan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{} {}", self.began.as_nanos(), self.cpu.as_nanos())
    }
}

/// What is in a spool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// How many scans.
    pub files: u64,
    /// Their size in all.
    pub bytes: u64,
}

impl Spool {
    /// The spool in `directory`, which is made if it does not exist.
    ///
    /// # Errors
    /// When the directory cannot be made or read.
    pub fn open(directory: &Path, limit_bytes: u64) -> Result<Spool> {
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot make the spool {}", directory.display()))?;
        let spool = Spool {
            directory: directory.into(),
            limit_bytes,
        };
        for name in names(directory)? {
            if name.starts_with(UNFINISHED) || name.starts_with(UNREMEMBERED) {
                let path = directory.join(name);
                fs::remove_file(&path)
                    .with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
        Ok(spool)
    }

    /// Keeps the scan of `host` that began so long after 1970. The oldest files go where the spool
    /// would be larger than its limit; how many went.
    ///
    /// # Errors
    /// When the file cannot be written, or is larger than the spool may be.
    pub fn store(&self, host: &str, began: Duration, bytes: &[u8]) -> Result<u64> {
        ensure!(
            bytes.len() as u64 <= self.limit_bytes,
            "a scan has {} bytes, the spool may have {}",
            bytes.len(),
            self.limit_bytes
        );
        let dropped = self.shrink(self.limit_bytes - bytes.len() as u64)?;
        write_whole(&self.directory, &name(host, began), bytes)?;
        Ok(dropped)
    }

    /// Hands each file to `put`, the oldest first, and removes it where that went well; begins with
    /// none after `longest`: what is left goes the next time. How many went.
    ///
    /// # Errors
    /// When a file is not taken: it and those after it stay.
    pub fn deliver(
        &self,
        longest: Duration,
        put: &dyn Fn(&str, &[u8]) -> Result<()>,
    ) -> Result<u64> {
        let begin = Instant::now();
        let mut moved = 0;
        for (_, name, _) in self.files()? {
            if begin.elapsed() > longest {
                break;
            }
            let own = self.directory.join(&name);
            let bytes = fs::read(&own).with_context(|| format!("cannot read {}", own.display()))?;
            put(&name, &bytes)?;
            fs::remove_file(&own).with_context(|| format!("cannot remove {}", own.display()))?;
            moved += 1;
        }
        Ok(moved)
    }

    /// What the last scan cost, if that is known.
    pub fn last(&self) -> Option<LastScan> {
        let text = files::read_text(&self.directory.join(LAST), 1024).ok()?;
        LastScan::parse(&text)
    }

    /// Remembers what a scan costs.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn remember(&self, last: LastScan) -> Result<()> {
        write_whole(&self.directory, LAST, last.to_string().as_bytes())
    }

    /// What is in it.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn usage(&self) -> Result<Usage> {
        let files = self.files()?;
        Ok(Usage {
            files: files.len() as u64,
            bytes: files.iter().map(|(.., bytes)| bytes).sum(),
        })
    }

    /// Removes the oldest files until at most `bytes` are left.
    fn shrink(&self, bytes: u64) -> Result<u64> {
        let files = self.files()?;
        let mut left: u64 = files.iter().map(|(.., bytes)| bytes).sum();
        let mut dropped = 0;
        for (_, name, own) in files {
            if left <= bytes {
                break;
            }
            let path = self.directory.join(name);
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
            left -= own;
            dropped += 1;
        }
        Ok(dropped)
    }

    /// Times, names and bytes of the files, the oldest first. Other files are left alone.
    fn files(&self) -> Result<Vec<(u128, String, u64)>> {
        let mut files = Vec::new();
        for name in names(&self.directory)? {
            let Some(time) = time_of(&name) else { continue };
            let bytes = fs::metadata(self.directory.join(&name))?.len();
            files.push((time, name, bytes));
        }
        files.sort();
        Ok(files)
    }
}

/// The name of a scan's file: host names hold nothing that a path could mean. Nanoseconds, since
/// a host can be scanned twice in a second, and neither file may take the other's place.
fn name(host: &str, began: Duration) -> String {
    let plain = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => letter,
        '.' | '-' => letter,
        _ => '_',
    };
    let host: String = host.chars().take(128).map(plain).collect();
    format!("scan-{host}-{}{SUFFIX}", began.as_nanos())
}

/// The time in a name that [`name`] made.
fn time_of(name: &str) -> Option<u128> {
    let inner = name.strip_prefix("scan-")?.strip_suffix(SUFFIX)?;
    inner.rsplit_once('-')?.1.parse().ok()
}

fn names(directory: &Path) -> Result<Vec<String>> {
    let told = || format!("cannot read the directory {}", directory.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).with_context(told)? {
        if let Ok(name) = entry.with_context(told)?.file_name().into_string() {
            names.push(name);
        }
    }
    Ok(names)
}

/// Writes a file that has its name only when all of it is on the disk, and the name too.
///
/// # Errors
/// When the directory does not exist, is full, or may not be written to.
pub fn write_whole(directory: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let path = directory.join(name);
    files::write(&path, bytes)
        .and_then(|()| fs::File::open(directory)?.sync_all())
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(directory: &Path) -> Vec<String> {
        let mut all = names(directory).unwrap();
        all.sort();
        all
    }

    #[test]
    fn the_oldest_scans_go_first_and_other_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path(), 100).unwrap();
        fs::write(folder.path().join("notes-1.parquet"), [0; 500]).unwrap();
        // 999 is older than 1000, though not as text.
        for (time, dropped) in [(1000, 0), (999, 0), (1001, 0), (1002, 1)] {
            let began = Duration::from_nanos(time);
            assert_eq!(
                spool.store("a", began, &[7; 30]).unwrap(),
                dropped,
                "{time}"
            );
        }
        assert_eq!(
            spool.usage().unwrap(),
            Usage {
                files: 3,
                bytes: 90
            }
        );
        assert_eq!(
            names_of(folder.path()),
            [
                "notes-1.parquet",
                "scan-a-1000.parquet",
                "scan-a-1001.parquet",
                "scan-a-1002.parquet"
            ]
        );
        assert!(
            spool
                .store("a", Duration::from_nanos(1003), &[0; 101])
                .is_err()
        );
        assert_eq!(
            spool.usage().unwrap().files,
            3,
            "what is too large costs no other scan"
        );
    }

    #[test]
    fn two_scans_of_one_second_are_two_files() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path(), 1000).unwrap();
        for milliseconds in [1_793_491_200_001, 1_793_491_200_002] {
            let began = Duration::from_millis(milliseconds);
            spool.store("a", began, b"scan").unwrap();
        }
        assert_eq!(spool.usage().unwrap().files, 2);
    }

    #[test]
    fn what_a_crash_left_is_gone_after_a_start() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path(), 1000).unwrap();
        spool.store("a", Duration::from_nanos(1), b"whole").unwrap();
        fs::write(folder.path().join(".scan-a-2.parquet.17.tmp"), b"ha").unwrap();
        assert_eq!(
            spool.usage().unwrap().files,
            1,
            "an unfinished file does not count"
        );
        let spool = Spool::open(folder.path(), 1000).unwrap();
        assert_eq!(names_of(folder.path()), ["scan-a-1.parquet"]);
        assert_eq!(spool.usage().unwrap().bytes, 5);
    }

    #[test]
    fn what_the_last_scan_cost_is_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path(), 1000).unwrap();
        assert_eq!(spool.last(), None);
        let last = LastScan {
            began: Duration::new(1_793_491_200, 5),
            cpu: Duration::from_millis(1234),
        };
        spool.remember(last).unwrap();
        fs::write(folder.path().join("..last-scan.17.tmp"), "17").unwrap();
        let spool = Spool::open(folder.path(), 1000).unwrap();
        assert_eq!(spool.last(), Some(last));
        assert_eq!(names_of(folder.path()), [".last-scan"]);
        assert_eq!(spool.usage().unwrap(), Usage::default());
        for text in ["", "1", "1 2 3", "-1 2", "1 x", "99999999999999999999 1"] {
            assert_eq!(LastScan::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_host_name_cannot_leave_the_directory() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(&folder.path().join("spool"), 1000).unwrap();
        spool
            .store("../../evil/\n", Duration::from_nanos(7), b"x")
            .unwrap();
        assert_eq!(names_of(folder.path()), ["spool"]);
        assert_eq!(
            names_of(&folder.path().join("spool")),
            ["scan-.._.._evil__-7.parquet"]
        );
    }

    #[test]
    fn what_cannot_be_delivered_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (own, shared) = (folder.path().join("own"), folder.path().join("shared"));
        let spool = Spool::open(&own, 1000).unwrap();
        spool.store("a", Duration::from_nanos(1), b"one").unwrap();
        spool.store("a", Duration::from_nanos(2), b"two").unwrap();
        let put = |name: &str, bytes: &[u8]| write_whole(&shared, name, bytes);
        let deliver = || spool.deliver(Duration::from_secs(60), &put);
        assert!(deliver().is_err(), "it does not exist");
        assert_eq!(spool.usage().unwrap().files, 2);
        fs::create_dir(&shared).unwrap();
        assert_eq!(deliver().unwrap(), 2);
        assert_eq!(spool.usage().unwrap(), Usage::default());
        assert_eq!(fs::read(shared.join("scan-a-2.parquet")).unwrap(), b"two");
    }
}
