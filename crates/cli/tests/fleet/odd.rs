// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows that cannot be true, copies that differ, files with odd names and of odd kinds.

use super::common::{ample, save};
use super::hostile::machine;
use super::{find, study, told};
use ample_fleet::{FleetRow, encode};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const NOVEMBER: i64 = 1_793_491_200;

/// Of a host of 64 MB, like [`machine`], with something changed in its row of 2 MB blocks.
fn changed(host: &str, change: impl Fn(&mut FleetRow)) -> Vec<FleetRow> {
    let mut rows = machine(host, None, 4);
    change(&mut rows[1]);
    rows
}

fn shares(study: &Value) -> Value {
    let at_2m = json!({ "size_bytes": 2 << 20, "definition": "K" });
    find(&study["unmovable"], &at_2m)["high"]["cdf"]["counts"].clone()
}

fn deliver(at: &Path, name: &str, scans: &[Vec<FleetRow>]) {
    save(at, &[(name, &encode(scans).unwrap())]);
}

#[test]
fn a_row_that_cannot_be_true_counts_nowhere() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    type Change = fn(&mut FleetRow);
    let changes: [(&str, Change); 9] = [
        ("internal", |row| {
            (row.internal_free_ppm_low, row.internal_free_ppm_high) = (Some(-5), Some(-5));
        }),
        ("internal-order", |row| {
            (row.internal_free_ppm_low, row.internal_free_ppm_high) = (Some(9), Some(8));
        }),
        ("free", |row| row.free_blocks = Some(30)),
        ("potential", |row| row.potential_blocks_high = Some(29)),
        ("definition", |row| {
            row.definition = Some("\u{1b}[2J".into());
        }),
        ("size", |row| row.size_bytes = Some((2 << 20) + 4096)),
        // Beside its host's 64 MB, of which 8 MB are free.
        ("few", |row| row.blocks = Some(10)),
        ("many", |row| row.blocks = Some(1 << 20)),
        ("more-free", |row| row.free_blocks = Some(5)),
    ];
    let mut scans = vec![machine("good", None, 8)];
    scans.extend(changes.map(|(host, change)| changed(host, change)));
    let mut source = machine("source", None, 32);
    source[1] = FleetRow {
        kind: Some("source".into()),
        source: Some("slab".into()),
        source_pages: Some(9),
        source_blocks_2m: Some(-1),
        host: source[0].host.clone(),
        schema_version: Some(2),
        unix_time_seconds: Some(NOVEMBER),
        ..FleetRow::default()
    };
    scans.push(source);
    deliver(at, "in/a.parquet", &scans);
    let found = study(at, &["in"]);
    let rows = found["problems"].as_array().unwrap();
    let count = |key: &str| -> u64 { rows.iter().map(|row| row[key].as_u64().unwrap()).sum() };
    assert_eq!(count("row_count"), 10, "{rows:?}");
    assert_eq!(shares(&found), json!([[250, 1]]));
    assert_eq!(found["scans"]["hosts"], 11, "their machines count");
    let text = told(at, &["fleet", "report", "in"]);
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn of_copies_that_differ_one_counts_as_a_whole() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    // 30 of 32 blocks, and 32 of 256 of a machine four times as large.
    let mut large = machine("a", None, 32);
    large[0].memory_bytes = Some(512 << 20);
    large[1].blocks = Some(256);
    deliver(at, "in/a.parquet", &[machine("a", None, 30)]);
    deliver(at, "in/b.parquet", &[large]);
    let found = study(at, &["in"]);
    assert_eq!(shares(&found), json!([[937, 1]]));
    assert_eq!(found["days"][0]["median"], 0.937);
    assert_eq!(found["worst"][0]["unmovable_blocks_high"], 30);
    assert_eq!(found["worst"][0]["blocks"], 32);
}

#[test]
fn a_day_has_hosts_and_scans() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let hour = |hour: i64| {
        let mut rows = machine("a", None, 4);
        for row in &mut rows {
            row.unix_time_seconds = Some(NOVEMBER + 3600 * hour);
        }
        rows
    };
    let scans: Vec<_> = (0..24).map(hour).collect();
    deliver(at, "in/a.parquet", &scans);
    let found = study(at, &["in"]);
    let day = &found["days"][0];
    assert_eq!((&day["hosts"], &day["scans"]), (&json!(1), &json!(24)));
    assert_eq!(
        day["half_width"],
        found["unmovable"][0]["high"]["half_width"]
    );
    let none = ["fleet", "report", "in", "--from", "2031-01-01"];
    assert!(told(at, &none).contains("No host has two scans between the dates"));
    // More than any host has, and more than the engine's numbers.
    let most = [
        "fleet",
        "report",
        "in",
        "--json",
        "--min-free",
        "9223372036854775808",
    ];
    let most: Value = serde_json::from_str(&told(at, &most)).unwrap();
    assert_eq!(most["free_contiguity"], json!([]));
}

#[test]
fn of_many_racks_the_worst_are_shown_and_the_rest_counted() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let host = |n: i64| machine(&format!("h{n}"), Some(&format!("r{n}")), n);
    deliver(at, "in/a.parquet", &(0..14).map(host).collect::<Vec<_>>());
    let text = told(at, &["fleet", "report", "in"]);
    assert!(text.contains("and 4 more"), "{text}");
}

/// A table that packs so well that it is read where it lies: one scan, delivered many times.
fn packed(host: &str) -> Vec<u8> {
    let rows = vec![machine(host, None, 4); 10_000].concat();
    let bytes = encode(&[rows]).unwrap();
    assert!(bytes.len() < 40_000, "{}", bytes.len());
    bytes
}

#[test]
fn a_name_that_looks_like_a_pattern_is_a_name() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let (a, b) = (packed("a"), packed("b"));
    save(
        at,
        &[("odd[1]/x*y.parquet", &a), ("odd[1]/xzy.parquet", &b)],
    );
    let hosts = |sources: &[&str]| study(at, sources)["scans"]["hosts"].clone();
    assert_eq!(hosts(&["odd[1]/x*y.parquet"]), 1);
    assert_eq!(hosts(&["odd[1]"]), 2);
    let not_text = OsStr::from_bytes(b"odd[1]/\xff.parquet");
    std::fs::write(at.join(not_text), &a).unwrap();
    std::fs::write(at.join("odd[1]/new\nline.parquet"), &a).unwrap();
    let found = study(at, &["odd[1]"]);
    assert_eq!(found["scans"]["hosts"], 2);
    let skipped = found["skipped_files"].as_array().unwrap();
    assert_eq!(skipped.len(), 2, "{skipped:?}");
    let told = skipped.iter().filter_map(|file| file["reason"].as_str());
    assert!(told.into_iter().all(|why| why.contains("rename it")));
    // A folder with such a name beside a pattern.
    let output = ample(at, &["fleet", "report", "odd?1?/nope*"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("no file fits"));
}

#[test]
fn a_damaged_table_that_packs_well_says_nothing_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let whole = packed("a");
    save(at, &[("in/a.parquet", &whole)]);
    let wanted = study(at, &["in"]);
    let mut refused = 0;
    for part in 1..12 {
        let mut damaged = whole.clone();
        damaged[whole.len() * part / 12] ^= 1 << (part % 8);
        save(at, &[("in/a.parquet", &damaged)]);
        let output = ample(at, &["fleet", "report", "in", "--json"]);
        match output.status.code() {
            Some(0) => {
                let found: Value = serde_json::from_slice(&output.stdout).unwrap();
                assert_eq!(found["unmovable"], wanted["unmovable"], "part {part}");
            }
            code => {
                assert_eq!(code, Some(2), "part {part}");
                refused += 1;
            }
        }
    }
    assert!(refused > 3, "{refused} of 11 are noticed");
}

#[test]
fn what_has_no_end_or_leads_nowhere_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    deliver(at, "in/a.parquet", &[machine("a", None, 4)]);
    std::os::unix::fs::symlink("gone", at.join("in/dangling.snap")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", at.join("zero.parquet")).unwrap();
    let found = study(at, &["in", "zero.parquet"]);
    assert_eq!(found["scans"]["hosts"], 1);
    let skipped = found["skipped_files"].as_array().unwrap();
    let file = |at: usize| skipped[at]["file"].as_str().unwrap_or_default();
    assert_eq!(skipped.len(), 2, "{skipped:?}");
    assert!(file(0).ends_with("dangling.snap") && file(1).ends_with("zero.parquet"));
}

#[test]
fn a_made_fleet_has_hosts_and_scans_that_can_be() {
    let directory = tempfile::tempdir().unwrap();
    for (what, number) in [
        ("--hosts", "0"),
        ("--scans", "0"),
        ("--hosts", "18446744073709551615"),
        ("--scans", "9223372036854775807"),
    ] {
        let arguments = ["fleet", "generate", "x", "-o", "made", what, number];
        let output = ample(directory.path(), &arguments);
        assert_eq!(output.status.code(), Some(2), "{what} {number}");
    }
}
