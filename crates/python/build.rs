// SPDX-License-Identifier: MIT OR Apache-2.0
//! Puts the files of `results/data` into the extension: a list of names and texts.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() -> std::io::Result<()> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/data");
    println!("cargo::rerun-if-changed={}", data.display());
    let mut paths = Vec::new();
    for folder in std::fs::read_dir(&data)? {
        let folder = folder?.path();
        if folder.is_dir() {
            for file in std::fs::read_dir(folder)? {
                paths.push(file?.path());
            }
        }
    }
    paths.retain(|path| path.extension().is_some_and(|found| found == "json"));
    paths.sort();
    let mut list = String::from("[\n");
    for path in paths {
        let id = path.file_stem().unwrap_or_default();
        let _ = writeln!(list, "({id:?}, include_str!({path:?})),");
    }
    let out = std::env::var_os("OUT_DIR")
        .map(PathBuf::from)
        .unwrap_or_default();
    std::fs::write(out.join("results.rs"), list + "]")
}
