// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample scan` as a user meets it: a saved machine in, output and exit code out.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const ANON: u64 = 1 << 5 | 1 << 12 | 1 << 14;
const BUDDY: u64 = 1 << 10;
const SLAB: u64 = 1 << 7;

/// Eight 2 MB blocks in one zone: 0–3 anonymous, 4–6 free, 7 free but for one slab page.
fn save_machine(directory: &Path) {
    let mut flags = vec![ANON; 4 * 512];
    flags.resize(8 * 512, BUDDY);
    flags[7 * 512 + 100] = SLAB;
    let flags: Vec<u8> = flags.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let zoneinfo = "Node 0, zone Normal\n  pages free 2047\n min 1\n low 2\n high 3\n \
                    spanned 4096\n present 4096\n managed 4096\n pagesets\n cpu: 0\n count: 0\n \
                    start_pfn: 0\n";
    let files: [(&str, &[u8]); 6] = [
        ("iomem", b"00000000-00ffffff : System RAM\n"),
        ("zoneinfo", zoneinfo.as_bytes()),
        ("buddyinfo", b"Node 0, zone Normal 0 0 1 1 1 1 1 1 1 3\n"),
        ("meminfo", b"MemTotal: 16384 kB\nMemFree: 8188 kB\n"),
        ("sys/kernel/osrelease", b"6.12.1\n"),
        ("kpageflags", &flags),
    ];
    for (name, bytes) in files {
        let path = directory.join("proc").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

fn machine() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    save_machine(directory.path());
    directory
}

fn ample(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ample"))
        .arg("scan")
        .args(arguments)
        .current_dir(directory)
        .env_remove("COLUMNS")
        .env("LC_ALL", "C.UTF-8")
        .output()
        .unwrap()
}

fn json(directory: &Path, arguments: &[&str]) -> Value {
    let output = ample(directory, arguments);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn json_holds_what_the_machine_is() {
    let machine = machine();
    let scan = json(machine.path(), &["--root", ".", "--json"]);
    assert_eq!(scan["schema"], "ample.scan/1");
    assert_eq!(scan["reader"], "procfs");
    assert_eq!(scan["kernel"], "6.12.1");
    assert_eq!(scan["memory_bytes"], 16 << 20);
    assert_eq!(scan["free_bytes"], 2047 * 4096);
    let size = &scan["sizes"][0];
    assert_eq!(size["size_bytes"], 2 << 20);
    assert_eq!(size["unmovable_ratio"], 0.125);
    assert_eq!(size["potential_ratio"], 0.875);
    assert_eq!(size["free_contiguity_ratio"], 1536.0 / 2047.0);
    assert_eq!(
        scan["definitions"]["K"]["sizes"][0]["unmovable_blocks"]["low"],
        1
    );
    assert_eq!(scan["definitions"]["P"]["unmovable_pages"]["high"], 1);
    assert!(scan["definitions"]["O"].is_null());
    assert!(scan["hostname"].is_null(), "absent, not empty");
    assert!(scan["duration_ns"].as_u64().unwrap() > 0);
    let slab = &scan["sources"][1];
    assert_eq!(
        (&slab["source"], &slab["pages"]),
        (&"slab".into(), &1.into())
    );
}

#[test]
fn a_snapshot_answers_like_the_machine() {
    let machine = machine();
    let saved = ["--root", ".", "--format", "snapshot", "-o", "host.snap"];
    assert_eq!(ample(machine.path(), &saved).status.code(), Some(0));
    let mut live = json(
        machine.path(),
        &["--root", ".", "--json", "--sizes", "64K,2M,8M"],
    );
    let mut kept = json(
        machine.path(),
        &["--snapshot", "host.snap", "--json", "--sizes", "64K,2M,8M"],
    );
    for scan in [&mut live, &mut kept] {
        for time in ["duration_ns", "cpu_ns"] {
            scan[time] = Value::Null;
        }
    }
    assert_eq!(live, kept);
    let diff = json(
        machine.path(),
        &["diff", "host.snap", "host.snap", "--json"],
    );
    assert_eq!(diff["schema"], "ample.scan-diff/1");
    assert_eq!(diff["changed_pages"], 0);
    assert_eq!(diff["blocks_2m_from_to"]["polluted"]["polluted"], 1);
}

#[test]
fn thresholds_decide_the_exit_code() {
    let machine = machine();
    let code = |expression: &str| {
        let output = ample(machine.path(), &["--root", ".", "--fail-if", expression]);
        (
            output.status.code().unwrap(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    assert_eq!(code("unmovable_ratio@2M>0.125").0, 0);
    let (status, message) = code("unmovable_ratio@2M>=0.125");
    assert_eq!(status, 1);
    assert!(
        message.contains("unmovable_ratio.K@2M is 0.1250"),
        "{message}"
    );
    assert_eq!(code("unmovable_ratio@8M>0").0, 2);
    assert_eq!(code("nonsense>0").0, 2);
    assert_eq!(code("unmovable_ratio.O>0").0, 2);
}

#[test]
fn bad_input_is_named_and_ends_with_2() {
    let machine = machine();
    std::fs::write(machine.path().join("foreign"), "PK\x03\x04 and so on").unwrap();
    let cases: [(&[&str], &str); 6] = [
        (
            &["--snapshot", "foreign"],
            "snapshot foreign: byte 0 (magic)",
        ),
        (
            &["--snapshot", "missing"],
            "cannot read snapshot missing: No such file",
        ),
        (&["--root", "nowhere"], "cannot read nowhere/proc/zoneinfo"),
        (&["--sizes", "3M"], "not a power of two"),
        (&["--watch", "0"], "0.1 to 86400"),
        (&["--root", ".", "--reader", "bpf"], "BPF reader"),
    ];
    for (arguments, message) in cases {
        let output = ample(machine.path(), arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(message), "{arguments:?}: {error}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn text_fits_its_width_and_has_no_colour_on_a_pipe() {
    let machine = machine();
    for columns in ["60", "80", "200"] {
        let output = Command::new(env!("CARGO_BIN_EXE_ample"))
            .args(["scan", "--root", "."])
            .current_dir(machine.path())
            .env("COLUMNS", columns)
            .env("LC_ALL", "C.UTF-8")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(!text.contains('\x1b'));
        assert!(text.contains("░░░░···█\n"), "{text}");
        let width: usize = columns.parse().unwrap();
        if width >= 80 {
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{columns}: {line}");
            }
        }
    }
}

#[test]
fn tables_for_machines_are_complete() {
    let machine = machine();
    let csv = ample(machine.path(), &["--root", ".", "--format", "csv"]);
    let csv = String::from_utf8(csv.stdout).unwrap();
    assert!(csv.starts_with("node,zone,metric,definition,size_bytes,kind,low,high\n"));
    assert!(
        csv.contains("\n,,unmovable_ratio,K,2097152,,0.125,0.125\n"),
        "{csv}"
    );
    assert!(
        csv.contains("\n0,Normal,free_blocks,,2097152,,3,3\n"),
        "{csv}"
    );
    assert!(csv.lines().all(|line| line.split(',').count() == 8));
    let metrics = ample(machine.path(), &["--root", ".", "--format", "openmetrics"]);
    let metrics = String::from_utf8(metrics.stdout).unwrap();
    assert!(metrics.ends_with("# EOF\n"));
    let line =
        "ample_unmovable_ratio{definition=\"K\",size_bytes=\"2097152\",bound=\"high\"} 0.125";
    assert!(metrics.contains(line), "{metrics}");
    // A sum over a family counts each page once: zones have families of their own.
    let sum = |family: &str| -> f64 {
        let lines = metrics
            .lines()
            .filter(|line| line.split(['{', ' ']).next() == Some(family));
        lines
            .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
            .sum()
    };
    let memory = f64::from(16 << 20);
    assert_eq!(sum("ample_memory_bytes"), memory);
    assert_eq!(sum("ample_zone_memory_bytes"), memory);
    let series = metrics
        .lines()
        .filter(|line| !line.starts_with('#'))
        .count();
    assert!(series < 200, "{series}");
}

/// An empty file of page flags is no machine of 0 bytes.
#[test]
fn a_machine_without_page_flags_is_an_error() {
    let machine = machine();
    std::fs::write(machine.path().join("proc/kpageflags"), "").unwrap();
    let output = ample(machine.path(), &["--root", ".", "--reader", "procfs"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(
        error.contains("kpageflags") && error.contains("no page"),
        "{error}"
    );
}

/// Whoever reads the file sees all of it, and what cannot be written leaves the old one.
#[test]
fn an_output_file_is_replaced_whole() {
    let machine = machine();
    let file = machine.path().join("scan.prom");
    let arguments = ["--root", ".", "--format", "openmetrics", "-o", "scan.prom"];
    assert!(ample(machine.path(), &arguments).status.success());
    let before = std::fs::metadata(&file).unwrap();
    assert!(ample(machine.path(), &arguments).status.success());
    let after = std::fs::metadata(&file).unwrap();
    use std::os::unix::fs::MetadataExt;
    assert_ne!(before.ino(), after.ino(), "written in place");
    assert!(std::fs::read_to_string(&file).unwrap().ends_with("# EOF\n"));
    let others = std::fs::read_dir(machine.path()).unwrap().count();
    assert_eq!(others, 2, "nothing but the saved machine and the file");
}
