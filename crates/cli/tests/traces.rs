// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample record --program` and `ample trace` as a user meets them.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn ample(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ample"))
        .args(arguments)
        .output()
        .unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = ample(arguments);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {told}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(arguments: &[&str]) -> String {
    let output = ample(arguments);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
    told
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn traces_are_made_converted_described_and_simulated() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let (own, champsim, lackey) = (file("m.trace"), file("m.champsim.gz"), file("m.lackey"));
    let made = json(&[
        "trace",
        "make",
        "redis",
        text(&own),
        "--scale",
        "tiny",
        "--limit",
        "50000",
        "--json",
    ]);
    assert_eq!(made["accesses"], 50_000);
    assert!(made["bytes_per_access"].as_f64().unwrap() <= 4.0);
    json(&["trace", "convert", text(&own), text(&champsim), "--json"]);
    json(&["trace", "convert", text(&champsim), text(&lackey), "--json"]);
    let counts = |path: &Path| {
        let info = json(&["trace", "info", text(path), "--json"]);
        ["loads", "stores", "touched_4k_pages"].map(|key| info[key].as_u64().unwrap())
    };
    // One page of code is added where instructions lie in a format of instructions.
    let [loads, stores, pages] = counts(&own);
    assert_eq!(loads + stores, 50_000);
    for path in [&champsim, &lackey] {
        assert_eq!(counts(path), [loads, stores, pages + 1]);
    }
    let walks = |pages: &str| {
        let run = json(&["trace", "run", text(&own), "--pages", pages, "--json"]);
        run["walks_per_kilo_instruction"].as_f64().unwrap()
    };
    assert!(walks("2m") < walks("4k"));
    // The first touch of a 2 MB page zeroes it: that is the price of the fault, not of walks.
    let cold = [
        "trace",
        "run",
        text(&own),
        "--pages",
        "2m",
        "--warm-up",
        "0",
    ];
    let run = json(&[&cold, ["--json"].as_slice()].concat());
    let percent = |what: &str| run[what].as_f64().unwrap();
    let (faults, walks) = (
        percent("fault_stall_percent"),
        percent("translation_stall_percent"),
    );
    assert!(
        faults > 50.0 && walks < 20.0 && faults + walks <= 100.0,
        "{run}"
    );
    let segment = json(&["trace", "run", text(&own), "--scheme", "segment", "--json"]);
    assert!(segment["segment_bytes"].as_u64().unwrap() > 0);
}

/// What a fragmented machine does to a program of 64 MB that reads anywhere.
#[test]
fn a_trace_runs_on_memory_in_any_state() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gups.trace");
    let own = text(&path);
    json(&[
        "trace", "make", "gups", own, "--scale", "quick", "--limit", "60000", "--json",
    ]);
    let run = |more: &[&str]| json(&[&["trace", "run", own, "--json"], more].concat());
    let walks = |more: &[&str]| run(more)["model"]["walks_data"].as_u64().unwrap();
    let faults = |more: &[&str]| run(more)["model"]["faults"].as_u64().unwrap();
    let small = walks(&[]);
    let large = walks(&["--pages", "2m"]);
    let huge = walks(&["--pages", "1g"]);
    assert!(huge < large && large < small, "{huge} {large} {small}");
    let half = ["--pages", "2m", "--fragmented", "0.5"];
    let fragmented = walks(&half);
    assert!(large < fragmented && fragmented < small, "{fragmented}");
    let perforated = walks(&[&half[..], &["--scheme", "perforated"]].concat());
    assert!(perforated < fragmented, "{perforated} {fragmented}");
    let rmm = walks(&[&half[..], &["--scheme", "rmm"]].concat());
    assert!(rmm < fragmented, "{rmm} {fragmented}");
    assert_eq!(faults(&half), 0, "memory is there from the start");
    assert_eq!(walks(&half), fragmented, "the same seed");
    // No block is whole: 4 KB pages alone.
    let all = ["--pages", "2m", "--fragmented", "1", "--holes", "1"];
    assert_eq!(walks(&all), walks(&["--fragmented", "1"]));
    // In a virtual machine a walk reads more, the less so the larger the host's pages are.
    let reads = |more: &[&str]| run(more)["walks"]["mean_walk_references"].as_f64().unwrap();
    let native = reads(&[]);
    let [on_4k, on_2m, on_1g] = ["4k", "2m", "1g"].map(|size| reads(&["--host", size]));
    assert!(native <= on_1g && on_1g < on_2m && on_2m < on_4k);
    let held = run(&["--scheme", "segment", "--host", "2m"]);
    assert_eq!(held["memory"]["host_page_bytes"], 2 << 20);
    let refuse = |more: &[&str]| refused(&[&["trace", "run", own], more].concat());
    assert!(refuse(&["--fragmented", "1.5"]).contains("from 0 to 1"));
    assert!(refuse(&["--fragmented", "nan"]).contains("from 0 to 1"));
    assert!(refuse(&["--fragmented", "0.5", "--holes", "513"]).contains("1 to 512"));
    assert!(refuse(&["--holes", "7"]).contains("--fragmented"));
    assert!(refuse(&["--host", "2m", "--scheme", "rmm"]).contains("virtual machine"));
    assert!(refuse(&["--pages", "1g", "--scheme", "colt"]).contains("1 GB pages"));
    assert!(refuse(&["--fragmented", "0.5", "--scheme", "segment"]).contains("without holes"));
}

#[test]
fn wrong_files_and_options_say_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x");
    std::fs::write(&path, [7u8; 300]).unwrap();
    let file = text(&path);
    assert!(refused(&["trace", "info", file]).contains("--from"));
    let cut = refused(&["trace", "info", file, "--from", "champsim"]);
    assert!(
        cut.contains("record 4") && cut.contains("44 of 64"),
        "{cut}"
    );
    assert!(refused(&["trace", "info", "none.trace"]).contains("cannot read none.trace"));
    let no_program = ["record", "--program", "-o", file, "--", "/none/such"];
    assert!(refused(&no_program).contains("there is no program /none/such"));
    assert_eq!(
        std::fs::read(&path).unwrap(),
        [7u8; 300],
        "kept what was there"
    );
    assert!(refused(&["trace", "make", "nothing", "o.trace"]).contains("graph500"));
    assert!(refused(&["trace", "convert", file, file, "--from", "lackey"]).contains("while"));
    assert!(refused(&["record", "--", "true"]).contains("--program"));
    let own = directory.path().join("t.trace");
    let make = ["trace", "make", "gups", text(&own), "--scale", "tiny"];
    json(&[&make[..], &["--limit", "5000", "--json"]].concat());
    assert!(refused(&["trace", "run", text(&own), "--machine", "x"]).contains("skylake"));
    assert!(refused(&["trace", "run", text(&own), "--warm-up", "5000"]).contains("warm-up"));
    let mut bytes = std::fs::read(&own).unwrap();
    bytes.truncate(bytes.len() - 20);
    std::fs::write(&own, bytes).unwrap();
    assert!(refused(&["trace", "run", text(&own)]).contains("at byte"));
}

#[test]
fn a_conversion_that_fails_leaves_what_was_there() {
    let directory = tempfile::tempdir().unwrap();
    let [from, to] = ["noise", "out.trace"].map(|name| directory.path().join(name));
    let missing = refused(&["trace", "convert", text(&from), text(&to)]);
    assert!(missing.contains("No such file"), "{missing}");
    std::fs::write(&from, [0xa5; 64 * 100 + 7]).unwrap();
    std::fs::write(&to, b"before").unwrap();
    refused(&[
        "trace",
        "convert",
        text(&from),
        text(&to),
        "--from",
        "champsim",
    ]);
    assert_eq!(std::fs::read(&to).unwrap(), b"before");
    let left = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(left, 2, "no part of it");
    // The name says how it is packed.
    let packed = directory.path().join("out.champsim.gz");
    let lackey = directory.path().join("in.lackey");
    std::fs::write(&lackey, " L 1000,8\n").unwrap();
    let convert = ["trace", "convert", text(&lackey), text(&packed), "--json"];
    json(&[&convert[..], &["--from", "lackey"]].concat());
    assert_eq!(std::fs::read(&packed).unwrap()[..2], [0x1f, 0x8b]);
    // A field that no machine has, at its top.
    let made = [
        "trace",
        "make",
        "gups",
        text(&to),
        "--scale",
        "tiny",
        "--limit",
        "5000",
    ];
    assert!(ample(&made).status.success());
    let unknown = refused(&["trace", "run", text(&to), "--set", "walkers=4"]);
    assert!(unknown.contains("walkers"), "{unknown}");
}

#[test]
fn a_machine_is_a_file_and_is_changed_from_the_command_line() {
    let directory = tempfile::tempdir().unwrap();
    let (trace, machine) = (
        directory.path().join("t.trace"),
        directory.path().join("m.toml"),
    );
    let made = "trace make gups OUT --scale tiny --limit 50000 --json";
    json(
        &made
            .replace("OUT", text(&trace))
            .split(' ')
            .collect::<Vec<_>>(),
    );
    let listed = ample(&["trace", "machines"]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains("zen4"));
    let printed = ample(&["trace", "machines", "skylake"]);
    std::fs::write(&machine, &printed.stdout).unwrap();
    let run = |more: &[&str]| {
        let all = [&["trace", "run", text(&trace), "--json"], more].concat();
        json(&all)
    };
    let own = run(&["--machine", text(&machine)]);
    assert_eq!(own, run(&[]), "the file is the preset");
    let small = [
        "--set",
        "mmu.l2.0.geometry={entries=12, ways=12}",
        "--set",
        "mmu.pwc=absent",
    ];
    let less = run(&[&["--machine", text(&machine)], small.as_slice()].concat());
    let number = |run: &Value, key: &str| run["walks"][key].as_f64().unwrap();
    for key in ["walks_per_access", "mean_walk_references"] {
        assert!(number(&less, key) > number(&own, key), "{key}: {less}");
    }
    assert!(number(&less, "second_level_hit_ratio") < number(&own, "second_level_hit_ratio"));
    assert_eq!(less["walks"]["mean_walk_references"], 4.0, "no walk cache");
    assert!(number(&own, "mean_walk_cycles") > 4.0);
    // What the levels count is what the walks took.
    let levels = less["walks"]["references"].as_object().unwrap().values();
    let places = levels.flat_map(|level| level.as_object().unwrap().values());
    let references: u64 = places.map(|count| count.as_u64().unwrap()).sum();
    let walks = less["walks"]["walk_cache_hits"]["none"].as_u64().unwrap();
    assert_eq!(references, 4 * walks);
    let typed = String::from_utf8_lossy(&printed.stdout).replace("walkers", "wakers");
    std::fs::write(&machine, typed).unwrap();
    let told = refused(&["trace", "run", text(&trace), "--machine", text(&machine)]);
    assert!(
        told.contains("m.toml") && told.contains("did you mean walkers?"),
        "{told}"
    );
    let told = refused(&["trace", "run", text(&trace), "--set", "mmu.walkers=0"]);
    assert!(told.contains("mmu.walkers: 0; valid: 1 to"), "{told}");
}

/// Needs gcc and a qemu-x86_64 with plugins (Debian 13's has none); without them there is nothing
/// to test.
#[test]
fn a_program_is_recorded_with_its_address_space() {
    let says = |tool: &str, what: &str| {
        let help = Command::new(tool).arg("--help").output();
        help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains(what))
    };
    if !says("gcc", "-shared") || !says("qemu-x86_64", "-plugin") {
        eprintln!("skipped: gcc or qemu-x86_64 with plugins is not installed");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("echo.trace");
    let recorded = json(&[
        "record",
        "--program",
        "-o",
        text(&path),
        "--model",
        "skylake",
        "--json",
        "--",
        "/bin/echo",
        "said",
    ]);
    assert!(recorded["accesses"].as_u64().unwrap() > 1000);
    assert!(recorded["map_changes"].as_u64().unwrap() > 5);
    assert!(recorded["model"]["faults"].as_u64().unwrap() > 10);
    let info = json(&["trace", "info", text(&path), "--json"]);
    assert_eq!(info["accesses"], recorded["accesses"]);
    assert_eq!(info["program"], "/bin/echo said");
    let regions = info["regions"].as_array().unwrap();
    assert!(regions.iter().any(|region| region["backing"] == "code"));
    assert!(refused(&["record", "--program", "--", "no-such-program"]).contains("no-such-program"));
}

#[test]
fn a_sweep_runs_every_combination_and_is_the_same_with_any_number_of_jobs() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.trace");
    let trace = text(&path);
    let made = ["trace", "make", "gups", trace, "--scale", "tiny", "--limit"];
    json(&[&made, ["20000", "--json"].as_slice()].concat());
    let sweep = [
        "sweep",
        trace,
        "--over",
        "mmu.walkers=1,2",
        "--over",
        "pages=4k,2m",
    ];
    let run = |more: &[&str]| ample(&[&sweep, more].concat()).stdout;
    let one = run(&["--json", "--jobs", "1"]);
    assert_eq!(one, run(&["--json", "--jobs", "4"]));
    let value: Value = serde_json::from_slice(&one).unwrap();
    assert_eq!(
        (&value["combinations"], &value["partial"]),
        (&4.into(), &false.into())
    );
    let points = value["points"].as_array().unwrap();
    let set: Vec<String> = points
        .iter()
        .map(|point| point["set"].to_string())
        .collect();
    assert_eq!(set[1], r#"{"mmu.walkers":1,"pages":"2m"}"#);
    let alone = [
        "trace",
        "run",
        trace,
        "--pages",
        "2m",
        "--set",
        "mmu.walkers=2",
        "--json",
    ];
    assert_eq!(
        points[3]["result"],
        json(&alone),
        "as the run alone gives it"
    );
    let csv = String::from_utf8(run(&["--csv", "--columns", "ipc"])).unwrap();
    assert_eq!(csv.lines().next(), Some("mmu.walkers,pages,ipc"));
    assert_eq!(csv.lines().count(), 5);
    let wrong = |more: &[&str]| refused(&[&["sweep", trace], more].concat());
    let told = wrong(&["--over", "mmu.walkers=1,0"]);
    assert!(
        told.contains("with mmu.walkers=0") && told.contains("valid"),
        "{told}"
    );
    assert!(wrong(&["--over", "mmu.waklers=1"]).contains("did you mean walkers?"));
    assert!(wrong(&["--over", "pages=8k"]).contains("known: 4k, 2m"));
    assert!(wrong(&["--over", "pages=4k,4k"]).contains("twice"));
    assert!(wrong(&["--over", "pages=4k", "--set", "pages=2m"]).contains("both set and swept"));
    let column = wrong(&["--over", "pages=4k", "--columns", "ipcs"]);
    assert!(column.contains("no column ipcs"), "{column}");
    assert!(refused(&["sweep", "nothing", "--over", "a=1"]).contains("neither"));
}

/// A thread's file of DynamoRIO's drmemtrace: four instructions, two loads and a store.
fn drmemtrace_file() -> Vec<u8> {
    let entries: [(u16, u16, u64); 9] = [
        (25, 0, 5),
        (28, 9, 0xe40),
        (10, 4, 0x1000),
        (0, 8, 0x8000),
        (10, 4, 0x1004),
        (0, 8, 0x9000),
        (10, 4, 0x1008),
        (1, 8, 0xa000),
        (26, 0, 0),
    ];
    let bytes = |(kind, size, value): (u16, u16, u64)| {
        let head = [kind.to_le_bytes(), size.to_le_bytes()].concat();
        [head, value.to_le_bytes().to_vec()].concat()
    };
    entries.into_iter().flat_map(bytes).collect()
}

#[test]
fn traces_of_other_tools_are_read_and_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let (thread, samples, own) = (file("app.bin"), file("app.txt"), file("own.trace"));
    std::fs::write(&thread, drmemtrace_file()).unwrap();
    let text_of_perf = "# PID, TID, IP, ADDR, LOCAL WEIGHT, DSRC, SYMBOL\n\
                        1 1 0x0000000000401000 0x00007f0000001008 34 0x68100142 app:main\n\
                        1 1 0x0000000000401000 0x00007f0000002008 34 0x68100142 app:main\n";
    std::fs::write(&samples, text_of_perf).unwrap();
    let info = json(&["trace", "info", text(&thread), "--json"]);
    assert_eq!(
        (&info["format"], &info["sampled"]),
        (&"drmemtrace".into(), &false.into())
    );
    assert_eq!((&info["loads"], &info["stores"]), (&2.into(), &1.into()));
    json(&["trace", "convert", text(&thread), text(&own), "--json"]);
    assert_eq!(json(&["trace", "info", text(&own), "--json"])["loads"], 2);
    let info = json(&["trace", "info", text(&samples), "--json"]);
    assert_eq!(
        (&info["format"], &info["sampled"]),
        (&"perf".into(), &true.into())
    );
    let run = ample(&["trace", "run", text(&samples), "--json"]);
    let told = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && told.contains("not"), "{told}");
    let told = refused(&["trace", "convert", text(&own), text(&file("o.gem5"))]);
    assert!(told.contains("lackey"), "{told}");
    let to = ["trace", "convert", text(&own), "o", "--to", "perf"];
    assert!(refused(&to).contains("written are ample, champsim, lackey"));
}

#[test]
fn schemes_take_parameters_and_count_for_themselves() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("t.trace");
    let made = [
        "trace",
        "make",
        "gups",
        text(&trace),
        "--scale",
        "tiny",
        "--limit",
        "30000",
    ];
    json(&[&made[..], &["--json"]].concat());
    let listed = json(&["trace", "schemes", "--json"]);
    let schemes = listed["schemes"].as_array().unwrap();
    let rmm = schemes.iter().find(|one| one["name"] == "rmm").unwrap();
    assert_eq!(rmm["parameters"][0]["name"], "ranges");
    let shown = ample(&["trace", "schemes"]).stdout;
    assert!(String::from_utf8(shown).unwrap().contains(":ranges=32"));
    let run = |scheme: &str| {
        let all = ["trace", "run", text(&trace), "--scheme", scheme, "--json"];
        json(&[&all[..], &["--fragmented", "0.9", "--warm-up", "1000"]].concat())["model"].clone()
    };
    let walked = |model: &Value| model["scheme_counters"]["ranges_walked"].as_u64().unwrap();
    let (few, many) = (run("rmm:ranges=1"), run("rmm:ranges=4096"));
    assert!(walked(&few) > walked(&many), "{few} {many}");
    assert_eq!(run("rmm:ranges=32")["walks_data"], run("rmm")["walks_data"]);
    let wrong = ["trace", "run", text(&trace), "--scheme", "rmm:ranges=0"];
    assert!(refused(&wrong).contains("takes ranges from 1 to 4096"));
}
