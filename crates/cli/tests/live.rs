// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands that watch the machine they run on. They need root, BPF and the feature `bpf`;
//! elsewhere they say what is missing, and so do these tests.

use std::process::{Command, Output};

fn ample(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ample"))
        .args(arguments)
        .output()
        .unwrap()
}

/// The JSON that the command prints; `None`, with the reason, where it cannot watch.
fn json(arguments: &[&str]) -> Option<serde_json::Value> {
    let output = ample(arguments);
    if output.status.code() == Some(2) {
        let error = String::from_utf8_lossy(&output.stderr);
        let reasons = ["BPF", "bpf", "root"];
        assert!(reasons.iter().any(|why| error.contains(why)), "{error}");
        eprintln!("skipped: {error}");
        return None;
    }
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn a_watch_ends_when_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let folded = folder.path().join("spoilers.folded");
    let path = folded.to_str().unwrap();
    let Some(found) = json(&["watch", "--for", "1s", "--cost", "--json", "--folded", path]) else {
        return;
    };
    assert_eq!(found["schema"], "ample.watch/1");
    assert!(found["clean_blocks"].as_u64().unwrap() > 0);
    assert!(found["cost"]["runs"].as_u64().is_some());
    let spoiled = found["spoiled_blocks"].as_u64().unwrap();
    let stacks = std::fs::read_to_string(&folded).unwrap();
    assert_eq!(stacks.is_empty(), spoiled == 0, "{stacks}");
}

#[test]
fn a_machine_is_predicted_under_its_own_load() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("host.toml");
    let Some(page) = json(&[
        "whatif",
        "--record",
        "10s",
        "--hours",
        "0.02",
        "--json",
        "--save-workload",
        saved.to_str().unwrap(),
    ]) else {
        return;
    };
    let recorded = &page["recorded"];
    assert!(recorded["seconds"].as_f64().unwrap() >= 10.0);
    for ratio in [
        &recorded["predicted_2m_ratio"]["median"],
        &recorded["found_2m_ratio"],
    ] {
        assert!((0.0..=1.0).contains(&ratio.as_f64().unwrap()), "{recorded}");
    }
    let text = std::fs::read_to_string(&saved).unwrap();
    assert!(text.contains("continues = true"), "{text}");
}

#[test]
fn what_cannot_be_recorded_is_refused() {
    for (arguments, what) in [
        (&["whatif", "--record", "9s"][..], "10 s"),
        (
            &["whatif", "--record", "1m", "--snapshot", "x"],
            "--snapshot",
        ),
        (&["whatif", "--save-workload", "x"], "--record"),
        (
            &["whatif", "--record", "1h", "--save-workload", "/no/x"],
            "no such folder",
        ),
        (&["watch", "--for", "0"], "0.1s to 720h"),
        (&["watch", "--top", "0"], "1..=10000"),
    ] {
        let output = ample(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let error = String::from_utf8_lossy(&output.stderr);
        // A build without the programs says that first.
        assert!(error.contains(what) || error.contains("bpf"), "{error}");
    }
}
