// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can go wrong between a machine and its pages.

use std::path::{Path, PathBuf};

/// Why a machine, a saved `/proc` tree or a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A file could not be opened or read.
    #[error("cannot read {}: {cause}{}", shown(path), permission_hint(cause))]
    Io {
        /// The file that was read.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// A text file of `/proc` does not look as it should.
    #[error("{}:{line}: {what}", shown(path))]
    Parse {
        /// The file that was read.
        path: PathBuf,
        /// Line number, from 1; 0 when the whole file is meant.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// The pages were read but describe no memory.
    #[error("{}: {what}", shown(path))]
    NoMemory {
        /// The file that should have said where memory lies.
        path: PathBuf,
        /// What is missing and what to do about it.
        what: String,
    },
    /// Memory to measure on could not be had.
    #[error("cannot get {bytes} bytes of memory in {}: {cause}{}", backing.name(), backing.hint())]
    TestMemory {
        /// Bytes asked for.
        bytes: u64,
        /// Pages asked for.
        backing: crate::PageBacking,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The BPF reader cannot be used here.
    #[error("BPF reader: {0}")]
    Bpf(String),
}

/// A path as a terminal may see it: others choose the names of control groups.
fn shown(path: &Path) -> String {
    crate::printable(&path.to_string_lossy())
}

fn permission_hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "; run as root (for the BPF reader CAP_SYS_ADMIN is enough)"
        }
        _ => "",
    }
}

impl HostError {
    /// An I/O error at `path`.
    pub fn io(path: &Path, cause: std::io::Error) -> HostError {
        HostError::Io {
            path: path.to_path_buf(),
            cause,
        }
    }

    /// A syntax error in `path` at `line` (from 1).
    pub fn parse(path: &Path, line: usize, what: impl Into<String>) -> HostError {
        HostError::Parse {
            path: path.to_path_buf(),
            line,
            what: what.into(),
        }
    }

    /// Whether more privilege would help.
    pub fn is_permission(&self) -> bool {
        match self {
            HostError::Io { cause, .. } => cause.kind() == std::io::ErrorKind::PermissionDenied,
            HostError::NoMemory { .. } => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_path_cannot_steer_a_terminal() {
        let gone = std::io::Error::from(std::io::ErrorKind::NotFound);
        let error = HostError::io(Path::new("/sys/fs/cgroup/a\nb\x1b[31m"), gone).to_string();
        assert!(
            error.starts_with("cannot read /sys/fs/cgroup/a\\nb\\u{1b}[31m: "),
            "{error}"
        );
    }
}
