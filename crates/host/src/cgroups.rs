// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of control groups, by the number that the kernel knows them by.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

/// Where the unified hierarchy is mounted, alone or beside the older ones.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];

/// Paths of the control groups of the unified hierarchy, by inode number, which is the number
/// that `bpf_get_current_cgroup_id()` gives (`fs/kernfs`, 64-bit kernels).
#[derive(Debug, Default)]
pub struct Cgroups {
    paths: HashMap<u64, String>,
}

impl Cgroups {
    /// The path below the mount of group `id`, `/` for the root. Looks again when a group is not
    /// known yet; `None` when it is gone by then.
    pub fn path(&mut self, id: u64) -> Option<String> {
        if !self.paths.contains_key(&id) {
            self.paths = read();
            // Asked once about each group that is gone.
            self.paths.entry(id).or_default();
        }
        self.paths.get(&id).filter(|path| !path.is_empty()).cloned()
    }
}

fn read() -> HashMap<u64, String> {
    let mut paths = HashMap::new();
    let Some(mount) = MOUNTS
        .iter()
        .map(Path::new)
        .find(|mount| mount.join("cgroup.controllers").exists())
    else {
        return paths;
    };
    if let Ok(root) = fs::metadata(mount) {
        paths.insert(std::os::unix::fs::MetadataExt::ino(&root), "/".to_string());
    }
    let mut folders: Vec<PathBuf> = vec![mount.to_path_buf()];
    while let Some(folder) = folders.pop() {
        // A group that goes away while we look is no error.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let path = entry.path();
                let name = path.strip_prefix(mount).expect("below the mount");
                paths.insert(entry.ino(), format!("/{}", name.display()));
                folders.push(path);
            }
        }
    }
    paths
}
