// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tests of the command share.

use std::path::Path;
use std::process::{Command, Output};

/// Runs the command in `directory` to its end.
pub fn ample(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ample"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap()
}

/// Writes files below `root`, with the directories that they need.
pub fn save(root: &Path, files: &[(&str, &[u8])]) {
    for (file, bytes) in files {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}
