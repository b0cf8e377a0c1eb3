// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files that the sources of a study name.

use anyhow::{Context, Result, bail, ensure};
use std::collections::HashSet;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file that does not count, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// The file, or the address of an object that it was.
    pub file: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// What the sources name.
#[derive(Debug, Default)]
pub(crate) struct Named {
    /// Files, sorted, each once.
    pub(crate) files: Vec<PathBuf>,
    /// What cannot be looked into.
    pub(crate) unusable: Vec<Unusable>,
}

/// The files of all sources: of files, of directories with what is below them, and of patterns.
///
/// # Errors
/// When a source does not exist or cannot be listed, or a pattern fits nothing.
pub(crate) fn files_of(sources: &[PathBuf]) -> Result<Named> {
    let mut paths = Vec::new();
    for source in sources {
        let text = source.to_str().unwrap_or_default();
        if let Some((scheme, _)) = text.split_once("://") {
            bail!("`{text}`: {scheme}:// cannot be read; give a path of a mounted file system");
        }
        paths.extend(matching(source)?);
    }
    list(&paths)
}

const META: [char; 3] = ['*', '?', '['];

/// The paths that a pattern names; a path that exists is no pattern.
fn matching(path: &Path) -> Result<Vec<PathBuf>> {
    let text = path.to_str().unwrap_or_default();
    if !text.contains(META) || path.symlink_metadata().is_ok() {
        return Ok(vec![path.to_path_buf()]);
    }
    let start = if text.starts_with('/') { "/" } else { "" };
    let mut found = vec![PathBuf::from(start)];
    for part in text.split('/').filter(|part| !part.is_empty()) {
        let next: Result<Vec<_>> = found.iter().map(|at| below(at, part)).collect();
        found = next
            .with_context(|| format!("cannot look for {text}"))?
            .concat();
    }
    found.retain(|path| path.symlink_metadata().is_ok());
    ensure!(!found.is_empty(), "no file fits {text}");
    found.sort();
    Ok(found)
}

/// What one part of a pattern names in a folder. `**` is the folder and all folders below it.
fn below(folder: &Path, part: &str) -> Result<Vec<PathBuf>> {
    if !part.contains(META) {
        return Ok(vec![folder.join(part)]);
    }
    let mut found = Vec::new();
    if part == "**" {
        let mut left = vec![folder.to_path_buf()];
        while let Some(at) = left.pop() {
            for (_, path) in entries(&at)? {
                if path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
                    left.push(path);
                }
            }
            found.push(at);
        }
        return Ok(found);
    }
    let pattern = glob::Pattern::new(part).with_context(|| format!("`{part}` is no pattern"))?;
    for (name, path) in entries(folder)? {
        if pattern.matches(&name) {
            found.push(path);
        }
    }
    Ok(found)
}

/// Names and paths in a folder, those that are text and not hidden; none where it is no folder.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let at = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    let list = match std::fs::read_dir(at) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        list => list?,
    };
    let mut found = Vec::new();
    for entry in list {
        let name = entry?.file_name();
        if let Some(text) = name.to_str().filter(|text| !text.starts_with('.')) {
            found.push((text.to_string(), folder.join(text)));
        }
    }
    Ok(found)
}

/// All files below the paths, sorted, each once. Hidden files and folders are left out, and what is
/// neither a file nor a folder; a folder counts once, however many links lead to it. What is gone
/// again was never there; what cannot be looked into is named.
///
/// # Errors
/// When one of the paths does not exist, or is a folder that cannot be listed.
pub(crate) fn list(paths: &[PathBuf]) -> Result<Named> {
    let mut named = Named::default();
    let mut left = Vec::new();
    let mut seen = HashSet::new();
    for path in paths {
        let meta = path
            .metadata()
            .with_context(|| format!("cannot read {}", path.display()))?;
        if !meta.is_dir() {
            named.files.push(path.clone());
        } else if seen.insert((meta.dev(), meta.ino())) {
            let inside = inside(path).with_context(|| format!("cannot list {}", path.display()))?;
            left.extend(inside);
        }
    }
    while let Some(path) = left.pop() {
        let looked = path.metadata().and_then(|meta| {
            if meta.is_file() {
                named.files.push(path.clone());
            } else if meta.is_dir() && seen.insert((meta.dev(), meta.ino())) {
                left.extend(inside(&path)?);
            }
            Ok(())
        });
        if let Err(error) = looked
            && path.symlink_metadata().is_ok()
        {
            let reason = format!("cannot be read: {error}");
            named.unusable.push(Unusable { file: path, reason });
        }
    }
    named.files.sort();
    named.files.dedup();
    Ok(named)
}

/// What a folder holds and does not hide.
fn inside(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            found.push(entry.path());
        }
    }
    Ok(found)
}
