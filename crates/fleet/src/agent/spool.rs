// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans that wait on the local disk, one file each.
//!
//! A file gets its name when it is whole and on the disk, so that a crash at any byte leaves the
//! files that were there before. What a crash left of an unfinished file goes at the next start. A
//! spool has one agent, which holds a lock on its directory: another one would take the unfinished
//! files of the first for such rests.

use ample_kit::files;
use anyhow::{Context, Error, Result, bail, ensure};
use std::collections::VecDeque;
use std::fs::{File, Metadata, TryLockError};
use std::os::unix::fs::MetadataExt;
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

/// So many scans in a row that are not taken, and the place is away as a whole.
const REFUSED_IN_A_ROW: usize = 3;

/// A scan that bears a later time than this after now was stamped by a clock that was wrong.
const AHEAD: Duration = Duration::from_secs(300);

/// A directory of at most so many bytes, which belongs to one process at a time.
#[derive(Debug)]
pub struct Spool {
    directory: PathBuf,
    limit_bytes: u64,
    /// The directory, locked until the process ends, however it does.
    _lock: File,
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

/// What came of handing the scans of a spool on.
#[derive(Debug, Default)]
pub struct Delivered {
    /// How many have left the spool.
    pub moved: u64,
    /// Names of those that were tried and stay, in the order of the tries, and why.
    pub kept: Vec<(String, Error)>,
    /// Whether so many in a row were not taken that the others were not tried.
    pub given_up: bool,
}

impl Spool {
    /// The spool in `directory`, which is made if it does not exist, for this process alone.
    ///
    /// # Errors
    /// When the directory cannot be made or read, or another process has it.
    pub fn open(directory: &Path, limit_bytes: u64) -> Result<Spool> {
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot make the spool {}", directory.display()))?;
        let spool = Spool {
            directory: directory.into(),
            limit_bytes,
            _lock: lock(directory)?,
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

    /// That what is delivered to `directory` leaves the spool.
    ///
    /// # Errors
    /// When that is the spool itself, by whatever name, or lies within it.
    pub fn apart_from(&self, directory: &Path) -> Result<()> {
        let same =
            |own: &Metadata, other: &Metadata| (own.dev(), own.ino()) == (other.dev(), other.ino());
        let about = || format!("cannot tell where {} is", directory.display());
        let own = fs::metadata(&self.directory).with_context(about)?;
        let there = std::path::absolute(directory).with_context(about)?;
        // What does not exist yet will lie in the first folder above it that does.
        let there = there.ancestors().find_map(|path| path.canonicalize().ok());
        for above in there.with_context(about)?.ancestors() {
            let above = fs::metadata(above).with_context(about)?;
            ensure!(
                !same(&own, &above),
                "{} is in the spool {}: scans cannot be delivered to where they wait",
                directory.display(),
                self.directory.display()
            );
        }
        Ok(())
    }

    /// Keeps the scan of `host` that began so long after 1970, which is now. Where the spool would
    /// be larger than its limit, scans of the future go first, then the oldest; how many went.
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
        let dropped = self.shrink(self.limit_bytes - bytes.len() as u64, began)?;
        write_whole(&self.directory, &name(host, began), bytes)?;
        Ok(dropped)
    }

    /// Hands each file to `put`, the oldest first, and removes it where that went well; begins with
    /// none after `longest`: what is left goes the next time. One that is not taken stays, and the
    /// next is taken from the other end: what is wrong with the oldest may be right with the
    /// newest. After some in a row the others are not tried.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn deliver(
        &self,
        longest: Duration,
        put: &dyn Fn(&str, &[u8]) -> Result<()>,
    ) -> Result<Delivered> {
        let begin = Instant::now();
        let mut done = Delivered::default();
        let (mut in_a_row, mut newest_first) = (0, false);
        let mut names: VecDeque<String> = self.named()?.into_iter().map(|(_, name)| name).collect();
        while begin.elapsed() <= longest {
            let next = match newest_first {
                true => names.pop_back(),
                false => names.pop_front(),
            };
            let Some(name) = next else { break };
            let bytes = match self.read(&name) {
                Ok(Some(bytes)) => bytes,
                Ok(None) => continue,
                // That is not the fault of the place.
                Err(error) => {
                    done.kept.push((name, error));
                    continue;
                }
            };
            if let Err(error) = put(&name, &bytes) {
                done.kept.push((name, error));
                in_a_row += 1;
                newest_first = !newest_first;
                if in_a_row == REFUSED_IN_A_ROW {
                    done.given_up = true;
                    break;
                }
                continue;
            }
            in_a_row = 0;
            let own = self.directory.join(&name);
            match fs::remove_file(&own) {
                Ok(()) => done.moved += 1,
                Err(error) => {
                    let told = format!("cannot remove {}", own.display());
                    done.kept.push((name, Error::new(error).context(told)));
                }
            }
        }
        Ok(done)
    }

    /// The bytes of a scan; `None` when somebody has removed it.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let own = self.directory.join(name);
        let about = || format!("cannot read {}", own.display());
        match fs::symlink_metadata(&own) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            meta => ensure!(
                meta.with_context(about)?.is_file(),
                "{} has the name of a scan and is no file",
                own.display()
            ),
        }
        fs::read(&own).with_context(about).map(Some)
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

    /// Removes files until at most `bytes` are left: those that `now` lies far before, then the
    /// oldest.
    fn shrink(&self, bytes: u64, now: Duration) -> Result<u64> {
        let mut files = self.files()?;
        let latest = now.saturating_add(AHEAD).as_nanos();
        files.sort_by_key(|(time, ..)| *time <= latest);
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
        for (time, name) in self.named()? {
            // What is no file takes no part in the size, and what is gone by now neither.
            let meta = fs::symlink_metadata(self.directory.join(&name)).ok();
            if let Some(meta) = meta.filter(Metadata::is_file) {
                files.push((time, name, meta.len()));
            }
        }
        Ok(files)
    }

    /// Times and names of all that is called as a scan, the oldest first.
    fn named(&self) -> Result<Vec<(u128, String)>> {
        let names = names(&self.directory)?.into_iter();
        let mut named: Vec<_> = names
            .filter_map(|name| Some((time_of(&name)?, name)))
            .collect();
        named.sort();
        Ok(named)
    }
}

/// The lock on a spool. It is the kernel's, so that a process that is killed leaves none.
fn lock(directory: &Path) -> Result<File> {
    let about = || format!("cannot lock the spool {}", directory.display());
    let own = File::open(directory).with_context(about)?;
    match own.try_lock() {
        Ok(()) => Ok(own),
        Err(TryLockError::WouldBlock) => bail!(
            "another ample agent uses the spool {}: one is enough, or give each its own --spool",
            directory.display()
        ),
        Err(TryLockError::Error(error)) => Err(error).with_context(about),
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
mod tests;
