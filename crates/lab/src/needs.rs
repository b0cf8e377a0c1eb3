// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an experiment needs beyond this program, how to see that it is there, and how to get it.

use serde::Deserialize;
use std::path::{Path, PathBuf};

/// One need.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// Root of the machine that is measured.
    Root,
    /// A program on `PATH`, and how it is installed.
    Tool {
        /// Name of the program.
        name: String,
        /// Command that installs it.
        install: String,
    },
    /// A program that the build makes, which lies next to this one or where cargo puts it.
    Built {
        /// Name of the program.
        name: String,
        /// Command that builds it.
        build: String,
    },
    /// A folder of the source tree, and the command that makes it.
    Folder {
        /// Below the root of the tree.
        path: String,
        /// What makes it.
        make: String,
    },
    /// The source tree: this program runs somewhere below it.
    SourceTree,
    /// Kernels for guests, built by `make kernel`.
    KernelGuest,
}

impl Need {
    /// What is missing and how to get it; `None` when it is there.
    pub fn missing(&self) -> Option<String> {
        let (there, told) = match self {
            Need::Root => {
                let path = "/proc/kpageflags";
                let told = format!("root ({path} cannot be read): sudo");
                (std::fs::File::open(path).is_ok(), told)
            }
            Need::Tool { name, install } => (on_path(name).is_some(), format!("{name}: {install}")),
            Need::Built { name, build } => (built(name).is_some(), format!("{name}: {build}")),
            Need::Folder { path, make } => {
                let is_there = source_tree().is_some_and(|root| root.join(path).is_dir());
                (is_there, format!("{path}: {make}"))
            }
            Need::SourceTree => {
                let told = "the source tree: run in a checkout of Ample".into();
                (source_tree().is_some(), told)
            }
            Need::KernelGuest => {
                let image = "arch/x86/boot/bzImage";
                let is_built = |root: PathBuf| {
                    let kernels = root.join("build/kernel");
                    ["stock", "ample"]
                        .iter()
                        .all(|name| kernels.join(name).join(image).is_file())
                };
                let told = "guest kernels: make kernel (half an hour, 10 GB of disk)".into();
                (source_tree().is_some_and(is_built), told)
            }
        };
        (!there).then_some(told)
    }
}

/// All that is missing of some needs.
pub fn missing(needs: &[Need]) -> Vec<String> {
    needs.iter().filter_map(Need::missing).collect()
}

/// The first program of this name on `PATH`.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
    places.find(|file| file.is_file())
}

/// A program of this project: in the folder of this one, or as cargo builds it there.
pub fn built(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let folder = own.parent()?;
    let places = [folder.join(name), folder.join("../malloc").join(name)];
    places.into_iter().find(|file| file.is_file())
}

/// The root of the source tree above the working directory.
pub fn source_tree() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let is_root = |folder: &&Path| {
        folder.join("kernel/Makefile").is_file() && folder.join("experiments").is_dir()
    };
    here.ancestors().find(is_root).map(Path::to_path_buf)
}

/// A field of `/proc/meminfo`, in bytes.
pub(crate) fn meminfo_bytes(field: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let of_field = |line: &str| {
        line.strip_prefix(field)?
            .strip_prefix(':')
            .map(str::to_owned)
    };
    let value = text.lines().find_map(of_field)?;
    let kilobytes: u64 = value.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// The load average of this machine over the last minute.
pub(crate) fn load_average() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_says_how_to_get_it() {
        let tool = |name: &str| Need::Tool {
            name: name.into(),
            install: "apt-get install it".into(),
        };
        assert_eq!(tool("sh").missing(), None);
        let text = tool("no-such-program").missing().expect("is missing");
        assert!(text.contains("no-such-program: apt-get"), "{text}");
        let folder = |path: &str| Need::Folder {
            path: path.into(),
            make: "make it".into(),
        };
        assert_eq!(folder("experiments").missing(), None);
        let text = folder("no/such").missing();
        assert_eq!(text.as_deref(), Some("no/such: make it"));
        assert_eq!(missing(&[Need::SourceTree, tool("sh")]), [""; 0]);
    }
}
