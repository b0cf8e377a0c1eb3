// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the kernel's files are: `/`, or a directory that holds a copy of them.

use crate::HostError;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Text files of `/proc` larger than this are refused: none comes near it.
const MAX_TEXT_BYTES: u64 = 64 << 20;

/// The directory that `proc/…` and `sys/…` are looked up in.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    /// The running system.
    pub fn live() -> Root {
        Root(PathBuf::from("/"))
    }

    /// A saved tree: a directory with at least `proc/iomem`, `proc/zoneinfo`, `proc/buddyinfo`,
    /// `proc/meminfo` and `proc/kpageflags`.
    pub fn offline(directory: &Path) -> Root {
        Root(directory.to_path_buf())
    }

    /// Whether this is the running system.
    pub fn is_live(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// Path of a file below the root.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.0.join(relative)
    }

    /// Opens a file below the root for reading.
    ///
    /// # Errors
    /// [`HostError::Io`] with the path.
    pub fn open(&self, relative: &str) -> Result<File, HostError> {
        let path = self.path(relative);
        File::open(&path).map_err(|error| HostError::io(&path, error))
    }

    /// Reads a text file below the root.
    ///
    /// # Errors
    /// [`HostError::Io`] with the path; [`HostError::Parse`] when it is too large.
    pub fn read(&self, relative: &str) -> Result<String, HostError> {
        let path = self.path(relative);
        let mut bytes = Vec::new();
        self.open(relative)?
            .take(MAX_TEXT_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| HostError::io(&path, error))?;
        if bytes.len() as u64 > MAX_TEXT_BYTES {
            let what = format!(
                "larger than {} MB; not a file of /proc",
                MAX_TEXT_BYTES >> 20
            );
            return Err(HostError::parse(&path, 0, what));
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
