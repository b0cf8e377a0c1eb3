// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files that the sources of a study name.

use anyhow::{Context, Result, bail, ensure};
use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The files of all sources: of files, of directories with what is below them, and of patterns.
///
/// # Errors
/// When a source does not exist or cannot be listed, or a pattern fits nothing.
pub(crate) fn files_of(sources: &[PathBuf]) -> Result<Vec<PathBuf>> {
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

/// The paths that a pattern names; a path that exists is no pattern.
fn matching(path: &Path) -> Result<Vec<PathBuf>> {
    let text = path.to_str().unwrap_or_default();
    if !text.contains(['*', '?', '[']) || path.symlink_metadata().is_ok() {
        return Ok(vec![path.to_path_buf()]);
    }
    let options = glob::MatchOptions {
        require_literal_separator: true,
        require_literal_leading_dot: true,
        ..glob::MatchOptions::default()
    };
    let found = glob::glob_with(text, options)
        .with_context(|| format!("`{text}` is neither a file nor a pattern"))?;
    let found: Vec<PathBuf> = found
        .collect::<Result<_, _>>()
        .with_context(|| format!("cannot look for {text}"))?;
    ensure!(!found.is_empty(), "no file fits {text}");
    Ok(found)
}

/// All files below the paths, sorted, each once. Hidden files and folders are left out, and what is
/// neither a file nor a folder; a folder counts once, however many links lead to it.
pub(crate) fn list(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut left = paths.to_vec();
    let mut seen = HashSet::new();
    while let Some(path) = left.pop() {
        let about = || format!("cannot read {}", path.display());
        let meta = std::fs::metadata(&path).with_context(about)?;
        if meta.is_dir() {
            if !seen.insert((meta.dev(), meta.ino())) {
                continue;
            }
            for entry in std::fs::read_dir(&path).with_context(about)? {
                let entry = entry.with_context(about)?;
                let hidden = entry.file_name().to_string_lossy().starts_with('.');
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
