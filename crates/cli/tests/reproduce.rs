// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample reproduce` as a user runs it: killed, ended, run again, checked.

use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Simulated, and done within a second or two.
const FAST: [&str; 3] = ["denied-blocks", "presets", "footprint"];
/// Takes long enough at full size to be ended meanwhile.
const SLOW: &str = "fig11";

fn command(out: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ample"));
    command.arg("reproduce").arg("--out").arg(out).args(more);
    command
}

fn run(out: &Path, more: &[&str]) -> Output {
    command(out, more).output().unwrap()
}

fn json(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.stdout.is_empty(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap()
}

fn of<'a>(answer: &'a Value, id: &str) -> &'a Value {
    let all = answer["experiments"].as_array().unwrap();
    all.iter().find(|one| one["id"] == id).unwrap()
}

#[test]
fn results_and_a_page_are_written_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let more = [&FAST[..], &["--quick", "--json"]].concat();
    let first = run(folder.path(), &more);
    assert_eq!(first.status.code(), Some(0));
    let first = json(&first);
    assert_eq!(first["schema"], "ample.reproduce/2");
    assert_eq!(first["claims"].as_array().unwrap().len(), 51);
    let page = read(folder.path(), "index.html");
    assert!(page.contains("id='footprint'") && page.contains("small versions"));
    let result: Value = serde_json::from_str(&read(folder.path(), "footprint.json")).unwrap();
    assert!(result["schema"].as_str().unwrap().starts_with("ample."));
    for file in [
        "claims.csv",
        "footprint.points.csv",
        "footprint.svg",
        "results.parquet",
    ] {
        assert!(folder.path().join(file).is_file(), "{file}");
    }
    let again = json(&run(folder.path(), &more));
    for id in FAST {
        assert_eq!(of(&first, id)["cached"], false);
        assert_eq!(of(&again, id)["cached"], true);
    }
    assert_eq!(read(folder.path(), "index.html"), page, "the same bytes");
}

#[test]
fn one_and_two_threads_give_the_same_bytes() {
    let bytes = |threads: &str| {
        let folder = tempfile::tempdir().unwrap();
        let more = [&FAST[..], &["--quick", "--threads", threads]].concat();
        assert_eq!(run(folder.path(), &more).status.code(), Some(0));
        let file = |id: &str| read(folder.path(), &format!("{id}.json"));
        (FAST.map(file), read(folder.path(), "index.html"))
    };
    assert_eq!(bytes("1"), bytes("2"));
}

/// Waits until a file of the cache begins with this id.
fn wait_for(folder: &Path, id: &str) {
    let started = Instant::now();
    let cached = || {
        let files = std::fs::read_dir(folder.join("cache"))
            .into_iter()
            .flatten();
        let mut names = files.flatten().map(|file| file.file_name());
        names.any(|name| name.to_string_lossy().starts_with(id))
    };
    while !cached() {
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "{id} did not end"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn start(out: &Path, more: &[&str]) -> Child {
    let mut command = command(out, more);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[test]
fn a_killed_run_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    // The long one first takes one of two threads, the short one the other.
    let more = ["denied-blocks", SLOW, "--threads", "2"];
    let mut child = start(folder.path(), &["denied-blocks", "--threads", "2"]);
    wait_for(folder.path(), "denied-blocks");
    child.kill().unwrap();
    child.wait().unwrap();
    let mut child = start(folder.path(), &more);
    std::thread::sleep(Duration::from_millis(800));
    child.kill().unwrap();
    child.wait().unwrap();
    let rest = json(&run(folder.path(), &["denied-blocks", "--json"]));
    assert_eq!(of(&rest, "denied-blocks")["cached"], true);
    let half = std::fs::read_dir(folder.path().join("cache")).unwrap();
    let left: Vec<_> = half.flatten().map(|file| file.file_name()).collect();
    assert!(
        !left
            .iter()
            .any(|name| name.to_string_lossy().ends_with(".tmp")),
        "{left:?}"
    );
}

#[test]
fn an_interrupt_ends_the_run_soon_with_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let child = start(folder.path(), &[SLOW, "--json"]);
    std::thread::sleep(Duration::from_millis(1500));
    let pid = child.id().to_string();
    let asked = Instant::now();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    let output = child.wait_with_output().unwrap();
    // About a second; the machine of a test may be busy.
    assert!(
        asked.elapsed() < Duration::from_secs(5),
        "{:?}",
        asked.elapsed()
    );
    assert_eq!(output.status.code(), Some(1));
    let answer = json(&output);
    assert_eq!(answer["partial"], true);
    assert_eq!(of(&answer, SLOW)["partial"], true);
    assert!(read(folder.path(), "index.html").contains("partial"));
    assert!(
        !folder
            .path()
            .join("cache")
            .read_dir()
            .unwrap()
            .flatten()
            .any(|file| { file.file_name().to_string_lossy().starts_with(SLOW) })
    );
}

#[test]
fn a_worsened_value_ends_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let verdicts = folder.path().join("verdicts.json");
    let file = verdicts.to_str().unwrap();
    let with = |option: &str| {
        let more = [&FAST[..], &["--quick", option, "--verdicts", file]].concat();
        run(folder.path(), &more)
    };
    assert_eq!(with("--accept").status.code(), Some(0));
    let good = with("--check");
    assert_eq!(good.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&good.stdout).contains("No verdict got worse"));
    // The value of a result is worsened by hand: a machine with another TLB.
    let cache = folder.path().join("cache");
    let is_presets = |path: &std::path::PathBuf| path.to_string_lossy().contains("/presets-");
    let mut entries = std::fs::read_dir(&cache)
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    let presets = entries.find(is_presets).unwrap();
    let text = std::fs::read_to_string(&presets).unwrap();
    let (head, result) = text.split_once('\n').unwrap();
    let worse = result.replace("1536", "1537");
    assert_ne!(worse, result);
    let mut head: Value = serde_json::from_str(head).unwrap();
    let content = ample_lab::reproduce::Key::of(&[worse.as_bytes()]);
    head["content"] = Value::from(content.as_str());
    std::fs::write(&presets, format!("{head}\n{worse}")).unwrap();
    let bad = with("--check");
    assert_eq!(bad.status.code(), Some(1));
    let text = String::from_utf8_lossy(&bad.stdout);
    assert!(text.contains("ctg.machine, second-level TLB"), "{text}");
}

#[test]
fn wrong_use_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let error = |out: &Path, more: &[&str]| {
        let output = run(out, more);
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let unknown = error(folder.path(), &["fotprint"]);
    assert!(unknown.contains("did you mean footprint?"), "{unknown}");
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let unwritable = error(&file.join("out"), &["presets"]);
    assert!(unwritable.contains("--out"), "{unwritable}");
    let list = run(folder.path(), &["--list"]);
    let list = String::from_utf8(list.stdout).unwrap();
    assert!(
        list.contains("ablation-day") && list.contains("Full size"),
        "{list}"
    );
}
