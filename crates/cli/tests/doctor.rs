// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample doctor` on saved trees, and what is made from the table of options.

mod common;

use common::{ample, save};
use serde_json::Value;
use std::path::Path;

/// State and advice of a check of a saved tree.
fn check(root: &Path, name: &str) -> (String, bool) {
    let output = ample(root, &["doctor", "--root", ".", "--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = found["checks"].as_array().unwrap();
    let own = checks.iter().find(|check| check["name"] == name).unwrap();
    (
        own["state"].as_str().unwrap().into(),
        own["advice"].is_string(),
    )
}

const STATUS: &[u8] = b"Name:\tample\nUid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n";
const THP: &str = "sys/kernel/mm/transparent_hugepage/enabled";
const POOL: &str = "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages";

#[test]
fn a_machine_with_everything_needs_no_advice() {
    let root = tempfile::tempdir().unwrap();
    let files: [(&str, &[u8]); 14] = [
        ("proc/self/status", STATUS),
        ("sys/kernel/tracing/events/kmem/mm_page_alloc/id", b"1\n"),
        ("proc/kpageflags", &[0; 8]),
        ("proc/cmdline", b"quiet page_owner=on hugetlb_cma=4G\n"),
        ("proc/cpuinfo", b"flags\t\t: fpu pdpe1gb lm\n"),
        ("proc/sys/vm/overcommit_memory", b"0\n"),
        ("sys/kernel/btf/vmlinux", b"BTF"),
        ("sys/kernel/debug/page_owner", b""),
        (THP, b"always [madvise] never\n"),
        ("sys/kernel/mm/transparent_hugepage/defrag", b"[madvise]\n"),
        (POOL, b"3\n"),
        ("sys/fs/cgroup/cgroup.controllers", b"cpu memory\n"),
        (
            "sys/kernel/mm/contiguitas/node0/unmovable_bytes",
            b"134217728\n",
        ),
        (
            "sys/kernel/mm/contiguitas/node0/unmovable_above_bytes",
            b"3145728\n",
        ),
    ];
    save(root.path(), &files);
    for name in [
        "rights",
        "page flags",
        "page_owner",
        "page events",
        "huge pages",
        "1 GB pages",
        "reserves",
    ] {
        assert_eq!(check(root.path(), name), ("ok".into(), false), "{name}");
    }
    for name in ["control groups", "Contiguitas"] {
        assert_eq!(check(root.path(), name), ("ok".into(), false), "{name}");
    }
    let output = ample(root.path(), &["doctor", "--root", "."]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("node0: 128 MiB unmovable and 3 MiB above the border")
            && text.contains("hugetlb_cma=4G"),
        "{text}"
    );
}

#[test]
fn each_thing_that_lacks_has_its_advice() {
    let root = tempfile::tempdir().unwrap();
    save(
        root.path(),
        &[("proc/cmdline", b""), ("proc/cpuinfo", b"flags : fpu\n")],
    );
    let output = ample(root.path(), &["doctor", "--root", "."]);
    assert_eq!(output.status.code(), Some(1), "pages cannot be looked at");
    assert!(String::from_utf8_lossy(&output.stdout).contains("What to do"));
    assert_eq!(check(root.path(), "page flags"), ("missing".into(), true));
    assert_eq!(check(root.path(), "page events"), ("unknown".into(), true));
    assert_eq!(check(root.path(), "rights"), ("unknown".into(), false));
    for (status, state) in [
        ("Uid:\t7\t7\nCapEff:\t0000000000200000\n", "ok"),
        ("Uid:\t0\t0\nCapEff:\t00000000a80425fb\n", "ok"),
        ("Uid:\t7\t7\nCapEff:\t0000000000000004\n", "ok"),
        ("Uid:\t7\t7\nCapEff:\t0000000000000000\n", "missing"),
        ("CapEff:\tnonsense\n", "unknown"),
    ] {
        save(root.path(), &[("proc/self/status", status.as_bytes())]);
        assert_eq!(check(root.path(), "rights").0, state, "{status}");
    }
    assert_eq!(check(root.path(), "1 GB pages"), ("missing".into(), false));
    assert_eq!(check(root.path(), "Contiguitas"), ("missing".into(), true));
    save(
        root.path(),
        &[(THP, b"always madvise [never]\n"), (POOL, b"0\n")],
    );
    save(root.path(), &[("proc/cpuinfo", b"flags : pdpe1gb\n")]);
    assert_eq!(check(root.path(), "huge pages"), ("off".into(), true));
    assert_eq!(check(root.path(), "1 GB pages"), ("off".into(), true));
}

#[test]
fn bytes_that_are_no_text_are_no_panic() {
    let root = tempfile::tempdir().unwrap();
    let noise: Vec<u8> = (0..=255).collect();
    let files = [
        "proc/cmdline",
        "proc/cpuinfo",
        THP,
        POOL,
        "sys/kernel/security/lockdown",
    ];
    save(root.path(), &files.map(|file| (file, noise.as_slice())));
    assert_eq!(
        ample(root.path(), &["doctor", "--root", "."]).status.code(),
        Some(1)
    );
    assert_eq!(
        ample(root.path(), &["doctor", "--root", "missing"])
            .status
            .code(),
        Some(2)
    );
}

#[test]
fn every_command_has_a_manual_page_and_completions() {
    let directory = tempfile::tempdir().unwrap();
    let output = ample(directory.path(), &["man", "man1"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let help = ample(directory.path(), &["--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    let names = commands.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    for name in names.filter_map(|line| line.split_whitespace().next()) {
        if name != "help" {
            let page = directory.path().join(format!("man1/ample-{name}.1"));
            let page = std::fs::read_to_string(&page).unwrap();
            assert!(page.contains(".SH SYNOPSIS"), "{name}");
        }
    }
    for shell in ["bash", "zsh", "fish"] {
        let output = ample(directory.path(), &["completions", shell]);
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(
            script.contains("whatif") && script.contains("fail-if"),
            "{shell}"
        );
    }
    let typo = ample(directory.path(), &["scna"]);
    assert_eq!(typo.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&typo.stderr).contains("'scan'"),
        "{typo:?}"
    );
}
