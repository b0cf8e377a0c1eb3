// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans in an object store: read and delivered, and what happens when the store fails.

use super::common::save;
use super::hostile::machine;
use super::s3::{self, Fault, S3};
use super::{fleet, save_host, told};
use serde_json::Value;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, UNIX_EPOCH};

/// Runs the command in `directory` to its end, with these variables in its environment.
fn ample_with(directory: &Path, arguments: &[&str], variables: &[(&str, String)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ample"))
        .args(arguments)
        .current_dir(directory)
        .env_remove("AWS_CA_BUNDLE")
        .envs(variables.iter().cloned())
        .output()
        .unwrap()
}

/// A run with the store in its environment.
fn ask(store: &S3, directory: &Path, arguments: &[&str]) -> Output {
    ample_with(directory, arguments, &store.environment())
}

/// A study of sources with little patience; the study, and what was told beside it.
fn study(store: &S3, directory: &Path, sources: &[&str]) -> (Value, String) {
    let options = ["--json", "--min-free", "1", "--patience", "1"];
    let output = ask(
        store,
        directory,
        &[&["fleet", "report"], sources, &options].concat(),
    );
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    (serde_json::from_slice(&output.stdout).unwrap(), errors)
}

/// The scans of a fleet of four, in a store: three as they are, one as Parquet. Scans of saved
/// trees bear no time: that of the file stands for it, here and there.
fn stored(directory: &Path) -> S3 {
    let store = S3::start();
    let changed = UNIX_EPOCH + Duration::from_secs(s3::MODIFIED_SECONDS);
    for host in 1..=4 {
        let path = directory.join(format!("scans/host{host}.snapshot"));
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(changed).unwrap();
    }
    told(
        directory,
        &["fleet", "convert", "scans/host4.snapshot", "-o", "lake"],
    );
    for host in 1..=3 {
        let bytes = std::fs::read(directory.join(format!("scans/host{host}.snapshot"))).unwrap();
        store.put(&format!("2026/a/host{host}.snapshot"), bytes);
    }
    let bytes = std::fs::read(directory.join("lake/fleet-00000.parquet")).unwrap();
    store.put("2026/b/host4.parquet", bytes);
    store
}

#[test]
fn a_store_says_what_a_directory_says() {
    let directory = fleet();
    let at = directory.path();
    let store = stored(at);
    store.put("2026/b/.half", b"hidden".to_vec());
    store.put("2025/notes", b"elsewhere".to_vec());
    let (far, errors) = study(&store, at, &["s3://scans/2026"]);
    assert_eq!(errors, "");
    let near = super::study(at, &["scans"]);
    assert_eq!(far, near);
    // A pattern, an object and a file; what is named twice counts once.
    let (mixed, _) = study(
        &store,
        at,
        &[
            "s3://scans/2026/a/host[12]*",
            "s3://scans/2026/a/host2.snapshot",
            "scans/host[34]*",
        ],
    );
    assert_eq!(mixed["hosts_with_copies"], 0);
    assert_eq!(mixed, near);
    let lake = ask(
        &store,
        at,
        &["fleet", "convert", "s3://scans/2026/**/*", "-o", "far-lake"],
    );
    assert!(lake.status.success(), "{lake:?}");
    assert_eq!(super::study(at, &["far-lake"]), near);
}

/// A table of several megabytes that do not compress.
fn large_table() -> Vec<u8> {
    let mut random = ample_kit::random::SplitMix64::new(1);
    let rows = (0..3000).flat_map(|host| {
        let rack: String = (0..500)
            .map(|_| format!("{:08x}", random.below(1 << 32)))
            .collect();
        machine(&format!("host{host}"), Some(&rack), host)
    });
    ample_fleet::encode(&[rows.collect()]).unwrap()
}

#[test]
fn a_large_object_comes_in_parts() {
    let directory = fleet();
    let at = directory.path();
    let bytes = large_table();
    assert!(bytes.len() > 5 << 20, "{} bytes: two parts", bytes.len());
    save(at, &[("made/large.parquet", &bytes)]);
    let store = S3::start();
    store.put("large.parquet", bytes);
    let near = super::study(at, &["made"]);
    let (far, _) = study(&store, at, &["s3://scans"]);
    assert_eq!(far, near);
    assert!(
        store
            .requests()
            .iter()
            .filter(|line| line.contains("large"))
            .count()
            > 1
    );
    store.put(
        "small.snapshot",
        std::fs::read(at.join("scans/host1.snapshot")).unwrap(),
    );
    for fault in [
        Fault::Flipped("large"),
        Fault::Shorter("large"),
        Fault::Truncated("large"),
    ] {
        store.fail(std::slice::from_ref(&fault));
        let (far, errors) = study(&store, at, &["s3://scans"]);
        assert_eq!(far["scans"]["hosts"], 1, "{fault:?}");
        assert_eq!(far["skipped_files"][0]["file"], "s3://scans/large.parquet");
        assert!(
            errors.contains("skipped s3://scans/large.parquet"),
            "{fault:?}: {errors}"
        );
    }
}

#[test]
fn an_object_that_comes_wrong_is_named_and_counts_nowhere() {
    let directory = fleet();
    let at = directory.path();
    let store = stored(at);
    let without = |host: usize| {
        let sources: Vec<String> = (1..=4)
            .filter(|own| *own != host)
            .map(|own| format!("scans/host{own}.snapshot"))
            .collect();
        super::study(at, &sources.iter().map(String::as_str).collect::<Vec<_>>())
    };
    for (fault, key, reason) in [
        (Fault::Silent("host2"), "2026/a/host2.snapshot", ""),
        (Fault::Trickle("host2"), "2026/a/host2.snapshot", ""),
        (Fault::Truncated("host2"), "2026/a/host2.snapshot", ""),
        (
            Fault::Shorter("host2"),
            "2026/a/host2.snapshot",
            "list of the store",
        ),
        (Fault::Flipped("host2"), "2026/a/host2.snapshot", ""),
        (Fault::Gone("host2"), "2026/a/host2.snapshot", "not found"),
        (Fault::Newer("host2"), "2026/a/host2.snapshot", "changed"),
    ] {
        store.fail(std::slice::from_ref(&fault));
        let (mut far, errors) = study(&store, at, &["s3://scans"]);
        let named = far["skipped_files"].as_array().unwrap().clone();
        assert_eq!(named.len(), 1, "{fault:?}: {named:?}");
        assert_eq!(named[0]["file"], format!("s3://scans/{key}"), "{fault:?}");
        assert!(
            errors.contains(reason) && errors.contains(key),
            "{fault:?}: {errors}"
        );
        far["skipped_files"] = serde_json::json!([]);
        assert_eq!(far, without(2), "{fault:?}");
    }
    // A byte of a table may say nothing that the study asks for.
    store.fail(&[Fault::Flipped("host4")]);
    let (mut far, errors) = study(&store, at, &["s3://scans"]);
    if far["skipped_files"] == serde_json::json!([]) {
        assert_eq!(far, without(0), "{errors}");
    } else {
        assert!(errors.contains("2026/b/host4.parquet"), "{errors}");
        far["skipped_files"] = serde_json::json!([]);
        assert_eq!(far, without(4));
    }
}

#[test]
fn a_store_that_fails_altogether_is_an_error_and_no_small_fleet() {
    let directory = fleet();
    let at = directory.path();
    let store = stored(at);
    let bytes = std::fs::read(at.join("scans/host1.snapshot")).unwrap();
    for number in 0..20 {
        store.put(&format!("2026/c/copy{number}.snapshot"), bytes.clone());
    }
    for (faults, word) in [
        (vec![Fault::Silent("")], "cannot list s3://scans"),
        (vec![Fault::Status(503)], "cannot list s3://scans"),
        (vec![Fault::Status(403)], "cannot list s3://scans"),
        (vec![Fault::Garbage], "cannot list s3://scans"),
        (vec![Fault::Circle], "go in a circle"),
        (vec![Fault::Endless(2)], "the list has no end"),
        (
            vec![Fault::Silent("copy")],
            "could not be read, the last one",
        ),
        (
            vec![Fault::Broken("copy")],
            "could not be read, the last one",
        ),
        (
            vec![Fault::Truncated("copy")],
            "could not be read, the last one",
        ),
    ] {
        store.fail(&faults);
        let arguments = ["fleet", "report", "s3://scans/2026", "--patience", "1"];
        let output = ask(&store, at, &arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{faults:?}: {errors}");
        assert!(errors.contains(word), "{faults:?}: {errors}");
        assert!(output.stdout.is_empty(), "{faults:?}");
    }
    // Nobody listens there, nothing is there, and nobody knows how to get there.
    store.fail(&[]);
    let mut elsewhere = store.environment();
    elsewhere[0].1 = "http://127.0.0.1:1".into();
    let mut plain = store.environment();
    plain[1].1 = "false".into();
    for (address, environment, word) in [
        ("s3://scans/2026", elsewhere, "cannot list"),
        ("s3://scans/2026", plain, "AWS_ALLOW_HTTP"),
        (
            "s3://scans/1999",
            store.environment(),
            "nothing at s3://scans/1999",
        ),
        ("s3://", store.environment(), "no bucket"),
        ("gs://scans/2026", store.environment(), "gs://"),
    ] {
        let arguments = ["fleet", "report", address, "--patience", "1"];
        let output = ample_with(at, &arguments, &environment);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{address}: {errors}");
        assert!(errors.contains(word), "{address}: {errors}");
    }
}

#[test]
fn an_agent_delivers_to_a_store_and_keeps_what_it_does_not_take() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    save_host(at, "web1", 3600, 2, 1);
    save(at, &[("root-web1/proc/vmstat", b"nr_free_pages 5\n")]);
    let store = S3::start();
    let agent = ["agent", "--once", "--root", "root-web1", "--spool", "spool"];
    let agent = [&agent[..], &["--deliver", "s3://scans/2026/web"]].concat();
    store.fail(&[Fault::Status(503)]);
    let late = ask(&store, at, &agent);
    let errors = String::from_utf8_lossy(&late.stderr);
    assert_eq!(late.status.code(), Some(2), "{errors}");
    assert!(
        errors.contains("stay in the spool") && errors.contains("s3://scans"),
        "{errors}"
    );
    store.fail(&[]);
    let after = ask(&store, at, &agent);
    assert!(after.status.success(), "{after:?}");
    let objects = store.objects();
    assert_eq!(objects.len(), 2, "the scan that waited, and the new one");
    assert!(
        objects
            .keys()
            .all(|key| key.starts_with("2026/web/scan-web1-")),
        "{objects:?}"
    );
    // Two scans of one second are one to the study.
    let (far, _) = study(&store, at, &["s3://scans/2026"]);
    assert_eq!(far["skipped_files"], serde_json::json!([]));
    assert_eq!(far["scans"]["hosts"], 1);
}

#[test]
fn a_scan_that_a_store_refuses_holds_up_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    save_host(at, "web1", 3600, 2, 1);
    save(
        at,
        &[
            ("root-web1/proc/vmstat", b"nr_free_pages 5\n"),
            ("spool/scan-old-1.parquet", b"the first of all"),
        ],
    );
    let store = S3::start();
    store.fail(&[Fault::Broken("scan-old")]);
    let agent = ["agent", "--once", "--root", "root-web1", "--spool", "spool"];
    let agent = [&agent[..], &["--deliver", "s3://scans/2026"]].concat();
    let output = ask(&store, at, &agent);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("scan-old-1.parquet"), "{errors}");
    let objects: Vec<String> = store.objects().into_keys().collect();
    assert_eq!(objects.len(), 1, "{objects:?}");
    assert!(objects[0].starts_with("2026/scan-web1-"), "{objects:?}");
}

/// What the agent takes as a role is what the study reads.
#[test]
fn a_label_is_as_long_as_a_table_may_have_it() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    save_host(at, "web1", 3600, 2, 1);
    save(at, &[("root-web1/proc/vmstat", b"nr_free_pages 5\n")]);
    let longest = "x".repeat(ample_fleet::LONGEST_TEXT_BYTES);
    let scan = |option: &str, label: &str| {
        let agent = ["agent", "--once", "--root", "root-web1", "--spool", "spool"];
        super::ample(at, &[&agent[..], &[option, label]].concat())
    };
    for option in ["--role", "--rack"] {
        let refused = scan(option, &format!("{longest}x"));
        assert_eq!(refused.status.code(), Some(2));
        let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(errors.contains("at most 4096 bytes"), "{errors}");
        assert!(!at.join("spool").exists() || option == "--rack");
        assert!(scan(option, &longest).status.success());
        let study = super::study(at, &["spool"]);
        assert_eq!(study["skipped_files"], serde_json::json!([]), "{option}");
        assert_eq!(study["scans"]["hosts"], 1);
    }
}
