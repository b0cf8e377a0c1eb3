// SPDX-License-Identifier: MIT OR Apache-2.0
//! Order, cache, limits, interruption and files, with jobs that only count and wait.

use super::schedule::{Item, next};
use super::store::write_whole;
use super::*;
use crate::experiment::{Cost, Finished};
use anyhow::Result;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What the jobs of a test share.
#[derive(Default)]
struct Shared {
    runs: AtomicU32,
    memory: AtomicU64,
    most_memory: AtomicU64,
    order: Mutex<Vec<String>>,
}

struct Fake {
    id: &'static str,
    depends_on: &'static [&'static str],
    parameter: u32,
    memory_bytes: u64,
    sleep: Duration,
    fails: bool,
    shared: Arc<Shared>,
}

impl Fake {
    fn new(id: &'static str, shared: &Arc<Shared>) -> Fake {
        Fake {
            id,
            depends_on: &[],
            parameter: 1,
            memory_bytes: 1,
            sleep: Duration::ZERO,
            fails: false,
            shared: shared.clone(),
        }
    }
}

fn finished(json: &str) -> Result<Finished> {
    let value: Value = serde_json::from_str(json)?;
    Ok(Finished {
        json: json.into(),
        partial: false,
        holds: true,
        head: String::new(),
        tables: Vec::new(),
        rows: crate::rows::rows(&value),
        figures: Vec::new(),
        value,
    })
}

impl Fake {
    fn job(self) -> Job<'static> {
        let about = format!("id = {:?}\ndepends_on = {:?}", self.id, self.depends_on);
        Job {
            about: toml::from_str(&about).expect("of a file"),
            cost: Cost {
                seconds: 1.0,
                memory_bytes: self.memory_bytes,
                threads: 1,
            },
            parameters: json!({ "parameter": self.parameter }),
            missing: Vec::new(),
            run: Box::new(move |_| self.run()),
            read_back: Box::new(finished),
        }
    }

    fn run(&self) -> Result<Finished> {
        let shared = &self.shared;
        shared.order.lock().expect("no panic").push(self.id.into());
        shared.runs.fetch_add(1, Ordering::Relaxed);
        let used = shared.memory.fetch_add(self.memory_bytes, Ordering::SeqCst) + self.memory_bytes;
        shared.most_memory.fetch_max(used, Ordering::SeqCst);
        std::thread::sleep(self.sleep);
        shared.memory.fetch_sub(self.memory_bytes, Ordering::SeqCst);
        anyhow::ensure!(!self.fails, "it fails on purpose");
        let square = self.parameter * self.parameter;
        finished(&format!(
            "{{\"schema\":\"fake/1\",\"rows\":[{{\"square\":{square}}}]}}\n"
        ))
    }
}

struct Silent;
impl Watcher for Silent {}

fn limits(threads: usize, memory_bytes: u64) -> Limits {
    Limits {
        budget: Budget {
            threads,
            memory_bytes,
        },
        program: Key::of(&[b"program"]),
        fresh: false,
    }
}

fn run_in(folder: &Path, jobs: Vec<Fake>, limits: &Limits) -> Vec<Done> {
    let jobs: Vec<Job> = jobs.into_iter().map(Fake::job).collect();
    let store = Store::open(folder).expect("a store");
    run(&jobs, &store, limits, &Silent).expect("runs")
}

fn cached(done: &Done) -> bool {
    matches!(done.ended, Ended::Result { cached: true, .. })
}

#[test]
fn a_rerun_is_taken_from_the_cache_and_a_changed_parameter_or_program_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let shared = Arc::<Shared>::default();
    let job = |parameter| Fake {
        parameter,
        ..Fake::new("a", &shared)
    };
    let run = |parameter, limits: &Limits| run_in(folder.path(), vec![job(parameter)], limits);
    let usual = limits(1, 10);
    let first = run(1, &usual);
    let again = run(1, &usual);
    assert!(!cached(&first[0]) && cached(&again[0]));
    let json = |done: &Done| done.finished().expect("a result").json.clone();
    assert_eq!(json(&first[0]), json(&again[0]));
    assert!(!cached(&run(2, &usual)[0]), "another parameter");
    assert!(cached(&run(1, &usual)[0]), "the first one is still there");
    let other = Limits {
        program: Key::of(&[b"another program"]),
        ..usual.clone()
    };
    assert!(!cached(&run(1, &other)[0]), "another program");
    let fresh = Limits {
        fresh: true,
        ..usual
    };
    assert!(!cached(&run(1, &fresh)[0]), "asked to run again");
}

#[test]
fn a_job_runs_again_when_what_it_depends_on_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let shared = Arc::<Shared>::default();
    let jobs = |parameter| {
        let first = Fake {
            parameter,
            ..Fake::new("first", &shared)
        };
        let second = Fake {
            depends_on: &["first"],
            ..Fake::new("second", &shared)
        };
        vec![second, first]
    };
    run_in(folder.path(), jobs(1), &limits(2, 10));
    assert_eq!(*shared.order.lock().expect("no panic"), ["first", "second"]);
    let done = run_in(folder.path(), jobs(2), &limits(2, 10));
    assert!(done.iter().all(|done| !cached(done)));
}

#[test]
fn memory_is_not_promised_twice_and_what_never_fits_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let shared = Arc::<Shared>::default();
    let mut jobs: Vec<Fake> = ["a", "b", "c", "d"]
        .map(|id| Fake {
            memory_bytes: 4,
            sleep: Duration::from_millis(30),
            ..Fake::new(id, &shared)
        })
        .into();
    jobs.push(Fake {
        memory_bytes: 11,
        ..Fake::new("large", &shared)
    });
    let done = run_in(folder.path(), jobs, &limits(4, 10));
    assert_eq!(shared.most_memory.load(Ordering::SeqCst), 8);
    assert_eq!(shared.runs.load(Ordering::SeqCst), 4);
    let Ended::Failed(why) = &done[4].ended else {
        panic!("{:?}", done[4].ended)
    };
    assert!(why.contains("--memory"), "{why}");
}

#[test]
fn one_or_many_threads_give_the_same_bytes() {
    let shared = Arc::<Shared>::default();
    let jsons = |threads| {
        let folder = tempfile::tempdir().expect("a folder");
        let job = |(parameter, id)| Fake {
            parameter,
            ..Fake::new(id, &shared)
        };
        let jobs = [(3, "a"), (5, "b"), (7, "c")].map(job).into();
        let done = run_in(folder.path(), jobs, &limits(threads, 10));
        let json = |done: &Done| done.finished().expect("a result").json.clone();
        done.iter().map(json).collect::<Vec<_>>()
    };
    assert_eq!(jsons(1), jsons(3));
}

#[test]
fn a_failure_keeps_only_what_depends_on_it_from_running() {
    let folder = tempfile::tempdir().expect("a folder");
    let shared = Arc::<Shared>::default();
    let jobs = vec![
        Fake {
            fails: true,
            ..Fake::new("bad", &shared)
        },
        Fake {
            depends_on: &["bad"],
            ..Fake::new("needs bad", &shared)
        },
        Fake::new("good", &shared),
    ];
    let done = run_in(folder.path(), jobs, &limits(2, 10));
    let failed = |at: usize| match &done[at].ended {
        Ended::Failed(why) => why.clone(),
        other => panic!("{other:?}"),
    };
    assert!(failed(0).contains("on purpose"));
    assert!(failed(1).contains("reads bad"));
    assert!(done[2].finished().is_some());
}

#[test]
fn circles_and_unknown_dependencies_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path()).expect("a store");
    let shared = Arc::<Shared>::default();
    let job = |id, depends_on| {
        let fake = Fake {
            depends_on,
            ..Fake::new(id, &shared)
        };
        fake.job()
    };
    let error = |jobs: Vec<Job>| {
        let error = run(&jobs, &store, &limits(1, 10), &Silent).expect_err("refused");
        error.to_string()
    };
    assert!(error(vec![job("a", &["b"]), job("b", &["a"])]).contains("circle"));
    assert!(error(vec![job("a", &["b"])]).contains("does not run"));
    assert!(error(vec![job("a", &[]), job("a", &[])]).contains("twice"));
}

#[test]
fn half_written_and_damaged_results_are_not_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path()).expect("a store");
    let key = Key::of(&[b"key"]);
    let stored = Stored {
        json: "{\"a\":1}\n".into(),
        seconds: 2.0,
    };
    store.save("a", &key, &json!({}), &stored).expect("saved");
    assert_eq!(store.load("a", &key), Some(stored));
    let cache = folder.path().join("cache");
    let of_a = |entry: &std::path::PathBuf| {
        entry
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("a-"))
    };
    let files = std::fs::read_dir(&cache).expect("a folder");
    let file = files
        .map(|entry| entry.expect("an entry").path())
        .find(of_a)
        .expect("a file");
    let text = std::fs::read_to_string(&file).expect("text");
    for damaged in [&text[..text.len() - 3], &text.replace("1}", "2}"), ""] {
        std::fs::write(&file, damaged).expect("written");
        assert_eq!(store.load("a", &key), None);
    }
    // What a killed process left is removed; process 1 lives.
    let (dead, alive) = (
        cache.join(".x.json.4194305.tmp"),
        cache.join(".x.json.1.tmp"),
    );
    std::fs::write(&dead, "")
        .and_then(|()| std::fs::write(&alive, ""))
        .expect("written");
    Store::open(folder.path()).expect("a store");
    assert!(!dead.exists() && alive.exists());
}

#[test]
fn a_folder_that_cannot_be_written_and_a_full_disk_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("written");
    let error = Store::open(&file.join("out")).expect_err("no folder");
    assert!(format!("{error:#}").contains("--out"), "{error:#}");
    let error = write_whole(Path::new("/dev/full"), b"text").expect_err("full");
    assert!(format!("{error:#}").contains("No space left"), "{error:#}");
}

#[test]
fn jobs_that_measure_run_alone_and_last() {
    let budget = Budget {
        threads: 2,
        memory_bytes: 10,
    };
    let item = |index, seconds, measures| Item {
        index,
        cost: Cost {
            seconds,
            memory_bytes: 1,
            threads: 1,
        },
        measures,
    };
    let (short, long, measure) = (
        item(0, 1.0, false),
        item(1, 9.0, false),
        item(2, 99.0, true),
    );
    assert_eq!(next(&budget, &[], &[short, long, measure]), Some(1));
    assert_eq!(next(&budget, &[long], &[short, measure]), Some(0));
    assert_eq!(next(&budget, &[long], &[measure]), None);
    assert_eq!(next(&budget, &[], &[measure]), Some(2));
    assert_eq!(next(&budget, &[measure], &[short]), None);
    let wide = Item {
        cost: Cost {
            threads: 0,
            ..short.cost
        },
        ..short
    };
    assert_eq!(
        next(&budget, &[long], &[wide]),
        None,
        "it takes all threads"
    );
}

#[test]
fn two_jobs_run_at_the_same_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let shared = Arc::<Shared>::default();
    let slow = |id| Fake {
        sleep: Duration::from_millis(300),
        ..Fake::new(id, &shared)
    };
    let started = Instant::now();
    run_in(folder.path(), vec![slow("a"), slow("b")], &limits(2, 10));
    assert!(started.elapsed() < Duration::from_millis(580));
}

#[test]
fn the_report_has_a_page_a_table_of_claims_and_all_values() {
    let folder = tempfile::tempdir().expect("a folder");
    let shared = Arc::<Shared>::default();
    let done = run_in(folder.path(), vec![Fake::new("a", &shared)], &limits(1, 10));
    let claims = crate::claims::shipped();
    let judged = crate::claims::judge(&claims, false, |_| None);
    let listed: Vec<(String, &Done)> = done.iter().map(|done| ("A <job>".into(), done)).collect();
    let contents = Contents {
        lead: "all",
        done: &listed,
        claims: &judged,
    };
    write_report(folder.path(), &contents).expect("written");
    let read = |name: &str| std::fs::read(folder.path().join(name)).expect(name);
    let page = String::from_utf8(read("index.html")).expect("UTF-8");
    assert!(page.contains("A &lt;job&gt;") && page.contains("ctg.unmovable_linux"));
    assert_eq!(read("a.rows.csv"), b"square\r\n1\r\n");
    assert!(read("claims.csv").starts_with(b"claim,value,paper,here"));
    assert!(read("results.parquet").starts_with(b"PAR1"));
}
