// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample fleet` as a user meets it: files of several hosts in, one picture out.
#![cfg(feature = "fleet")]

#[path = "../common/mod.rs"]
mod common;
mod ended;
mod hostile;
mod many;
mod odd;
#[path = "../../../store/tests/s3/mod.rs"]
mod s3;
mod store;

use common::{ample, save};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};

const ANON: u64 = 1 << 5 | 1 << 12 | 1 << 14;
const BUDDY: u64 = 1 << 10;
const SLAB: u64 = 1 << 7;

/// A host of eight 2 MB blocks: `slab` of them hold one slab page, the last `free` are free.
fn save_host(directory: &Path, name: &str, uptime_s: u32, slab: usize, free: usize) {
    let mut flags = vec![ANON; 8 * 512];
    flags[(8 - free) * 512..].fill(BUDDY);
    for block in 0..slab {
        flags[block * 512 + 100] = SLAB;
    }
    let flags: Vec<u8> = flags.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let zoneinfo = "Node 0, zone Normal\n  pages free 0\n min 1\n low 2\n high 3\n \
                    spanned 4096\n present 4096\n managed 4096\n pagesets\n cpu: 0\n count: 0\n \
                    start_pfn: 0\n";
    let buddyinfo = format!("Node 0, zone Normal 0 0 0 0 0 0 0 0 0 {free}\n");
    let uptime = format!("{uptime_s}.50 1.00\n");
    let hostname = format!("{name}\n");
    let files: [(&str, &[u8]); 8] = [
        ("iomem", b"00000000-00ffffff : System RAM\n"),
        ("zoneinfo", zoneinfo.as_bytes()),
        ("buddyinfo", buddyinfo.as_bytes()),
        ("meminfo", b"MemTotal: 16384 kB\nMemFree: 8188 kB\n"),
        ("uptime", uptime.as_bytes()),
        ("sys/kernel/osrelease", b"6.12.1\n"),
        ("sys/kernel/hostname", hostname.as_bytes()),
        ("kpageflags", &flags),
    ];
    save(&directory.join(format!("root-{name}/proc")), &files);
}

/// Four hosts with 1 to 4 unmovable blocks of 8 and 3 to 0 free ones.
fn fleet() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("scans")).unwrap();
    for host in 1..=4 {
        let name = format!("host{host}");
        save_host(directory.path(), &name, 3600 * host as u32, host, 4 - host);
        let (root, out) = (format!("root-{name}"), format!("scans/{name}.snapshot"));
        let arguments = ["scan", "--root", &root, "--format", "snapshot", "-o", &out];
        told(directory.path(), &arguments);
    }
    directory
}

/// Standard output of a run that succeeds.
fn told(directory: &Path, arguments: &[&str]) -> String {
    let output = ample(directory, arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn study(directory: &Path, sources: &[&str]) -> Value {
    let options = ["--json", "--min-free", "1"];
    let arguments = [&["fleet", "report"], sources, &options].concat();
    serde_json::from_str(&told(directory, &arguments)).unwrap()
}

/// The row of a list whose fields are those of `wanted`.
fn find<'a>(rows: &'a Value, wanted: &Value) -> &'a Value {
    let own = |row: &&Value| {
        let mut fields = wanted.as_object().unwrap().iter();
        fields.all(|(key, value)| row[key] == *value)
    };
    rows.as_array().unwrap().iter().find(own).unwrap()
}

fn check(study: &Value) {
    assert_eq!(study["schema"], "ample.fleet/2");
    assert_eq!(study["scans"]["hosts"], 4);
    let at_2m = json!({ "size_bytes": 2 << 20, "definition": "K" });
    let high = &find(&study["unmovable"], &at_2m)["high"];
    assert_eq!(high["hosts"], 4);
    assert_eq!(
        high["cdf"]["counts"],
        json!([[125, 1], [250, 1], [375, 1], [500, 1]])
    );
    assert_eq!(
        (&high["p10"], &high["median"], &high["p90"]),
        (&json!(0.125), &json!(0.25), &json!(0.5))
    );
    // The host without free memory has no free contiguity to tell of.
    assert_eq!(
        find(&study["free_contiguity"], &json!({ "size_bytes": 2 << 20 }))["hosts"],
        3
    );
    // No machine has a whole block of 32 MB.
    let at_32m = json!({ "size_bytes": 32 << 20, "definition": "K" });
    assert_eq!(
        find(&study["potential"], &at_32m)["hosts_without_ratio"],
        1.0
    );
    let pages: u64 = study["source_pages"]
        .as_object()
        .unwrap()
        .values()
        .map(|n| n.as_u64().unwrap())
        .sum();
    assert_eq!(
        (study["source_pages"]["slab"].as_u64(), pages),
        (Some(10), 10)
    );
    let correlation = &study["correlation_with_uptime"];
    assert_eq!(correlation["hosts"], 4);
    assert!(correlation["unmovable_2m"].as_f64().unwrap() > 0.999);
    assert!(correlation["free_2m"].as_f64().unwrap() < -0.999);
    let worst = &study["worst"][0];
    assert_eq!(
        (&worst["host"], &worst["sources"][0]["source"]),
        (&json!("host4"), &json!("slab"))
    );
}

#[test]
fn snapshots_of_hosts_add_up() {
    let directory = fleet();
    check(&study(directory.path(), &["scans"]));
}

#[test]
fn parquet_files_say_the_same() {
    let directory = fleet();
    told(
        directory.path(),
        &["fleet", "convert", "scans", "-o", "lake"],
    );
    check(&study(directory.path(), &["lake"]));
    let again = ample(
        directory.path(),
        &["fleet", "convert", "scans", "-o", "lake"],
    );
    assert_eq!(
        again.status.code(),
        Some(2),
        "a directory with files is left alone"
    );
    // Both forms of the same scans: each host counts once, and the copies are told.
    let both = study(directory.path(), &["scans", "lake"]);
    check_copies(&both);
}

/// Where nobody reads what was made the command has done its work; where it cannot be written the
/// command says so.
#[test]
fn the_last_line_may_go_nowhere() {
    let directory = fleet();
    let convert = |to: &str, out: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ample"));
        command.args(["fleet", "convert", "scans", "-o", to]);
        let command = command.current_dir(directory.path()).stdout(out);
        command.stderr(Stdio::piped()).spawn().unwrap()
    };
    let (nobody, closed) = std::io::pipe().unwrap();
    drop(nobody);
    let unread = convert("unread", closed.into()).wait_with_output().unwrap();
    assert_eq!(unread.status.code(), Some(0));
    let full = std::fs::File::options().write(true).open("/dev/full");
    let full = convert("full", full.unwrap().into()).wait_with_output();
    let full = full.unwrap();
    assert_eq!(full.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&full.stderr).contains("No space left"));
    for lake in ["unread", "full"] {
        check(&study(directory.path(), &[lake]));
    }
}

fn check_copies(study: &Value) {
    assert_eq!(study["scans"]["hosts"], 4);
    assert_eq!(study["hosts_with_copies"], 4);
    assert_eq!(study["scans"]["scan_count"], 4);
    assert_eq!(study["source_pages"]["slab"], 10);
    assert_eq!(study["days"][0]["hosts"], 4);
}

#[test]
fn what_cannot_be_used_is_named_and_left_out() {
    let directory = fleet();
    let scans = directory.path().join("scans");
    told(
        directory.path(),
        &["fleet", "convert", "scans", "-o", "lake"],
    );
    let whole = std::fs::read(directory.path().join("lake/fleet-00000.parquet")).unwrap();
    std::fs::write(scans.join("half.parquet"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(scans.join("empty.parquet"), "").unwrap();
    std::fs::write(scans.join("notes.txt"), "not a scan").unwrap();
    let output = ample(
        directory.path(),
        &["fleet", "report", "scans", "--min-free", "1"],
    );
    assert_eq!(output.status.code(), Some(0));
    let told = String::from_utf8_lossy(&output.stderr);
    for name in ["half.parquet", "empty.parquet", "notes.txt"] {
        assert!(told.contains(&format!("skipped scans/{name}")), "{told}");
    }
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.starts_with("Half of 4 hosts") && text.contains("3 files could not be used"),
        "{text}"
    );
}

#[test]
fn a_made_fleet_is_the_same_with_any_number_of_threads() {
    let directory = fleet();
    let make = |name: &str| {
        let arguments = [
            "fleet", "generate", "scans", "-o", name, "--hosts", "300", "--scans", "5",
        ];
        told(directory.path(), &arguments);
        let one = ["fleet", "report", name, "--json", "--threads", "1"];
        let four = ["fleet", "report", name, "--json", "--threads", "4"];
        let (one, four) = (told(directory.path(), &one), told(directory.path(), &four));
        assert_eq!(one, four);
        one
    };
    let first = make("a");
    assert_eq!(first, make("b"));
    let study: Value = serde_json::from_str(&first).unwrap();
    assert_eq!(study["problems"], json!([]));
    assert_eq!(study["scans"]["scan_count"], 1500);
    assert_eq!(study["drift"]["hosts"], 300);
}

#[test]
fn nothing_to_read_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("empty.snap"), "").unwrap();
    for source in ["empty.snap", "missing"] {
        let output = ample(directory.path(), &["fleet", "report", source]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("error"));
    }
}

#[test]
fn the_report_is_one_page_with_figures() {
    let directory = fleet();
    let arguments = [
        "fleet",
        "report",
        "scans",
        "--min-free",
        "1",
        "--page",
        "fleet.html",
    ];
    told(directory.path(), &arguments);
    let page = std::fs::read_to_string(directory.path().join("fleet.html")).unwrap();
    assert_eq!(page.matches("<figure>").count(), 3);
    assert!(page.contains("host4"));
}

const DRAWN: &str = "servers = 4
seed = 5
[[group]]
role = \"web\"
share = 1
workload = \"web\"
memory_gb = { one_of = [0.25, 0.5] }
uptime_h = { uniform = [0.02, 0.05] }
kernel_factor = { log_uniform = [0.5, 2.0] }
";

#[test]
fn a_drawn_fleet_is_the_same_in_parts_and_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    save(at, &[("spec.toml", DRAWN.as_bytes())]);
    let simulate = |to: &str, more: &[&str]| {
        let output = ample(
            at,
            &[&["fleet", "simulate", "spec.toml", "-o", to], more].concat(),
        );
        let told = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(told).unwrap())
    };
    let (code, told) = simulate("whole", &[]);
    assert_eq!(code, Some(0), "{told}");
    assert!(
        told.contains("4 of 4 servers under linux, 4 of them new"),
        "{told}"
    );
    let (_, told) = simulate("parts", &["--servers", "2..4"]);
    assert!(told.contains("2 of 4 servers"), "{told}");
    let (_, told) = simulate("parts", &[]);
    assert!(told.contains("2 of them new"), "{told}");
    for number in 0..4 {
        let file = |of: &str| std::fs::read(at.join(format!("{of}/server-00000{number}.parquet")));
        assert_eq!(file("whole").unwrap(), file("parts").unwrap());
    }
    let (code, told) = simulate("whole", &["--policy", "contiguitas"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("another fleet or policy"), "{told}");
    let (code, told) = simulate("other", &["--servers", "2..5"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("the fleet has 4"), "{told}");
    let output = ample(at, &["fleet", "report", "whole", "--json"]);
    let study: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(study["scans"]["hosts"], 4, "{study}");
    assert_eq!(study["skipped_files"], json!([]), "{study}");
}
