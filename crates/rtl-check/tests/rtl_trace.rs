// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program that writes traces for the co-simulation: same seed, same bytes; wrong machines are
//! refused.

use std::process::{Command, Output};

fn trace(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ample-rtl-trace"))
        .args(args)
        .output()
        .expect("runs")
}

const SERVER: [&str; 12] = [
    "random",
    "--server",
    "--events",
    "2000",
    "--small",
    "6",
    "--large",
    "6",
    "--memory-lines",
    "1048576",
    "--seed",
    "1",
];

#[test]
fn the_same_seed_writes_the_same_bytes() {
    for args in [&["random", "--events", "2000", "--seed", "1"][..], &SERVER] {
        let (one, again) = (trace(args), trace(args));
        assert!(one.status.success());
        assert_eq!(one.stdout, again.stdout);
        let other: Vec<&str> = args[..args.len() - 1]
            .iter()
            .copied()
            .chain(["2"])
            .collect();
        assert_ne!(one.stdout, trace(&other).stdout);
    }
}

#[test]
fn the_buffers_of_a_server_move() {
    let text = String::from_utf8(trace(&SERVER).stdout).expect("text");
    let count = |kind: &str| text.lines().filter(|line| line.starts_with(kind)).count();
    // Requests, descriptors, and pages that are given to the slices.
    assert!(
        count("r ") > 500 && count("c ") > 0 && count("m ") > 0,
        "{text}"
    );
}

#[test]
fn machines_that_there_are_not_are_refused() {
    for (args, told) in [
        (&["random", "--slices", "0"][..], "--slices"),
        (&["random", "--hash", "9"], "--hash 9"),
        (&["random", "--server"], "--small 6"),
        (&["checked", "--slices", "5"], "--slices 5"),
        (&["checked", "--cores", "3"], "--cores 3"),
    ] {
        let refused = trace(args);
        assert!(!refused.status.success(), "{args:?}");
        let error = String::from_utf8_lossy(&refused.stderr);
        assert!(error.contains(told), "{args:?}: {error}");
    }
}
