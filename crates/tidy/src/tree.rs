// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of the repository.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A file and its text.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// Relative to the root of the repository, with `/`.
    pub path: String,
    /// What it holds; bytes that are not UTF-8 are replaced.
    pub text: String,
}

impl SourceFile {
    /// The extension of the path, empty without one.
    pub fn extension(&self) -> &str {
        extension(&self.path)
    }
}

/// The extension of `path`, empty without one.
pub fn extension(path: &str) -> &str {
    Path::new(path)
        .extension()
        .and_then(|e| e.to_str())
        .unwrap_or("")
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the crate lies two levels below the root")
}

/// Files that git tracks or would track, read once for the process.
///
/// # Panics
/// Without git or outside a checkout: the rules are about what is committed.
pub fn files() -> &'static [SourceFile] {
    static FILES: OnceLock<Vec<SourceFile>> = OnceLock::new();
    FILES.get_or_init(list)
}

fn list() -> Vec<SourceFile> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git must be installed");
    assert!(
        output.status.success(),
        "git ls-files failed; the rules are checked in a git checkout"
    );
    let names = String::from_utf8(output.stdout).expect("file names are UTF-8");
    let mut files: Vec<SourceFile> = names
        .lines()
        .filter(|name| root().join(name).is_file())
        .map(|name| {
            let bytes = std::fs::read(root().join(name)).expect("a listed file can be read");
            SourceFile {
                path: name.to_string(),
                text: String::from_utf8_lossy(&bytes).into_owned(),
            }
        })
        .collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.dedup_by(|a, b| a.path == b.path);
    files
}

/// The text of a file, if it exists.
pub fn text(path: &str) -> Option<&'static str> {
    let index = files()
        .binary_search_by(|file| file.path.as_str().cmp(path))
        .ok()?;
    Some(&files()[index].text)
}
