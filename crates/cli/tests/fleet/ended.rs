// SPDX-License-Identifier: MIT OR Apache-2.0
//! A study that is ended early leaves nothing of what it has copied.

use super::s3::{Fault, S3};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Files below a folder, however deep; one that goes meanwhile counts as none.
fn files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let count = |path: &Path| match path.is_dir() {
        true => files(path),
        false => 1,
    };
    entries.map(|entry| count(&entry.path())).sum()
}

#[test]
fn a_signal_removes_what_was_copied() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let store = S3::start();
    for number in 0..40 {
        store.put(&format!("a/{number:02}.snap"), vec![1; 1000]);
    }
    // The last one does not come: the copy waits for it.
    store.fail(&[Fault::Silent("39")]);
    for (command, left, signal) in [
        (&["report"][..], "report", Signal::INT),
        (&["report"], "report", Signal::TERM),
        (&["convert", "-o", "convert"], "convert", Signal::INT),
    ] {
        let folder = at.join(left);
        std::fs::create_dir_all(&folder).unwrap();
        let mut study = Command::new(env!("CARGO_BIN_EXE_ample"))
            .arg("fleet")
            .args(command)
            .args(["s3://scans/a", "--patience", "60"])
            .current_dir(at)
            .envs(store.environment())
            .env_remove("AWS_CA_BUNDLE")
            .env("TMPDIR", &folder)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while files(&folder) < 39 {
            assert_eq!(study.try_wait().unwrap(), None, "it ended of itself");
            std::thread::sleep(Duration::from_millis(10));
        }
        kill_process(Pid::from_child(&study), signal).unwrap();
        let status = study.wait().unwrap();
        assert_eq!(status.signal(), Some(signal.as_raw()), "{command:?}");
        let rest: Vec<_> = std::fs::read_dir(&folder).unwrap().collect();
        assert!(rest.is_empty(), "{command:?} after {signal:?}: {rest:?}");
    }
}
