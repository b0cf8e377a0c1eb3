// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample-malloc stats` and `profile` on a program that is linked with the allocator and was
//! started without any option. The program is this test itself, started once more.

use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: ample_malloc::Ample = ample_malloc::Ample;

const KIND: &str = "AMPLE_ATTACHED_PROGRAM";

#[inline(never)]
fn allocate_short() {
    for _ in 0..10_000 {
        black_box(Vec::<u8>::with_capacity(black_box(1000)));
    }
}

/// Runs only as the program: on two threads, one of which is served by the fast path alone.
#[test]
fn program() {
    let Ok(kind) = std::env::var(KIND) else {
        return;
    };
    println!("\nready");
    if kind == "idle" {
        std::thread::sleep(Duration::from_secs(60));
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                allocate_short();
            }
        });
        let mut kept: Vec<Vec<u8>> = Vec::new();
        loop {
            kept.push(vec![1; 5000]);
            if kept.len() > 20_000 {
                kept.clear();
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    });
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(kind: &str) -> Running {
    let test = std::env::current_exe().expect("it has a path");
    let mut child = Command::new(test)
        .args(["--exact", "program", "--nocapture"])
        .env(KIND, kind)
        .env_remove("AMPLE_MALLOC")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let out = BufReader::new(child.stdout.as_mut().expect("it is piped"));
    let ready = out
        .lines()
        .map_while(Result::ok)
        .any(|line| line == "ready");
    assert!(ready);
    Running(child)
}

/// Stops every thread of the process, so that none allocates: the main thread of a test program
/// still does after its test has begun.
fn stop(pid: &str) {
    let kill = format!("kill -STOP {pid}");
    let stopped = Command::new("sh").args(["-c", &kill]).status();
    assert!(stopped.expect("there is a shell").success());
    let threads = || std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let has_stopped = |thread: std::io::Result<std::fs::DirEntry>| {
        let status = thread.expect("it is read").path().join("status");
        let status = std::fs::read_to_string(status).expect("it is there");
        status.contains("State:\tT")
    };
    while !threads().all(has_stopped) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn tool(arguments: &[&str]) -> (bool, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_ample-malloc"))
        .args(arguments)
        .output()
        .expect("the command is built");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.success(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Samples in the first line: count and bytes, at the time and in brackets.
fn samples(profile: &str) -> Vec<u64> {
    let (first, _) = profile.split_once('@').expect("a first line");
    let numbers = first.split(|c: char| !c.is_ascii_digit());
    numbers.filter_map(|number| number.parse().ok()).collect()
}

#[test]
fn a_program_without_options_is_profiled_while_it_runs() {
    let running = start("busy");
    let pid = running.0.id().to_string();
    let (done, page, error) = tool(&["stats", &pid]);
    assert!(done && page.starts_with("ample-malloc: bytes\n"), "{error}");
    for (flag, form) in [
        ("", "heap_v2"),
        ("--peak", "heap_v2"),
        ("--lifetime", "heapprofile"),
    ] {
        let mut arguments = vec!["profile", &pid, "--for", "2"];
        arguments.extend(Some(flag).filter(|flag| !flag.is_empty()));
        let (done, profile, error) = tool(&arguments);
        assert!(done && error.contains("sampling"), "{error}");
        assert!(profile.contains(&format!("@ {form}/524288\n")), "{profile}");
        assert!(profile.contains("MAPPED_LIBRARIES:"));
        let samples = samples(&profile);
        // What one thread keeps is 50 MB a second at most, and less where it is not let run; the
        // other frees at once, so that a profile of all that was allocated holds far more.
        let least = if flag.is_empty() { 100 } else { 5 };
        assert!(
            samples[0] >= 5 && samples[2] >= least,
            "{flag}: {samples:?}"
        );
    }
    // It samples no more, and can be asked again.
    assert!(tool(&["stats", &pid]).0);
}

#[test]
fn an_idle_program_and_a_stranger_are_told() {
    let running = start("idle");
    let pid = running.0.id().to_string();
    stop(&pid);
    let (done, _, error) = tool(&["stats", &pid]);
    assert!(!done && error.contains("did not allocate"), "{error}");
    for pid in ["1x", "4194305"] {
        let (done, _, error) = tool(&["profile", pid]);
        assert!(!done && error.contains("process"), "{error}");
    }
}
