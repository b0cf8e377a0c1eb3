// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans that are wrong, old, doubled, skewed or made to harm: what they do to a study.

use super::common::{ample, save};
use super::{find, fleet, told};
use ample_fleet::{FleetRow, encode};
use serde_json::{Value, json};
use std::path::Path;

/// Every generated scan is of that day: 1 November 2026, two days before it, and so on.
const NOVEMBER: i64 = 1_793_491_200;
const DAY: i64 = 86_400;

/// Two rows of a host of 64 MB of which `unmovable` of 32 blocks are unmovable.
pub fn machine(host: &str, rack: Option<&str>, unmovable: i64) -> Vec<FleetRow> {
    let all = FleetRow {
        host: Some(host.into()),
        rack: rack.map(Into::into),
        schema_version: Some(2),
        unix_time_seconds: Some(NOVEMBER),
        uptime_seconds: Some(DAY),
        ..FleetRow::default()
    };
    let unmovable = Some(unmovable % 33);
    vec![
        FleetRow {
            kind: Some("machine".into()),
            memory_bytes: Some(64 << 20),
            free_bytes: Some(8 << 20),
            ..all.clone()
        },
        FleetRow {
            kind: Some("size".into()),
            definition: Some("K".into()),
            size_bytes: Some(2 << 20),
            blocks: Some(32),
            free_blocks: Some(0),
            unmovable_blocks_low: unmovable,
            unmovable_blocks_high: unmovable,
            potential_blocks_low: Some(0),
            potential_blocks_high: Some(0),
            ..all
        },
    ]
}

/// The rows with something changed in each.
fn with(mut rows: Vec<FleetRow>, change: impl Fn(&mut FleetRow)) -> Vec<FleetRow> {
    rows.iter_mut().for_each(change);
    rows
}

/// Writes scans, each as a file of its own.
fn deliver(at: &Path, scans: &[Vec<FleetRow>]) {
    for (number, rows) in scans.iter().enumerate() {
        let bytes = encode(std::slice::from_ref(rows)).unwrap();
        save(at, &[(&format!("in/{number}.parquet"), &bytes)]);
    }
}

fn study(at: &Path) -> Value {
    super::study(at, &["in"])
}

/// The distribution of unmovable 2 MB blocks.
fn unmovable(study: &Value) -> &Value {
    let at_2m = json!({ "size_bytes": 2 << 20, "definition": "K" });
    &find(&study["unmovable"], &at_2m)["high"]["cdf"]
}

#[test]
fn other_versions_of_the_table_are_counted_and_change_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let version = |host, version| with(machine(host, None, 32), |row| row.schema_version = version);
    deliver(at, &[machine("a", None, 4), machine("b", None, 8)]);
    let before = study(at);
    deliver(
        at,
        &[
            machine("a", None, 4),
            machine("b", None, 8),
            version("c", Some(1)),
            version("d", Some(3)),
            version("e", None),
            // Half a scan of another version: that half does not count.
            [version("a", Some(3)), machine("b", None, 8)].concat(),
        ],
    );
    let after = study(at);
    assert_eq!(unmovable(&after), unmovable(&before));
    let problem = find(
        &after["problems"],
        &json!({ "problem": "other schema version" }),
    );
    assert_eq!(
        (&problem["row_count"], &problem["hosts"]),
        (&8.into(), &4.into())
    );
    assert_eq!(after["hosts_with_copies"], 1);
}

#[test]
fn machines_of_one_name_are_told_by_their_memory_and_their_time_of_boot() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let later = |rows, seconds: i64, uptime: i64| {
        with(rows, |row| {
            row.unix_time_seconds = Some(NOVEMBER + seconds);
            row.uptime_seconds = Some(uptime);
        })
    };
    let large = with(later(machine("sizes", None, 1), 60, DAY + 60), |row| {
        row.memory_bytes = row.memory_bytes.map(|bytes| 2 * bytes);
        for blocks in [
            &mut row.blocks,
            &mut row.unmovable_blocks_low,
            &mut row.unmovable_blocks_high,
        ] {
            *blocks = blocks.map(|blocks| 2 * blocks);
        }
    });
    deliver(
        at,
        &[
            machine("sizes", None, 1),
            large,
            // Booted a day ago, then two days ago.
            machine("boots", None, 1),
            later(machine("boots", None, 1), 3600, 2 * DAY),
            // A restart, and a clock that was set by minutes: nothing to tell.
            machine("fine", None, 1),
            later(machine("fine", None, 1), 3600, 60),
            later(machine("fine", None, 1), 7200, 60 + 3600 + 300),
            // The same scan twice, with other values: the worse ones count.
            machine("twice", None, 3),
            machine("twice", None, 5),
        ],
    );
    let study = study(at);
    assert_eq!(study["scans"]["hosts_of_two_sizes"], 1);
    assert_eq!(study["scans"]["example_of_two_sizes"], "sizes");
    assert_eq!(
        study["boots_go_back"],
        json!({ "hosts": 1, "example": "boots" })
    );
    assert_eq!(study["hosts_with_copies"], 1);
    assert_eq!(unmovable(&study)["counts"], json!([[31, 3], [156, 1]]));
    let text = told(at, &["fleet", "report", "in", "--min-free", "1"]);
    for line in [
        "1 host with more than one copy of the latest scan",
        "with another size of memory from scan to scan",
        "1 host name with an earlier boot by a later scan",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn clocks_that_are_wrong_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let at_time = |host, seconds| {
        with(machine(host, None, 32), |row| {
            row.unix_time_seconds = Some(seconds)
        })
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.unwrap().as_secs() as i64;
    deliver(
        at,
        &[
            machine("good", None, 4),
            at_time("ahead", now + 2 * DAY),
            at_time("far-ahead", i64::MAX),
            at_time("young", 60),
            at_time("before", -5),
            at_time("behind", NOVEMBER - 30 * DAY),
        ],
    );
    let study = study(at);
    assert_eq!(study["scans"]["hosts"], 2);
    let of =
        |problem: &str| find(&study["problems"], &json!({ "problem": problem }))["hosts"].clone();
    assert_eq!(
        (of("time in the future"), of("no time")),
        (2.into(), 2.into())
    );
    assert_eq!(study["silent"], json!({ "hosts": 1, "example": "behind" }));
    assert_eq!(study["days"].as_array().unwrap().len(), 2);
}

#[test]
fn a_scan_that_cannot_be_counts_nowhere() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let bad = |host: &str, change: &dyn Fn(&mut FleetRow)| with(machine(host, None, 32), change);
    let scans = [
        machine("good", None, 4),
        bad("no-name", &|row| row.host = None),
        bad("free", &|row| {
            row.free_bytes = row.free_bytes.map(|_| 1 << 40)
        }),
        bad("negative", &|row| {
            row.memory_bytes = row.memory_bytes.map(|_| -1)
        }),
        bad("huge", &|row| {
            row.memory_bytes = row.memory_bytes.map(|_| i64::MAX)
        }),
        bad("uptime", &|row| row.uptime_seconds = Some(i64::MAX)),
    ];
    deliver(at, &scans);
    let study = study(at);
    assert_eq!(study["scans"]["hosts"], 1);
    assert_eq!(unmovable(&study)["counts"], json!([[125, 1]]));
    assert_eq!(study["days"][0]["cdf"]["counts"], json!([[125, 1]]));
    let rows = study["problems"].as_array().unwrap();
    let rows: u64 = rows
        .iter()
        .map(|row| row["row_count"].as_u64().unwrap())
        .sum();
    assert!(rows >= 5, "{study}");
}

#[test]
fn empty_fleets_are_said_to_be_empty() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    std::fs::create_dir(at.join("nothing")).unwrap();
    save(at, &[("rowless/a.parquet", &encode(&[]).unwrap())]);
    let full = with(machine("full", None, 32), |row| {
        row.free_bytes = row.free_bytes.map(|_| 0);
        row.uptime_seconds = None;
    });
    save(at, &[("full/a.parquet", &encode(&[full]).unwrap())]);
    for (source, word) in [
        ("nothing", "no scan that counts (0 files skipped"),
        ("rowless", "no scan that counts (1 files skipped"),
        ("nothing/*.parquet", "no file fits"),
    ] {
        let output = ample(at, &["fleet", "report", source, "--page", "page.html"]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{source}: {errors}");
        assert!(errors.contains(word), "{source}: {errors}");
        assert!(!at.join("page.html").exists(), "no page of nothing");
    }
    let little = ample(at, &["fleet", "report", "full", "--memory", "0"]);
    let errors = String::from_utf8_lossy(&little.stderr);
    for word in ["--memory 0 is too little", "fewer --threads"] {
        assert!(errors.contains(word), "{errors}");
    }
    // One host without a free page and without an uptime: a study, and no number that is none.
    let text = told(at, &["fleet", "report", "full", "--page", "page.html"]);
    let page = std::fs::read_to_string(at.join("page.html")).unwrap();
    for (what, told) in [("text", &text), ("page", &page)] {
        assert!(
            !told.contains("NaN") && !told.contains("inf "),
            "{what}: {told}"
        );
    }
    assert!(
        text.contains("This host has unmovable memory in "),
        "{text}"
    );
}

#[test]
fn names_command_neither_a_terminal_nor_a_browser() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let name = "\u{1b}[2Jweb<script>alert(1)</script>\nHalf of 9 hosts";
    let long = "x".repeat(4000);
    deliver(
        at,
        &[
            with(machine(name, Some(name), 9), |row| {
                row.role = Some(name.into());
                row.kernel = Some(long.clone());
            }),
            machine(&"y".repeat(5000), None, 9),
        ],
    );
    save(at, &[("in/\u{1b}[31m.snap", b"no snapshot")]);
    let output = ample(at, &["fleet", "report", "in", "--page", "page.html"]);
    assert!(output.status.success(), "{output:?}");
    for told in [&output.stdout, &output.stderr] {
        let text = String::from_utf8_lossy(told);
        assert!(
            !text.contains('\u{1b}') && !text.contains("\nHalf of 9"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.len() < 1000), "{text}");
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("a name of more than 4096 bytes"),
        "{errors}"
    );
    let page = std::fs::read_to_string(at.join("page.html")).unwrap();
    assert!(!page.contains("<script>alert"));
}

#[test]
fn sources_are_patterns_files_and_folders() {
    let directory = fleet();
    let at = directory.path();
    save(
        at,
        &[
            ("scans/.hidden.snapshot", b"no"),
            ("scans/[1].snapshot", b"no"),
        ],
    );
    let hosts = |sources: &[&str]| super::study(at, sources)["scans"]["hosts"].clone();
    assert_eq!(hosts(&["scans/host[12].snapshot"]), 2);
    assert_eq!(hosts(&["sc*/host?.snapshot", "scans/host1.snapshot"]), 4);
    assert_eq!(hosts(&["**/host3.snapshot"]), 1);
    let literal = ample(at, &["fleet", "report", "scans/[1].snapshot"]);
    let errors = String::from_utf8_lossy(&literal.stderr);
    assert!(errors.contains("skipped scans/[1].snapshot"), "{errors}");
    for (source, word) in [("scans/*.parquet", "no file fits"), ("scans/[", "pattern")] {
        let output = ample(at, &["fleet", "report", source]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(word), "{errors}");
    }
    let dates = [
        "fleet",
        "report",
        "scans",
        "--from",
        "2026-11-02",
        "--to",
        "2026-11-01",
    ];
    let output = ample(at, &dates);
    assert_eq!(output.status.code(), Some(2));
}
