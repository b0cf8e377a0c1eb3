// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files as a fleet of agents delivers them: many, and tiny. `AMPLE_FILES=200000` is what
//! `make fleet-files` sets; without it there are fewer.

use super::common::ample;
use super::hostile::machine;
use super::{find, fleet};
use ample_fleet::encode;
use ample_host::snapshot;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Open files that the report may have.
const OPEN_FILES: u64 = 64;
/// Memory that it may write to.
const MEMORY_BYTES: u64 = 1 << 30;

fn files() -> u64 {
    let wanted = std::env::var("AMPLE_FILES").ok();
    wanted.map_or(3000, |text| text.parse().expect("AMPLE_FILES is a number"))
}

/// One file in seven folders; every tenth breaks off in the middle.
fn save(at: &Path, number: u64, name: &str, bytes: &[u8]) {
    let folder = at.join(format!("in/{}", number % 7));
    std::fs::create_dir_all(&folder).unwrap();
    let length = match number % 10 {
        0 => bytes.len() / 2,
        _ => bytes.len(),
    };
    std::fs::write(folder.join(name), &bytes[..length]).unwrap();
}

/// Runs within the bounds of memory and files; what it wrote, and the peak of its memory in KiB.
fn bounded(at: &Path, arguments: &[&str]) -> (Value, u64) {
    let out = std::fs::File::create(at.join("study.json")).unwrap();
    let mut child = Command::new("prlimit")
        .args([
            format!("--nofile={OPEN_FILES}"),
            format!("--data={MEMORY_BYTES}"),
            env!("CARGO_BIN_EXE_ample").into(),
        ])
        .args(arguments)
        .current_dir(at)
        .stdout(out)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut peak_kib = 0;
    let status = loop {
        let text = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let text = text.unwrap_or_default();
        let own = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let own = own.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        peak_kib = own.unwrap_or(0).max(peak_kib);
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    assert!(status.success(), "{arguments:?}: {status}");
    let text = std::fs::read(at.join("study.json")).unwrap();
    (serde_json::from_slice(&text).unwrap(), peak_kib)
}

/// Half of the files are tables of one scan, half snapshots; the hosts are all different.
#[test]
fn many_tiny_files_add_up_and_the_broken_ones_are_named() {
    let directory = fleet();
    let at = directory.path();
    let half = files() / 2;
    let real = std::fs::read(at.join("scans/host2.snapshot")).unwrap();
    let mut scan = snapshot::decode(&real).unwrap();
    for number in 0..half {
        let table = encode(&[machine(&format!("table{number}"), None, number as i64)]).unwrap();
        save(at, number, &format!("{number}.parquet"), &table);
        scan.meta.hostname = Some(format!("snap{number}"));
        scan.meta.unix_time_seconds = Some(1_793_491_200);
        let bytes = snapshot::encode(&scan).unwrap();
        save(at, number, &format!("{number}.snap"), &bytes);
    }
    // A folder that is in itself counts once.
    std::os::unix::fs::symlink("..", at.join("in/3/up")).unwrap();
    let begin = Instant::now();
    let (study, peak_kib) = bounded(at, &["fleet", "report", "in", "--json", "--min-free", "1"]);
    println!(
        "{} files: {:.1} s, {} MiB, {} bytes each",
        2 * half,
        begin.elapsed().as_secs_f64(),
        peak_kib >> 10,
        real.len()
    );
    let broken = half.div_ceil(10);
    assert_eq!(study["scans"]["hosts"], 2 * (half - broken));
    assert_eq!(study["scans"]["scan_count"], 2 * (half - broken));
    assert_eq!(study["hosts_with_copies"], 0);
    assert_eq!(
        study["skipped_files"].as_array().unwrap().len() as u64,
        2 * broken
    );
    check_counts(&study, half);
}

/// Unmovable 2 MB blocks: of a table `number % 33` of 32, of every snapshot two of eight.
fn check_counts(study: &Value, half: u64) {
    let at_2m = json!({ "size_bytes": 2 << 20, "definition": "K" });
    let found = &find(&study["unmovable"], &at_2m)["high"]["cdf"]["counts"];
    let mut wanted = std::collections::BTreeMap::new();
    for number in (0..half).filter(|number| number % 10 != 0) {
        *wanted.entry(number % 33 * 1000 / 32).or_insert(0u64) += 1;
        *wanted.entry(250).or_insert(0) += 1;
    }
    assert_eq!(found, &json!(wanted.into_iter().collect::<Vec<_>>()));
}

#[test]
fn of_many_broken_files_the_first_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    for number in 0..300 {
        save(
            at,
            10 * number,
            &format!("{number}.parquet"),
            b"PAR1 no table",
        );
    }
    let whole = encode(&[machine("whole", None, 1)]).unwrap();
    save(at, 1, "whole.parquet", &whole);
    let output = ample(at, &["fleet", "report", "in"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert!(errors.contains("skipped 200 more"), "{errors}");
    assert!(errors.lines().count() < 110, "{errors}");
}
