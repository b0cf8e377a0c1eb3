// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines of experiments and sizes of programs, chosen on the command line.

use serde_json::Value;
use std::process::{Command, Output};

fn ample(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ample"))
        .args(arguments)
        .output()
        .unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = ample(arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(arguments: &[&str]) -> String {
    let output = ample(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// A tiny run of an experiment with more options.
fn speedup(more: &[&str]) -> Value {
    let common = "sim speedup --quick --json --set length.accesses=20000 \
                  --set length.warm_up_accesses=1000";
    let common: Vec<&str> = common.split_whitespace().collect();
    json(&[&common, more].concat())
}

#[test]
fn an_experiment_runs_on_any_machine() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("m.toml");
    let file_name = file.to_str().unwrap();
    let preset = String::from_utf8(ample(&["trace", "machines", "zen4"]).stdout).unwrap();
    std::fs::write(&file, preset.replace("walkers = 6", "walkers = 3")).unwrap();
    let of_file = speedup(&["--machine", file_name]);
    let of_preset = speedup(&["--machine", "zen4", "--set", "mmu.walkers=3"]);
    assert_eq!(of_file["machine"], file_name);
    assert_eq!(of_preset["machine"], "zen4, mmu.walkers=3");
    let without_name = |mut value: Value| {
        value.as_object_mut().unwrap().remove("machine");
        value
    };
    let six = without_name(speedup(&["--machine", "zen4"]));
    let (of_file, of_preset) = (without_name(of_file), without_name(of_preset));
    assert_eq!(of_file, of_preset, "the file has the same walkers");
    assert_ne!(of_file, six, "fewer walkers take their time");
    // Fields alone are those of the machine that the experiment names.
    let own = speedup(&["--set", "machine.memory.mshrs=2"]);
    assert_eq!(own["machine"], "contiguitas-table1, memory.mshrs=2");
}

#[test]
fn what_no_machine_has_is_said_before_a_run() {
    let told = refused(&["sim", "walks", "--machine", "zen5"]);
    assert!(told.contains("did you mean zen4?"), "{told}");
    let told = refused(&["sim", "walks", "--set", "mmu.waklers=2"]);
    assert!(told.contains("did you mean walkers?"), "{told}");
    let told = refused(&["sim", "walks", "--set", "mmu.walkers=0"]);
    assert!(told.contains("mmu.walkers: 0; valid: 1 to"), "{told}");
    for more in [["--machine", "zen4"], ["--set", "mmu.walkers=2"]] {
        let told = refused(&[&["sim", "fig11"], more.as_slice()].concat());
        assert!(told.contains("fig11 has no machine"), "{told}");
    }
    let told = refused(&["sim", "fig10", "--quick", "--machine", "zen4"]);
    assert!(told.contains("known: contiguitas-table1"), "{told}");
}

#[test]
fn machines_of_an_experiment_are_swept() {
    let common = "sweep speedup --quick --json --set length.accesses=5000 \
                  --set length.warm_up_accesses=1000 --over mmu.walkers=1,2 --set machine=zen4";
    let sweep = json(&common.split_whitespace().collect::<Vec<_>>());
    let points = sweep["points"].as_array().unwrap().iter();
    let machines: Vec<_> = points.map(|point| &point["result"]["machine"]).collect();
    assert_eq!(machines, ["zen4, mmu.walkers=1", "zen4, mmu.walkers=2"]);
}

#[test]
fn caches_have_policies_ways_and_the_next_line() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("stream.trace");
    let trace = trace.to_str().unwrap();
    let make = "trace make stream OUT --bytes 6M --limit 100000 --json".replace("OUT", trace);
    let made = json(&make.split(' ').collect::<Vec<_>>());
    assert_eq!(made["footprint_bytes"], 6 << 20);
    let cycles = |more: &[&str]| {
        let run = json(&[&["trace", "run", trace, "--json"], more].concat());
        run["cycles"].as_f64().unwrap()
    };
    let plain = cycles(&[]);
    assert_eq!(cycles(&["--set", "memory.llc.policy=lru"]), plain);
    let off = "--set=memory.prefetch_lines=0";
    assert!(cycles(&[off, "--set=memory.next_lines=2"]) < cycles(&[off]));
    let wide = "--set=memory.llc={bytes=20971520, ways=20, latency_cycles=60, policy=\"random\"}";
    assert!(cycles(&[wide]) > 0.0);
    let told = refused(&["trace", "run", trace, "--set", "memory.llc.ways=33"]);
    assert!(
        told.contains("memory.llc.ways: 33; valid: 1 to 32"),
        "{told}"
    );
    let told = refused(&["trace", "run", trace, "--set", "memory.llc.policy=fifo"]);
    assert!(told.contains("fifo") && told.contains("srrip"), "{told}");
}

#[test]
fn a_program_has_any_footprint() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("g.trace");
    let make = |more: &str| {
        let all = format!("trace make {more} --limit 1000 --json");
        all.replace("OUT", trace.to_str().unwrap())
    };
    for bytes in [8u64 << 20, 13_000_000] {
        let made = make(&format!("graph500 OUT --bytes {bytes}"));
        let made = json(&made.split(' ').collect::<Vec<_>>());
        let taken = made["footprint_bytes"].as_u64().unwrap() as f64;
        assert!(
            (taken / bytes as f64 - 1.0).abs() < 0.05,
            "{taken} of {bytes}"
        );
    }
    let small = make("tpcc OUT --bytes 1M");
    let told = refused(&small.split(' ').collect::<Vec<_>>());
    assert!(told.contains("valid: 167772160 to"), "{told}");
    let both = make("gups OUT --bytes 8M --scale full");
    let told = refused(&both.split(' ').collect::<Vec<_>>());
    assert!(told.contains("cannot be used with"), "{told}");
    let walks = "sim walks --quick --json --set scale=64M --set length.accesses=20000";
    let walks = json(&walks.split(' ').collect::<Vec<_>>());
    assert_eq!(walks["schema"], "ample.sim.walks/2");
}
