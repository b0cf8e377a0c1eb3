// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests under the emulator: whether it is there, and the smallest guest.

use ample_system::guest::Guest;
use std::path::PathBuf;
use std::process::Command;

/// Whether the emulator is there, of this version (major, minor) or later; says so where it is not.
pub fn emulator(least: (u32, u32)) -> bool {
    let told = Command::new("qemu-system-x86_64").arg("--version").output();
    let told = told.map(|told| String::from_utf8_lossy(&told.stdout).into_owned());
    let version = told.unwrap_or_default();
    let number = version.split("version ").nth(1).unwrap_or_default();
    let mut parts = number
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= least;
    if !found {
        let (major, minor) = least;
        eprintln!(
            "skipped: no qemu-system-x86_64 {major}.{minor} or later (make qemu installs it)"
        );
    }
    found
}

/// A guest with 64 MiB that runs nothing but `kernel`.
pub fn guest(kernel: PathBuf, cpus: usize) -> Guest {
    Guest {
        kernel,
        initrd: None,
        symbols: None,
        append: String::new(),
        memory_bytes: 64 << 20,
        cpus,
        verify: false,
        emulator: Vec::new(),
    }
}
