// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine of a few instructions that commands the migration engine under the emulator. Needs gcc
//! and qemu-system-x86_64 10 or later; without them there is nothing to test.

mod emulated;

use ample_migration::protocol::Design;
use ample_system::engine::run::{EngineOptions, EngineRun, run_engine};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Builds the machine; returns its image.
fn built(directory: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest/engine.c");
    let image = directory.join("engine.elf");
    let status = Command::new("gcc")
        .args([
            "-m32",
            "-O1",
            "-Wall",
            "-ffreestanding",
            "-fno-pic",
            "-nostdlib",
            "-static",
        ])
        .args(["-fno-stack-protector", "-fcf-protection=none"])
        .args(["-Wl,-m,elf_i386,-Ttext,0x100000,--build-id=none", "-o"])
        .args([&image, &source])
        .status();
    assert!(status.unwrap().success());
    image
}

fn ran(kernel: PathBuf, design: Design, seconds: u64) -> anyhow::Result<EngineRun> {
    let options = EngineOptions {
        guest: emulated::guest(kernel, 2),
        design,
        table_entries: 4,
        limit: Duration::from_secs(seconds),
        console: None,
    };
    run_engine(&options, || false, |_| ())
}

#[test]
fn pages_and_code_move_in_a_machine_that_uses_them() {
    if !emulated::emulator((10, 0)) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let kernel = built(directory.path());
    for design in [Design::Cacheable, Design::NonCacheable] {
        let report = ran(kernel.clone(), design, 120).unwrap();
        assert_eq!(report.failures, Vec::<String>::new(), "{}", report.console);
        assert!(report.ended_by_itself);
        let counts = &report.counts;
        assert_eq!((counts.moved, counts.aborted), (20_000 + 2, 2));
        assert_eq!((counts.most_entries, report.entries_left), (1, 0));
        assert_eq!(report.guest, [serde_json::json!({"failures": 0})]);
    }
}

#[test]
fn a_guest_without_a_driver_is_ended_at_its_limit() {
    if !emulated::emulator((10, 0)) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let kernel = directory.path().join("nothing");
    std::fs::write(&kernel, [0; 4096]).unwrap();
    let report = ran(kernel, Design::Cacheable, 2).unwrap();
    assert!(!report.ended_by_itself);
    assert_eq!(report.counts.register_writes, 0);
}
