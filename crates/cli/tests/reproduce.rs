// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample reproduce` as a user runs it: killed, ended, run again, checked.

use serde_json::Value;
use std::collections::BTreeSet;
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
    assert_eq!(first["claims"].as_array().unwrap().len(), 55);
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

/// The whole results in the cache, by file name. A file that was torn fails the test.
fn cached(folder: &Path) -> BTreeSet<String> {
    let mut whole = BTreeSet::new();
    for entry in std::fs::read_dir(folder.join("cache"))
        .into_iter()
        .flatten()
    {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "json") {
            let text = std::fs::read_to_string(&path).unwrap();
            let (head, result) = text.split_once('\n').unwrap();
            let head: Value = serde_json::from_str(head).unwrap();
            let content = ample_lab::reproduce::Key::of(&[result.as_bytes()]);
            assert_eq!(head["content"], content.as_str(), "{}", path.display());
            whole.insert(path.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    whole
}

fn start(out: &Path, more: &[&str]) -> Child {
    let mut command = command(out, more);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Killed as soon as it has finished one experiment more, again and again: each process goes on
/// where the last one was, and what comes out is what an unbroken run gives.
#[test]
fn a_killed_run_goes_on_where_it_was() {
    let (broken, unbroken) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let all = [&FAST[..], &["walks", "segment-compaction"]].concat();
    let more = [&all[..], &["--quick", "--threads", "2", "--json"]].concat();
    let mut kills = 0;
    loop {
        let before = cached(broken.path()).len();
        let mut child = start(broken.path(), &more);
        let started = Instant::now();
        while cached(broken.path()).len() == before && child.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < Duration::from_secs(120), "no result");
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        let status = child.wait().unwrap();
        kills += u32::from(!status.success());
        if cached(broken.path()).len() >= all.len() - 1 || status.success() {
            break;
        }
    }
    assert!(kills >= 2, "killed {kills} times");
    let kept = cached(broken.path());
    let rest = json(&run(broken.path(), &more));
    for id in &all {
        let was_there = kept.iter().any(|file| file.starts_with(&format!("{id}-")));
        assert_eq!(of(&rest, id)["cached"], was_there, "{id}");
    }
    let left = std::fs::read_dir(broken.path().join("cache")).unwrap();
    let names = left.map(|file| file.unwrap().file_name());
    let half: Vec<_> = names
        .filter(|name| name.to_string_lossy().ends_with(".tmp"))
        .collect();
    assert!(half.is_empty(), "{half:?}");
    assert_eq!(run(unbroken.path(), &more).status.code(), Some(0));
    assert_eq!(kept.difference(&cached(unbroken.path())).count(), 0);
    let files = all.iter().map(|id| format!("{id}.json"));
    for file in files.chain(["index.html".into(), "claims.csv".into()]) {
        assert_eq!(
            read(broken.path(), &file),
            read(unbroken.path(), &file),
            "{file}"
        );
    }
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
    // Verdicts that cannot be written are no matter of --out.
    let nowhere = folder.path().join("no/verdicts.json");
    let more = [
        "--quick",
        "--accept",
        "--verdicts",
        nowhere.to_str().unwrap(),
    ];
    let refused = run(folder.path(), &[&FAST[..], &more].concat());
    assert_eq!(refused.status.code(), Some(2));
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(
        error.contains("cannot write") && !error.contains("--out"),
        "{error}"
    );
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
    let object = run(folder.path(), &["--list", "--json", "presets"]);
    let object: Value = serde_json::from_slice(&object.stdout).unwrap();
    assert_eq!(object["schema"], "ample.experiments/1");
    assert_eq!(object["experiments"].as_array().unwrap().len(), 1);
    assert_eq!(object["experiments"][0]["id"], "presets");
}
