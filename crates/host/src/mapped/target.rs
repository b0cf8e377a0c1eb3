// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whose memory to look at.

use crate::HostError;
use std::path::{Path, PathBuf};

/// Where hierarchies of control groups are mounted: the unified one, then those of version 1.
const GROUP_ROOTS: [&str; 3] = [
    "/sys/fs/cgroup",
    "/sys/fs/cgroup/unified",
    "/sys/fs/cgroup/memory",
];

/// A process, a control group with all below it, or a file in the page cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappedTarget {
    /// A process by its number.
    Process(u32),
    /// A control group: a path below its mount, or the directory itself.
    Group(PathBuf),
    /// A file; only what is cached is looked at.
    File(PathBuf),
}

impl MappedTarget {
    /// Words for headings.
    pub fn name(&self) -> String {
        match self {
            MappedTarget::Process(pid) => {
                let comm = std::fs::read_to_string(format!("/proc/{pid}/comm"));
                let comm = comm.map_or(String::new(), |comm| format!(" ({:?})", comm.trim_end()));
                format!("process {pid}{comm}")
            }
            MappedTarget::Group(path) => format!("control group {path:?}"),
            MappedTarget::File(path) => format!("file {path:?}"),
        }
    }

    /// The processes; none for a file.
    ///
    /// # Errors
    /// [`HostError::Io`] when the control group cannot be read.
    pub(super) fn processes(&self) -> Result<Vec<u32>, HostError> {
        match self {
            MappedTarget::Process(pid) => Ok(vec![*pid]),
            MappedTarget::File(_) => Ok(Vec::new()),
            MappedTarget::Group(path) => {
                let below = path.strip_prefix("/").unwrap_or(path);
                let mounted = GROUP_ROOTS.iter().map(|root| Path::new(root).join(below));
                let mut places = std::iter::once(path.clone()).chain(mounted);
                let found = places.find(|place| place.join("cgroup.procs").is_file());
                let mut pids = Vec::new();
                group(
                    &found.unwrap_or(Path::new(GROUP_ROOTS[0]).join(below)),
                    &mut pids,
                )?;
                pids.sort_unstable();
                pids.dedup();
                Ok(pids)
            }
        }
    }
}

/// Adds the processes of a group and of those below it.
fn group(directory: &Path, pids: &mut Vec<u32>) -> Result<(), HostError> {
    let file = directory.join("cgroup.procs");
    let text = std::fs::read_to_string(&file).map_err(|error| HostError::io(&file, error))?;
    pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
    let entries = std::fs::read_dir(directory).map_err(|error| HostError::io(directory, error))?;
    for entry in entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
    {
        // A group that is removed meanwhile is no loss.
        let _ = group(&entry.path(), pids);
    }
    Ok(())
}
