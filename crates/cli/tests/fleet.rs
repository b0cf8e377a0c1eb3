// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample fleet` as a user meets it: files of several hosts in, one picture out.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

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
    let root = directory.join(format!("root-{name}"));
    for (file, bytes) in files {
        let path = root.join("proc").join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

fn ample(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ample"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap()
}

/// Four hosts with 1 to 4 unmovable blocks of 8 and 3 to 0 free ones.
fn fleet(format: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("scans")).unwrap();
    for host in 1..=4 {
        let name = format!("host{host}");
        save_host(directory.path(), &name, 1000 * host as u32, host, 4 - host);
        let (root, out) = (format!("root-{name}"), format!("scans/{name}.{format}"));
        let arguments = ["scan", "--root", &root, "--format", format, "-o", &out];
        let output = ample(directory.path(), &arguments);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
    directory
}

fn study(directory: &Path) -> Value {
    let arguments = ["fleet", "scans", "--json", "--min-free", "0"];
    let output = ample(directory, &arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn check(study: &Value) {
    assert_eq!(study["schema"], "ample.fleet/1");
    assert_eq!(study["hosts"], 4);
    let unmovable = &study["unmovable"][0];
    assert_eq!(unmovable["size_bytes"], 2 << 20);
    let high = &unmovable["definitions"]["K"]["high"];
    assert_eq!(high["hosts"], 4);
    assert_eq!(high["min"], 0.125);
    assert_eq!(high["median"], 0.3125);
    assert_eq!(high["max"], 0.5);
    // The host without free memory has no free contiguity to tell of.
    assert_eq!(study["free_contiguity"][0]["ratio"]["hosts"], 3);
    assert_eq!(study["sources_ratio"]["slab"], 1.0);
    let correlation = &study["correlation_with_uptime"];
    assert_eq!(correlation["hosts"], 4);
    assert!(correlation["unmovable_ratio_2m"].as_f64().unwrap() > 0.999);
    assert!(correlation["free_blocks_2m"].as_f64().unwrap() < -0.999);
}

#[test]
fn snapshots_of_hosts_add_up() {
    let directory = fleet("snapshot");
    check(&study(directory.path()));
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_files_say_the_same() {
    let directory = fleet("parquet");
    check(&study(directory.path()));
}

#[test]
fn damaged_files_are_named_and_left_out() {
    let directory = fleet("snapshot");
    std::fs::write(directory.path().join("scans/notes.txt"), "not a scan").unwrap();
    let output = ample(directory.path(), &["fleet", "scans", "--min-free", "0"]);
    assert_eq!(output.status.code(), Some(0));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("skipped scans/notes.txt"), "{told}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("4 hosts") && text.contains("1 files skipped"),
        "{text}"
    );
    assert!(text.contains("paper"), "{text}");
}

#[test]
fn nothing_to_read_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("empty.snap"), "").unwrap();
    for arguments in [["fleet", "empty.snap"], ["fleet", "missing"]] {
        let output = ample(directory.path(), &arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("error"));
    }
}

#[test]
fn the_report_is_one_page_with_figures() {
    let directory = fleet("snapshot");
    let arguments = [
        "fleet",
        "scans",
        "--min-free",
        "0",
        "--report",
        "fleet.html",
    ];
    assert_eq!(ample(directory.path(), &arguments).status.code(), Some(0));
    let page = std::fs::read_to_string(directory.path().join("fleet.html")).unwrap();
    assert_eq!(page.matches("<figure>").count(), 2);
}
