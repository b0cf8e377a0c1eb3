// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample whatif` and `ample sim` as a user meets them.

use ample_host::{RunEncoder, Scan, ScanMeta, snapshot};
use ample_pfn::{Coverage, Layout, PageClass, Pfn};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const FRAMES: u64 = 128 << 8; // 128 MB

/// A small machine: half anonymous memory, a slab page in every fourth 2 MB block.
fn save_snapshot(path: &Path) {
    let layout = Layout::single(Pfn(0), FRAMES);
    let mut pages = vec![PageClass::Free; FRAMES as usize];
    pages[..FRAMES as usize / 2].fill(PageClass::Anon);
    pages
        .iter_mut()
        .step_by(2048)
        .for_each(|page| *page = PageClass::Slab);
    let mut encoder = RunEncoder::new(&layout);
    encoder.push(Pfn(0), &pages);
    let meta = ScanMeta {
        reader: "procfs".into(),
        coverage: Coverage {
            ambiguous_free_pages: Some(0),
            owners: false,
        },
        notes: vec![],
        kernel: "6.12.1".into(),
        hostname: Some("tiny".into()),
        unix_time_seconds: None,
        uptime_seconds: Some(60),
        duration_ns: 1,
        cpu_ns: 1,
        zones: vec![],
        pageblocks: None,
        who: None,
        counters: Default::default(),
    };
    snapshot::write(
        &Scan {
            meta,
            layout,
            pages: encoder.finish(),
        },
        path,
    )
    .unwrap();
}

fn ample(arguments: &[&str], threads: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ample"))
        .args(arguments)
        .env("RAYON_NUM_THREADS", threads)
        .output()
        .unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = ample(arguments, "2");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn failure(arguments: &[&str]) -> String {
    let output = ample(arguments, "2");
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn whatif_answers_for_every_option_from_a_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tiny.snap");
    save_snapshot(&file);
    let file = file.to_str().unwrap();
    let answer = json(&["whatif", "--snapshot", file, "--hours", "0.05", "--json"]);
    assert_eq!(answer["schema"], "ample.whatif/2");
    assert_eq!(answer["machine"]["name"], "tiny");
    let sizes = &answer["machine"]["metrics"]["k"]["sizes"];
    assert_eq!(sizes[0]["unmovable_blocks"]["low"], 16);
    let list = |what: &str| answer[what].as_array().unwrap().clone();
    assert_eq!(list("futures").len(), 7 * 5, "simulated options and seeds");
    assert_eq!(list("options").len(), 10);
    assert_eq!(
        list("options")[0]["choice"],
        "nothing",
        "the free ones come first"
    );
    let verdict = list("verdict");
    let sentence = |at: usize| verdict[at].as_str().unwrap();
    assert!(sentence(0).starts_with("Today 25 %"), "{verdict:?}");
    assert!(sentence(2).starts_with("Recommended: "), "{verdict:?}");
    assert!(sentence(4).contains("medians of 5 seeds") && sentence(4).contains("not yours"));
    assert!(failure(&["whatif", "--snapshot", file, "--seeds", "4"]).contains("5..=100"));
}

#[test]
fn the_report_is_one_file_and_the_same_with_any_number_of_threads() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_string();
    let (file, one, four) = (path("tiny.snap"), path("r/1.html"), path("r/4.html"));
    save_snapshot(Path::new(&file));
    for (report, threads) in [(&one, "1"), (&four, "4")] {
        let arguments = [
            "whatif",
            "--snapshot",
            &file,
            "--hours",
            "0.02",
            "--report",
            report,
        ];
        let output = ample(&arguments, threads);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
    let page = std::fs::read_to_string(&one).unwrap();
    assert_eq!(page, std::fs::read_to_string(&four).unwrap());
    assert!(page.contains("Contiguitas-HW") && page.contains("Recommended: "));
    // Script and style are part of the page: it asks for nothing else.
    let asks = ["src=", "<link", "@import", "fetch(", "url("];
    let found: Vec<&str> = asks.into_iter().filter(|ask| page.contains(ask)).collect();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn sim_prints_the_paper_beside() {
    let small = [
        "--quick", "--memory", "128M", "--hours", "0.05", "--seeds", "5",
    ];
    let run = |id: &str| {
        let mut arguments = vec!["sim", id, "--json", "--workloads", "web"];
        arguments.extend(small);
        json(&arguments)
    };
    let fig11 = run("fig11");
    assert_eq!(fig11["schema"], "ample.fig11/1");
    assert_eq!(fig11["rows"].as_array().unwrap().len(), 5);
    assert_eq!(fig11["rows"][0]["unmovable_2m_ratio"]["n"], 5);
    let claims: Vec<&Value> = fig11["summary"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["paper"]["claim"])
        .collect();
    assert!(claims.contains(&&Value::from("ctg.unmovable_contiguitas")));
    assert_eq!(run("fig12")["schema"], "ample.fig12/1");
    let ablation = run("ablation");
    assert!(ablation["rows"].as_array().unwrap().len() >= 8);
}

#[test]
fn figures_are_written_as_svg() {
    let directory = tempfile::tempdir().unwrap();
    let figure = directory.path().join("fig11.svg");
    let output = ample(
        &[
            "sim",
            "fig11",
            "--quick",
            "--memory",
            "128M",
            "--hours",
            "0.02",
            "--seeds",
            "1",
            "--figure",
            figure.to_str().unwrap(),
        ],
        "2",
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        std::fs::read_to_string(figure)
            .unwrap()
            .starts_with("<?xml")
    );
}

#[test]
fn a_replay_starts_from_a_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_string();
    let (machine, trace) = (path("tiny.snap"), path("trace.txt"));
    save_snapshot(Path::new(&machine));
    let line = "t-1 [000] ..... 1.0: mm_page_free: pfn=0x800 order=0\n";
    std::fs::write(&trace, line).unwrap();
    let answer = json(&["replay", &trace, "--snapshot", &machine, "--json"]);
    assert_eq!(answer["schema"], "ample.replay/1");
    assert_eq!(answer["snapshot"]["pages"], FRAMES / 2 + 8);
    assert_eq!(answer["snapshot"]["freed_pages"], 1);
    assert_eq!(answer["memory_inferred"], false);
    let text = ample(&["replay", &trace, "--snapshot", &machine], "2");
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("start from the snapshot"), "{text}");
    let both = ["replay", &trace, "--snapshot", &machine, "--memory", "1G"];
    assert!(failure(&both).contains("cannot be used with"));
    std::fs::write(&trace, line.replace("0x800", "0x8000")).unwrap();
    let error = failure(&["replay", &trace, "--snapshot", &machine]);
    assert!(error.contains("names frame 0x8000"), "{error}");
}

#[test]
fn wrong_input_says_what_and_where() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_string();
    let foreign = path("foreign.snap");
    std::fs::write(&foreign, "not a snapshot").unwrap();
    assert!(failure(&["whatif", "--snapshot", &foreign]).contains("foreign.snap"));
    // Said before anything is simulated.
    for words in [
        ["whatif", "--hours", "20", "--report", "/"],
        ["sim", "fig11", "--json", "--figure", "/no/such/x.svg"],
    ] {
        assert!(failure(&words).contains("cannot write"), "{words:?}");
    }
    assert!(failure(&["whatif", "--workload", "nope"]).contains("nope"));
    assert!(failure(&["whatif", "--hours", "0"]).contains("hours"));
    assert!(failure(&["sim", "nope"]).contains("fig11"));
    let broken = path("broken.toml");
    let text = "[experiment]\nid = \"walks\"\n[parameters]\nseeds = [\"one\"]\n";
    std::fs::write(&broken, text).unwrap();
    let error = failure(&["sim", &broken]);
    for part in ["broken.toml", "line 4", "seeds", "u64"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(failure(&["sim", "hw-trafic"]).contains("did you mean hw-traffic?"));
    assert!(failure(&["sim", "walks", "--set", "seds=2"]).contains("did you mean seeds?"));
    assert!(failure(&["sim", "walks", "--memory", "1G"]).contains("memory_bytes"));
    assert!(failure(&["sim", "/dev/zero"]).contains("not an experiment"));
    for size in ["8388607T", "2T"] {
        assert!(failure(&["sim", "fig11", "--memory", size]).contains("memory_bytes"));
    }
    let trace = path("trace.txt");
    std::fs::write(
        &trace,
        "t-1 [000] ..... 1.0: mm_page_free: pfn=0x800 order=0\n",
    )
    .unwrap();
    assert!(failure(&["replay", &trace, "--memory", "8388607T"]).contains("up to 1T"));
    let free = |pfn: u32| format!("t-1 [000] ..... 1.0: mm_page_free: pfn={pfn:#x} order=0\n");
    let damaged: String = (0..2000).chain([0x0fff_ff00]).map(free).collect();
    std::fs::write(&trace, damaged).unwrap();
    assert!(failure(&["replay", &trace]).contains("--memory 128M, or --memory"));
    let large = ["--set", "memory_bytes=9007199254740992"];
    assert!(failure(&[&["sim", "fig11"], large.as_slice()].concat()).contains("memory_bytes"));
    assert!(failure(&["sim", "fig11", "--hours", "nan"]).contains("duration_s"));
    assert!(failure(&["sim", "fig11", "--memory", "1M"]).contains("64M"));
}

#[test]
fn the_list_of_experiments_is_an_object_too() {
    let list = json(&["sim", "--json"]);
    assert_eq!(list["schema"], "ample.experiments/1");
    let all = list["experiments"].as_array().unwrap();
    assert_eq!(all.len(), ample_lab::ALL.len());
    assert!(all.iter().all(|one| one["cost"]["seconds"].is_number()));
}

/// They are out of range, and no options that nobody knows.
#[test]
fn negative_numbers_are_told_as_such() {
    for words in [
        ["sim", "fig11", "--seeds", "-1"],
        ["replay", "x", "--samples", "-3"],
    ] {
        let error = failure(&words);
        assert!(error.contains("invalid value '-"), "{error}");
    }
    assert!(failure(&["whatif", "--hours", "-1"]).contains("hours"));
}

/// A full disk is an error, though it takes help alone.
#[test]
fn help_that_cannot_be_written_is_an_error() {
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ample"));
    let ended = command.arg("--help").stdout(full).output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    let told = String::from_utf8_lossy(&ended.stderr);
    assert!(told.contains("cannot write"), "{told}");
}

/// What has no end is refused at once, whoever reads it.
#[test]
fn devices_are_not_read() {
    let zero = "/dev/zero";
    let from = ["--from", "champsim", zero];
    for command in [
        ["whatif", "--workload", zero].as_slice(),
        &["whatif", "--snapshot", zero],
        &["scan", "--snapshot", zero],
        &["replay", zero],
        &["trace", "info", zero],
        &[["trace", "info"].as_slice(), &from].concat(),
        &[["trace", "run"].as_slice(), &from].concat(),
    ] {
        let error = failure(command);
        assert!(error.contains("regular file"), "{command:?}: {error}");
    }
}

/// What a command prints that gets Ctrl-C as soon as it says that it may.
fn interrupted(arguments: &[&str]) -> Value {
    use std::io::{BufRead, BufReader, Read};
    use std::process::Stdio;
    let mut child = Command::new(env!("CARGO_BIN_EXE_ample"))
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert!(line.contains("Ctrl-C"), "{line}");
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
    let mut text = String::new();
    let mut output = child.stdout.take().unwrap();
    output.read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    serde_json::from_str(&text).unwrap()
}

/// The page is there after the first seed and recommends nothing yet; in the end it says that runs
/// are missing where they are.
#[test]
fn the_report_is_there_while_runs_are_under_way() {
    use std::io::{BufRead, BufReader};
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tiny.snap");
    save_snapshot(&file);
    let report = directory.path().join("r/page.html");
    let mut child = Command::new(env!("CARGO_BIN_EXE_ample"))
        .args(["whatif", "--hours", "12", "--snapshot"])
        .arg(&file)
        .arg("--report")
        .arg(&report)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.find(|line| line.as_ref().unwrap().starts_with("After 1 of 5 seeds: "));
    first.unwrap().unwrap();
    let page = std::fs::read_to_string(&report).unwrap();
    assert!(page.contains("under way") && page.contains("of 5 seeds: "));
    assert!(!page.contains("Recommended: ") && page.ends_with("</html>\n"));
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
    lines.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let page = std::fs::read_to_string(&report).unwrap();
    assert!(page.contains("ended early") && !page.contains("under way"));
}

/// Ctrl-C leaves a result that says it is partial, with whole rows only, and exit code 1.
#[test]
fn an_interrupted_command_prints_what_it_has() {
    let result = interrupted(&["sim", "footprint", "--json"]);
    assert_eq!(result["partial"], true);
    let all = 12;
    assert!(
        result["points"].as_array().unwrap().len() < all,
        "{result:#}"
    );
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tiny.snap");
    save_snapshot(&file);
    let file = file.to_str().unwrap();
    let result = interrupted(&["whatif", "--snapshot", file, "--hours", "720", "--json"]);
    assert_eq!(result["partial"], true);
    assert!(result["futures"].as_array().unwrap().len() < 35);
    assert_eq!(result["machine"]["name"], "tiny");
}

#[test]
fn figures_of_the_allocator_are_listed_and_a_missing_program_is_explained() {
    let output = ample(&["sim"], "1");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("temeraire-fig11"), "{text}");
    let error = failure(&["sim", "temeraire-fig12", "--set", "figures=2"]);
    assert!(error.contains("did you mean figure?"), "{error}");
    // In another folder the command has no allocator beside it. (A link, not a copy: a program that
    // has just been written cannot start while a child of another test still holds the file.)
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let link = folder.path().join("ample");
    std::fs::hard_link(env!("CARGO_BIN_EXE_ample"), &link).expect("a link");
    let output = Command::new(&link)
        .args(["malloc", "run", "--", "true"])
        .output()
        .expect("the linked command starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("cargo build --profile malloc"), "{text}");
}
