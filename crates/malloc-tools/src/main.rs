// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample-malloc`: run programs under the allocator, look at them, replay and simulate page heaps.

use ample_kit::files;
use ample_malloc::heap::{HeapOptions, ReleasePolicy};
use ample_malloc::units::PAGE_BYTES;
use ample_malloc::watch::control::AskedFor;
use ample_malloc_tools::attach::Attached;
use ample_malloc_tools::lifetime::{self, LifetimePlan};
use ample_malloc_tools::{bench, driver, figures, fill, heaps, replay, turnover};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const HELP: &str = "\
Run programs under libample_malloc, look at them, and experiment with page heaps.

  ample-malloc run [--options LIST] -- COMMAND...   run under the allocator, statistics at exit
  ample-malloc stats PID                            statistics of a program under the allocator
  ample-malloc profile PID [--peak|--lifetime] [--for SECONDS]
                                                    its heap profile, for pprof; where none is
                                                    taken, of so many seconds from now on [10]
  ample-malloc record FILE -- COMMAND...            run and write a trace of the page heap
  ample-malloc replay FILE [--json] [--no-regions] [--no-density]
                                                    replay a trace over pretended memory
  ample-malloc fill [--json] [--mib N] [--seeds N]  figure 11: policies of the filler
  ample-malloc figures [9|10|11|12] [--json] [--mib N]
                                                    figures 9 to 12 of the paper, beside it
  ample-malloc drive [--json] [--mib N]             the empirical driver over the page heap
  ample-malloc heaps [--mib N] [--seeds N] [--spans-release N]
                                                    this page heap and one of spans, as JSON
  ample-malloc drops [--mib N] [--seeds N]          figure 11 over time, as JSON
  ample-malloc lifetimes FOLDER [--kcalls N] [--short-percent N] [--sure-percent N]
                                                    short-lived objects apart, as JSON
  ample-malloc pageheap [--json] [--gib N]          time of New, Delete and release, by size

The library is looked for beside this program and in its ../lib; AMPLE_MALLOC_LIB overrides.
AMPLE_MALLOC=help COMMAND lists the options. Exit: 0 ok, 2 usage or I/O.
";

/// Largest page-heap trace that is read: its events lie in memory.
const MOST_TRACE_BYTES: u64 = 1 << 30;
/// Mean bytes between the samples of a program that took none before.
const SAMPLE_BYTES: u64 = 512 << 10;
/// The signal that asks a program started by `run` for its statistics.
const STATS_SIGNAL: i32 = 44;

fn main() -> ExitCode {
    match words().and_then(|(arguments, command)| obey(&arguments, &command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("ample-malloc: {text}");
            ExitCode::from(2)
        }
    }
}

fn obey(arguments: &[String], command: &[OsString]) -> Result<(), String> {
    let asks = |word: &String| matches!(word.as_str(), "help" | "--help" | "-h");
    if arguments.is_empty() || arguments.iter().take(2).any(asks) {
        print!("{HELP}");
        return Ok(());
    }
    match arguments.first().map(String::as_str) {
        Some("run") => run(&arguments[1..], command),
        Some("stats") => stats(&arguments[1..]),
        Some("profile") => profile(&arguments[1..]),
        Some("record") => record(&arguments[1..], command),
        Some("replay") => run_replay(&arguments[1..]),
        Some("fill") => run_fill(&arguments[1..]),
        Some("figures") => run_figures(&arguments[1..]),
        Some("drive") => run_drive(&arguments[1..]),
        Some("heaps") => run_heaps(&arguments[1..]),
        Some("drops") => run_drops(&arguments[1..]),
        Some("lifetimes") => run_lifetimes(&arguments[1..]),
        Some("pageheap") => run_pageheap(&arguments[1..]),
        _ => Err(format!("no command {:?}; see --help", arguments[0])),
    }
}

fn library() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("AMPLE_MALLOC_LIB") {
        return Ok(path.into());
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    ample_kit::places::preload_library(folder).ok_or_else(|| {
        format!(
            "libample_malloc.so is not in {} nor in ../lib; build it with cargo build \
             --profile malloc -p ample-malloc or set AMPLE_MALLOC_LIB",
            folder.display()
        )
    })
}

/// The arguments before `--`, which are text, and the command after it, which need not be.
fn words() -> Result<(Vec<String>, Vec<OsString>), String> {
    let mut all: Vec<OsString> = std::env::args_os().skip(1).collect();
    let command = match all.iter().position(|word| word == "--") {
        Some(at) => all.split_off(at).split_off(1),
        None => Vec::new(),
    };
    let text = |word: OsString| {
        word.into_string()
            .map_err(|word| format!("{} is not text", word.display()))
    };
    let before: Result<_, _> = all.into_iter().map(text).collect();
    Ok((before?, command))
}

fn start(command: &[OsString], options: &str) -> Result<(), String> {
    let [program, arguments @ ..] = command else {
        return Err("put -- and a command behind the options".into());
    };
    let mut list = options.to_string();
    if let Ok(more) = std::env::var("AMPLE_MALLOC") {
        list = format!("{list},{more}");
    }
    let error = Command::new(program)
        .args(arguments)
        .env("LD_PRELOAD", library()?)
        .env("AMPLE_MALLOC", list)
        .exec();
    Err(format!("cannot run {}: {error}", program.display()))
}

fn stats_path(pid: &str) -> String {
    format!(
        "{}/ample-malloc.{pid}.stats",
        std::env::temp_dir().display()
    )
}

fn run(arguments: &[String], command: &[OsString]) -> Result<(), String> {
    let options = match arguments {
        [] => String::new(),
        [flag, list] if flag == "--options" => format!(",{list}"),
        _ => return Err("usage: ample-malloc run [--options LIST] -- COMMAND...".into()),
    };
    // At exit as well the statistics go to stderr: the file is for a running program.
    let list = format!(
        "stats=1,profile=2m,signal={STATS_SIGNAL},signal_to={}{options}",
        stats_path("%p")
    );
    start(command, &list)
}

fn record(arguments: &[String], command: &[OsString]) -> Result<(), String> {
    let [file] = arguments else {
        return Err("usage: ample-malloc record FILE -- COMMAND...".into());
    };
    if file.contains(',') {
        return Err("the name of the trace may not contain a comma".into());
    }
    start(command, &format!("record={file}"))
}

/// Whether a program was started by `run`, which has it answer a signal.
fn answers_signal(pid: &str) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let wanted = format!("signal={STATS_SIGNAL}");
    environment
        .windows(wanted.len())
        .any(|part| part == wanted.as_bytes())
}

/// Asks a program started by `run` by a signal with a value, and prints what it writes, which is
/// whole once it holds `last` and has stopped growing.
fn ask(pid: &str, value: usize, last: &str) -> Result<(), String> {
    let number: i32 = pid
        .parse()
        .map_err(|_| format!("\"{pid}\" is no process id"))?;
    let path = stats_path(pid);
    let _ = std::fs::remove_file(&path);
    let value = libc::sigval {
        sival_ptr: std::ptr::without_provenance_mut(value),
    };
    // SAFETY: sends a signal that the process handles.
    if unsafe { libc::sigqueue(number, STATS_SIGNAL, value) } != 0 {
        return Err(format!(
            "process {pid}: {}",
            std::io::Error::last_os_error()
        ));
    }
    let mut before = 0;
    for _ in 0..40 {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if text.contains(last) && text.len() == before {
            print!("{text}");
            let _ = std::fs::remove_file(&path);
            return Ok(());
        }
        before = text.len();
    }
    Err(format!(
        "process {pid} did not answer within 2 s: it is stopped or blocks signal {STATS_SIGNAL}, \
         or the signal met it inside the allocator and it answers at its next slow allocation"
    ))
}

fn stats(arguments: &[String]) -> Result<(), String> {
    let [pid] = arguments else {
        return Err("usage: ample-malloc stats PID".into());
    };
    if answers_signal(pid) {
        return ask(pid, 0, "hugepages rebuilt");
    }
    print!("{}", Attached::to(pid)?.ask(AskedFor::Stats)?);
    Ok(())
}

fn profile(arguments: &[String]) -> Result<(), String> {
    let usage = "usage: ample-malloc profile PID [--peak|--lifetime] [--for SECONDS]";
    let pid = arguments.first().ok_or(usage)?;
    let seconds = value(arguments, "--for", 10)?;
    let (number, kind) = match () {
        () if has(arguments, "--peak") => (2, AskedFor::Peak),
        () if has(arguments, "--lifetime") => (3, AskedFor::Lifetime),
        () => (1, AskedFor::Live),
    };
    if answers_signal(pid) {
        return ask(pid, number, "MAPPED_LIBRARIES:");
    }
    let process = Attached::to(pid)?;
    let started = process.mean_bytes()? == 0;
    if started {
        process.start(SAMPLE_BYTES)?;
        eprintln!("ample-malloc: sampling process {pid} for {seconds} s");
        std::thread::sleep(std::time::Duration::from_secs(seconds as u64));
    }
    let text = process.ask(kind);
    if started {
        process.stop()?;
    }
    print!("{}", text?);
    Ok(())
}

/// The value after a flag, or the default.
fn value(arguments: &[String], flag: &str, default: usize) -> Result<usize, String> {
    match arguments.iter().position(|argument| argument == flag) {
        None => Ok(default),
        Some(at) => arguments
            .get(at + 1)
            .and_then(|text| text.parse().ok())
            .filter(|&number: &usize| (1..=1 << 20).contains(&number))
            .ok_or_else(|| format!("{flag} needs a whole number from 1 to 1048576")),
    }
}

fn has(arguments: &[String], flag: &str) -> bool {
    arguments.iter().any(|argument| argument == flag)
}

fn run_replay(arguments: &[String]) -> Result<(), String> {
    let name = arguments
        .first()
        .filter(|name| !name.starts_with("--"))
        .ok_or("usage: ample-malloc replay FILE [--json] [--no-regions] [--no-density]")?;
    let file = files::open(Path::new(name), MOST_TRACE_BYTES)
        .map_err(|error| format!("{name}: {error}"))?;
    let events = replay::read_events(file).map_err(|error| format!("{name}: {error}"))?;
    let options = HeapOptions {
        regions: !has(arguments, "--no-regions"),
        split_by_density: !has(arguments, "--no-density"),
        ..HeapOptions::default()
    };
    let outcome = replay::replay(&events, options, &ReleasePolicy::default());
    print_outcome(&outcome, has(arguments, "--json"));
    Ok(())
}

fn print_outcome(outcome: &replay::Outcome, json: bool) {
    if json {
        print_json("ample.malloc-replay/1", json!(outcome));
        return;
    }
    let mib = |bytes: usize| format!("{:.1} MiB", bytes as f64 / 1_048_576.0);
    for (name, value) in [
        ("events", outcome.events.to_string()),
        ("time", format!("{:.1} s", outcome.duration_ns as f64 / 1e9)),
        ("peak used", mib(outcome.peak_used_bytes)),
        ("peak backed", mib(outcome.peak_backed_bytes)),
        (
            "mean overhead",
            format!("{:.2} %", outcome.mean_overhead * 100.0),
        ),
        ("used at the end", mib(outcome.end_used_bytes)),
        ("backed at the end", mib(outcome.end_backed_bytes)),
        ("releases", outcome.unback_calls.to_string()),
        ("broken hugepages", outcome.broken_hugepages.to_string()),
        ("regions", outcome.regions.to_string()),
        ("of unknown spans", outcome.unknown.to_string()),
    ] {
        println!("{name:<17} {value:>16}");
    }
}

/// Prints an object with the name of its form.
fn print_json(schema: &str, mut object: Value) {
    object["schema"] = schema.into();
    println!("{object}");
}

fn run_fill(arguments: &[String]) -> Result<(), String> {
    let mib = value(arguments, "--mib", 1200)?;
    let seeds = value(arguments, "--seeds", 3)?;
    let target_pages = mib * (1 << 20) / PAGE_BYTES;
    let mut rows = Vec::new();
    for (policy, name) in fill::Policy::ALL {
        let run = |seed: u64| {
            let plan = fill::Plan {
                target_pages,
                steps: target_pages * 2,
                seed,
            };
            fill::run(policy, plan)
        };
        let runs: Vec<fill::Overhead> = (1..=seeds as u64).map(run).collect();
        let median = |pick: fn(&fill::Overhead) -> f64| {
            let mut all: Vec<f64> = runs.iter().map(pick).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        rows.push(fill::PolicyRow {
            policy: name,
            before: median(|run| run.before),
            after: median(|run| run.after),
            peak_before: median(|run| run.peak_before),
        });
    }
    if has(arguments, "--json") {
        let object = json!({"target_mib": mib, "seeds": seeds, "policies": rows});
        print_json("ample.malloc-fill/1", object);
        return Ok(());
    }
    println!("demand {mib} MiB, drop to a third at half time, {seeds} seeds: medians");
    let line = |cells: [&str; 4]| {
        let [policy, before, after, peak] = cells;
        println!("{policy:<12} {before:>12} {after:>12} {peak:>12}");
    };
    line(["policy", "before", "after", "peak before"]);
    for row in rows {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let (before, after) = (percent(row.before), percent(row.after));
        line([row.policy, &before, &after, &percent(row.peak_before)]);
    }
    Ok(())
}

fn run_figures(arguments: &[String]) -> Result<(), String> {
    let mib = value(arguments, "--mib", 1200)?;
    let wanted = arguments.first().filter(|first| !first.starts_with("--"));
    let number = match wanted.map(|text| text.parse()) {
        None => None,
        Some(Ok(number)) => Some(number),
        Some(Err(_)) => return Err(format!("\"{}\" is no figure", arguments[0])),
    };
    let numbers = number.map_or(figures::NUMBERS.to_vec(), |number| vec![number]);
    let figures: Vec<figures::Figure> = numbers
        .into_iter()
        .map(|number| figures::run(number, mib))
        .collect::<Option<_>>()
        .ok_or_else(|| format!("figure {} is not here: 9, 10, 11 or 12", arguments[0]))?;
    if has(arguments, "--json") {
        println!("{}", figures::json(&figures));
    } else {
        print!("{}", figures::text(&figures));
    }
    Ok(())
}

fn run_drive(arguments: &[String]) -> Result<(), String> {
    let mib = value(arguments, "--mib", 2048)?;
    let load = driver::Load {
        target_pages: mib * (1 << 20) / PAGE_BYTES,
        duration_s: 120.0,
        lifetime_s: 5.0,
        cycle_s: 40.0,
        drop_at_s: Some(80.0),
        seed: 1,
    };
    let events = driver::generate(&load);
    let outcome = replay::replay(&events, HeapOptions::default(), &ReleasePolicy::default());
    print_outcome(&outcome, has(arguments, "--json"));
    Ok(())
}

fn run_heaps(arguments: &[String]) -> Result<(), String> {
    let mib = value(arguments, "--mib", 512)?;
    let seeds = value(arguments, "--seeds", 3)? as u64;
    // Ten-thousandths of the memory in use, a second.
    let release = value(arguments, "--spans-release", 40)?;
    let pages = mib * (1 << 20) / PAGE_BYTES;
    println!("{}", heaps::json(pages, seeds, release as f64 / 1e4));
    Ok(())
}

fn run_drops(arguments: &[String]) -> Result<(), String> {
    let mib = value(arguments, "--mib", 300)?;
    let seeds = value(arguments, "--seeds", 5)? as u64;
    println!("{}", turnover::json(mib * (1 << 20) / PAGE_BYTES, seeds));
    Ok(())
}

fn run_lifetimes(arguments: &[String]) -> Result<(), String> {
    let folder = arguments.first().ok_or("which folder of recordings?")?;
    let plan = LifetimePlan {
        calls: value(arguments, "--kcalls", 1 << 20)? * 1000,
        short_percent: value(arguments, "--short-percent", 25)?,
        sure_percent: value(arguments, "--sure-percent", 95)?,
    };
    println!("{}", lifetime::json(Path::new(folder), plan)?);
    Ok(())
}

fn run_pageheap(arguments: &[String]) -> Result<(), String> {
    let gib = value(arguments, "--gib", 64)?;
    let json = has(arguments, "--json");
    let sizes: Vec<usize> = [1, 4, 16, 64, 256]
        .into_iter()
        .filter(|&size| size < gib)
        .chain([gib])
        .collect();
    let mut rows = Vec::new();
    for gib in sizes {
        let times = bench::page_heap(gib, 400_000, 1);
        let (new_ns, delete_ns) = (times.new_ns, times.delete_ns);
        let (release_ns, release_p99_ns) = (times.release_ns, times.release_p99_ns);
        if !json {
            println!(
                "{gib:>4} GiB: New {new_ns:>6.1} ns, Delete {delete_ns:>6.1} ns (medians of \
                 batches of 64), release {release_ns:>6.0} ns (99 % {release_p99_ns:.0})"
            );
        }
        rows.push(json!({
            "heap_gib": gib, "new_median_ns": new_ns, "delete_median_ns": delete_ns,
            "release_step_median_ns": release_ns, "release_step_p99_ns": release_p99_ns
        }));
    }
    if json {
        print_json("ample.malloc-pageheap/1", json!({"sweep": rows}));
    }
    Ok(())
}
