// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results on disk, by the content of what made them.
//!
//! A result is one file `cache/ID-KEY.json`: a line of JSON about it, then the result itself. Its
//! key is a hash of the program, the experiment's id, its parameters and the keys of what it
//! depends on. Files are written under another name, flushed and renamed, so that a kill at any
//! moment leaves a whole file or none.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_128;

/// A hash of content: 32 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key(String);

impl Key {
    /// Of these parts. Each part's length is hashed too, so that moving a byte from one part to
    /// the next changes the key.
    pub fn of(parts: &[&[u8]]) -> Key {
        let mut hasher = XxHash3_128::new();
        for part in parts {
            hasher.write(&(part.len() as u64).to_le_bytes());
            hasher.write(part);
        }
        Key(format!("{:032x}", hasher.finish_128()))
    }

    /// Of the running program.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn of_this_program() -> Result<Key> {
        let path = std::env::current_exe().context("cannot tell where this program is")?;
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Key::of(&[&bytes]))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What is known of a stored result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    schema: String,
    id: String,
    key: Key,
    seconds: f64,
    parameters: serde_json::Value,
    /// Hash of the result that follows.
    content: Key,
}

const SCHEMA: &str = "ample.cache/1";

/// A stored result.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// The result as JSON.
    pub json: String,
    /// Wall time of the run that made it.
    pub seconds: f64,
}

/// The directory of results.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// Opens or makes the directory, and removes what killed runs left half written.
    ///
    /// # Errors
    /// When it cannot be made or written to.
    pub fn open(out: &Path) -> Result<Store> {
        let folder = out.join("cache");
        fs::create_dir_all(&folder).with_context(|| cannot_write(&folder))?;
        for folder in [out, &folder] {
            remove_abandoned(folder).with_context(|| cannot_write(folder))?;
        }
        write_whole(&folder.join("README"), README.as_bytes())?;
        Ok(Store { folder })
    }

    fn path(&self, id: &str, key: &Key) -> PathBuf {
        self.folder.join(format!("{id}-{}.json", &key.0[..16]))
    }

    /// The result of this key, if there is one and it is whole.
    pub fn load(&self, id: &str, key: &Key) -> Option<Stored> {
        let text = fs::read_to_string(self.path(id, key)).ok()?;
        let (head, json) = text.split_once('\n')?;
        let entry: Entry = serde_json::from_str(head).ok()?;
        let whole = entry.schema == SCHEMA
            && entry.id == id
            && entry.key == *key
            && entry.content == Key::of(&[json.as_bytes()]);
        whole.then(|| Stored {
            json: json.to_string(),
            seconds: entry.seconds,
        })
    }

    /// Stores a result.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(
        &self,
        id: &str,
        key: &Key,
        parameters: &serde_json::Value,
        result: &Stored,
    ) -> Result<()> {
        let entry = Entry {
            schema: SCHEMA.into(),
            id: id.into(),
            key: key.clone(),
            seconds: result.seconds,
            parameters: parameters.clone(),
            content: Key::of(&[result.json.as_bytes()]),
        };
        let text = format!("{}\n{}", serde_json::to_string(&entry)?, result.json);
        write_whole(&self.path(id, key), text.as_bytes())?;
        debug_assert_eq!(self.load(id, key).as_ref(), Some(result));
        Ok(())
    }
}

const README: &str = "Results of `ample reproduce`, by the content of their inputs: a line about \
the result, then the result. They can be deleted at any time.\n";

fn cannot_write(path: &Path) -> String {
    format!(
        "cannot write {}; --out DIR chooses another place",
        path.display()
    )
}

/// Writes a file of the report or the store, whole or not at all.
///
/// # Errors
/// When the folder cannot be written to or the disk is full.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    ample_kit::files::write(path, bytes).with_context(|| cannot_write(path))
}

/// Removes half-written files of processes that are gone.
fn remove_abandoned(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let process = name
            .strip_suffix(".tmp")
            .and_then(|name| name.rsplit_once('.'))
            .filter(|(name, _)| name.starts_with('.'))
            .and_then(|(_, process)| process.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
