// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where rings and the guest's memory lie while a guest runs.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Start of the directories' names; the process and a number follow.
const NAME: &str = "ample-system-";

/// A directory in memory that goes when it is dropped.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    /// A new one. Those of processes that were killed go first: each holds a guest's memory.
    pub(crate) fn new() -> Result<Self> {
        let shared = Path::new("/dev/shm");
        let parent = match shared.is_dir() {
            true => shared.to_owned(),
            false => std::env::temp_dir(),
        };
        sweep(&parent);
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = parent.join(format!("{NAME}{process}-{number}"));
        std::fs::create_dir(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Removes what processes that are no more have left in `parent`; what belongs to others stays, as
/// it cannot be removed.
fn sweep(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(NAME));
        let Some((process, _)) = process.and_then(|rest| rest.split_once('-')) else {
            continue;
        };
        let gone = process.parse::<u32>().is_ok()
            && Path::new("/proc/self").exists()
            && !Path::new("/proc").join(process).exists();
        if gone {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_dead_have_left_goes_and_nothing_else() {
        let parent = std::env::temp_dir().join(format!("ample-sweep-{}", std::process::id()));
        let own = format!("{NAME}{}-0", std::process::id());
        // No process has a number above 2^22, the most that Linux gives.
        let names = [
            own.as_str(),
            "ample-system-4194999-3",
            "ample-system-x-1",
            "other-4194999-1",
        ];
        for name in names {
            std::fs::create_dir_all(parent.join(name)).unwrap();
        }
        sweep(&parent);
        let left = names.map(|name| parent.join(name).exists());
        std::fs::remove_dir_all(&parent).unwrap();
        assert_eq!(left, [true, false, true, true]);
    }
}
