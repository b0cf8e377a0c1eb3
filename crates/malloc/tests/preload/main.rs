// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shared library under C and C++ programs, with each of the ways it can work.

#![cfg(all(target_os = "linux", feature = "preload"))]

mod closed;
mod groups;
mod misuse;
mod socket;

use ample_malloc::heap::trace;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

/// The library that was built beside this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let folder = test.parent().expect("a file is in a folder");
    let path = folder.join("libample_malloc.so");
    assert!(path.exists(), "{} is missing", path.display());
    path
}

/// Compiles a program of `tests/programs`.
fn program(name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(name);
    let compiler = if name.ends_with(".cc") { "c++" } else { "cc" };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let binary = folder.join(format!("{name}.{}", std::process::id()));
    // Tests that share a program wait for each other: the linker writes it before it may be run.
    static BUILT: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut built = BUILT.lock().expect("no compiler failed before");
    if built.iter().any(|done| done == name) {
        return binary;
    }
    // The program's own mmap takes the place of the C library's only if it is exported.
    // No optimisation of malloc calls: the compiler knows what they do and removes them.
    let shared = name == "plugin.cc";
    let flags = [
        if shared { "-shared" } else { "-pie" },
        "-fPIC",
        "-O1",
        "-fno-builtin",
        "-rdynamic",
        // What only the library has is looked for when the program starts.
        "-Wl,--unresolved-symbols=ignore-all",
        "-pthread",
        "-Wno-use-after-free",
        "-w",
    ];
    let done = Command::new(compiler)
        .args(flags)
        .arg("-o")
        .arg(&binary)
        .arg(&source)
        .status();
    assert!(
        done.expect("a C compiler is installed").success(),
        "{name} does not compile"
    );
    built.push(name.to_string());
    binary
}

fn run(binary: &Path, arguments: &[&str], options: &str) -> Output {
    Command::new(binary)
        .args(arguments)
        .env("LD_PRELOAD", library())
        .env("AMPLE_MALLOC", options)
        .output()
        .expect("the program starts")
}

fn expect_ok(binary: &Path, arguments: &[&str], options: &str) {
    let output = run(binary, arguments, options);
    let (out, err) = (&output.stdout, &output.stderr);
    let shown = format!(
        "{}{}",
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(err)
    );
    assert!(
        output.status.success(),
        "{}, AMPLE_MALLOC={options}: {shown}",
        output.status
    );
    assert!(shown.contains("ok"), "{shown}");
}

/// Each way the allocator can work.
const WAYS: [&str; 12] = [
    "",
    "rseq=0",
    "check=1",
    "profile=64k",
    "guard=3",
    // Without a pool this is the pool's exhaustion.
    "hugetlb=2m",
    "numa=2",
    "numa=3,rseq=0",
    "huge=always",
    "huge=never,release=0",
    "density=0,regions=0,hugecache=0",
    "cpu_cache=16k,keep=0,keep_percent=0,start_percent=0,huge_floor=0",
];

/// Tests that run a program of `tests/programs` with some arguments and options, and expect "ok".
macro_rules! programs {
    ($($(#[$doc:meta])* $name:ident: $file:literal, $arguments:expr, $options:expr;)*) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            let binary = program($file);
            let (all_arguments, all_options): (&[&[&str]], &[&str]) = (&$arguments, &$options);
            for arguments in all_arguments {
                for options in all_options {
                    expect_ok(&binary, arguments, options);
                }
            }
        }
    )*};
}

programs! {
    entry_points_keep_their_promises_in_every_way: "entry_points.c", [&[]], WAYS;
    operators_of_cxx_work_and_throw: "operators.cc", [&[]], WAYS;
    cold_objects_lie_apart_in_all_forms: "hot_cold.cc", [&[]], ["", "rseq=0", "guard=3"];
    cold_objects_are_served_in_every_way: "hot_cold.cc", [&["same"]], WAYS;
    threads_signals_and_forks_damage_nothing: "threads.c", [&["8"]], WAYS;
    so_they_do_with_a_background_thread: "threads.c", [&["20"]], ["background=1"];
    /// Once in some forty runs of `threads.c` the child of a fork called it a double free.
    objects_that_were_about_to_be_freed_at_a_fork_are_live_in_the_child:
        "marked.c", [&[]], ["check=1", "check=1,rseq=0", "check=1,numa=2"];
    /// Other libraries' fork handlers ran inside the allocator's locks and hung.
    fork_handlers_may_allocate_in_any_order: "fork_handlers.c", [&[]], ["", "rseq=0", "numa=2"];
    /// The array, sized and nothrow forms did not call the program's own plain ones.
    operators_that_a_program_replaces_are_used_by_all_forms:
        "replaced_operators.cc", [&[]], ["", "rseq=0"];
    /// Children of vfork corrupted the slabs of their parent.
    children_of_vfork_may_allocate: "vfork.c", [&["40"]], ["", "rseq=0", "check=1"];
    /// `membarrier` killed programs that had confined themselves.
    a_program_that_confines_itself_goes_on:
        "seccomp.c", [&["0"], &["1"], &["2"]], ["", "rseq=0"];
    /// It killed those confined past the C library's `prctl`, or before they were started.
    a_program_that_is_confined_past_the_c_library_goes_on:
        "seccomp.c",
        [&["2", "syscall"], &["2", "instruction", "late"], &["2", "exec"]],
        [""];
    /// The background thread had too small a stack, the priority and the processors of its creator
    /// and no name, and was always there.
    a_background_thread_is_as_any_other: "background.c", [&["1"]], ["background=1"];
    no_background_thread_is_there_unless_asked_for: "background.c", [&["0"]], [""];
    a_hard_limit_fails_requests_after_all_free_memory_went_back:
        "limits.c", [&["hard"]], ["limit=64m", "limit=64m,rseq=0", "limit=64m,check=1"];
    a_soft_limit_gives_free_memory_back:
        "limits.c", [&["soft"]], ["soft_limit=64m", "soft_limit=64m,release=0"];
    limits_may_be_set_by_the_program:
        "limits.c", [&["hard", "x"], &["soft", "x"]], ["", "limit=100%"];
    /// The background thread once left heaps below 16 MiB alone.
    a_heap_that_was_never_large_gives_memory_back_too: "giveback.c", [&[]], ["background=1"];
    /// Large objects were always copied, and moved to shrink.
    large_objects_grow_and_shrink_without_a_copy:
        "realloc.c", [&[], &["700001"]], ["", "rseq=0", "background=1", "huge=never"];
    /// What was freed stayed until the next call, and with it for good in a program that makes
    /// none. Sizes of objects, and threads that do nothing.
    a_program_that_goes_idle_has_given_its_memory_back:
        "idle.c",
        [&["0"], &["1"], &["2"], &["3"], &["4"], &["5"], &["6"], &["7"], &["8"], &["9"]],
        [""];
    /// A release that is regretted makes the next one wait, and there was no call after the wait.
    a_saw_tooth_with_pauses_leaves_nothing_behind:
        "teeth.c",
        [&["65536", "10", "100"], &["1000", "10", "100"], &["1000000", "10", "100"]],
        ["", "rseq=0"];
    /// What caches held and whole hugepages were kept for stayed.
    a_program_that_hardly_calls_has_given_its_memory_back: "hardly.c",
        [&["3", "1000", "20000"], &["3", "1000", "2000"]], ["", "rseq=0"];
    /// A span that held one live object kept all of its memory.
    memory_without_live_objects_goes_back_inside_spans:
        "holes.c",
        [&["trim", "runs", "128"], &["trim", "random", "128"], &["idle", "runs", "192"]],
        ["", "rseq=0"];
    /// Memory went back in slow calls only.
    it_goes_back_if_no_call_leaves_the_caches_of_a_processor:
        "holes.c", [&["cached", "runs", "192"]], [""];
    holes_in_spans_damage_nothing_in_any_way: "holes.c", [&["trim", "runs", "48", "always"]], WAYS;
    /// Each took hugepages of its own; chunks of 1 GiB were locked; khugepaged filled up what had
    /// been given back.
    memory_lies_behind_what_is_used_and_nothing_else:
        "backing.c",
        [
            &["200", "524288", "1048576"],
            &["400", "65536", "2097152"],
            &["2000", "8192", "65536"],
            &["40", "2101248", "2097152"],
            &["locked"],
            &["broken"],
            &["sparse"],
        ],
        [""];
    /// What the kernel had no hugepage for when it was touched stayed on native pages.
    memory_on_native_pages_is_rebuilt_when_there_are_hugepages:
        "native.c", [&[]], [""];
    it_stays_where_it_is_if_that_is_turned_off: "native.c", [&["stays"]], ["contiguity=0"];
    /// The background thread once kept a process alive whose first thread had ended by
    /// `pthread_exit`; CPython's test_threading found it.
    a_process_ends_with_the_last_of_its_own_threads: "last_thread.c", [&[]], ["", "background=1"];
    /// The whole C interface against a reference that knows every live object.
    random_sequences_of_calls_keep_every_object_intact:
        "sequences.c", [&["200000", "1", "1"], &["50000", "4", "2"]], WAYS;
    refused_system_calls_give_enomem_and_damage_nothing:
        "refusals.c",
        [&["17"]],
        ["", "rseq=0", "huge=always", "keep=0,keep_percent=0,huge_floor=0"];
    /// Found an arena chunk that was taken for larger than it was mapped.
    memory_refused_at_every_call_gives_enomem_and_damages_nothing:
        "oom.c", [&[]], ["", "rseq=0"];
}

/// A failing operator new aborted where only a plugin has a C++ library.
#[test]
fn operator_new_throws_in_a_plugin_of_a_c_program() {
    let (host, plugin) = (program("plugin_host.c"), program("plugin.cc"));
    let plugin = plugin.to_str().expect("a plain path");
    expect_ok(&host, &[plugin], "");
}

#[test]
fn own_entry_points_and_signals_do_what_the_header_says() {
    let binary = program("own_interface.c");
    let file = format!("signalled.{}", std::process::id());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    let shown = path.to_str().expect("a path of this project");
    for options in ["", "rseq=0", "check=1", "background=1"] {
        expect_ok(&binary, &[], options);
        let _ = std::fs::remove_file(&path);
        let signal = format!("signal=10,signal_to={shown},{options}");
        expect_ok(&binary, &[shown], &signal);
    }
    let _ = std::fs::remove_file(&path);
}

#[test]
fn help_is_printed_and_unknown_options_are_named_in_one_line() {
    let binary = Path::new("/bin/true");
    let help = run(binary, &[], "help");
    assert!(help.status.success());
    assert_eq!(
        String::from_utf8_lossy(&help.stderr),
        ample_malloc::watch::options::HELP
    );
    let unknown = run(binary, &[], "huge=maybe");
    assert!(unknown.status.success());
    let line = String::from_utf8_lossy(&unknown.stderr);
    assert!(
        line.contains("huge=maybe") && line.matches('\n').count() == 1,
        "{line}"
    );
}

/// Each node has a heap of its own, from which its CPUs are served, and gets its objects back from
/// wherever they are freed. (That the memory of a heap lies on its node takes a machine with two:
/// `make kernel-malloc`.)
#[test]
fn pretended_nodes_are_served_from_heaps_of_their_own() {
    let binary = program("numa.c");
    let output = run(&binary, &[], "numa=2,stats=json");
    assert!(output.status.success(), "{output:?}");
    let json = String::from_utf8_lossy(&output.stderr);
    let value = |name: &str| -> usize {
        let (_, rest) = json
            .split_once(&format!("\"{name}\":"))
            .unwrap_or_else(|| panic!("{name} is missing in {json}"));
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
        digits
            .and_then(|digits| digits.parse().ok())
            .expect("a number")
    };
    assert_eq!(value("numa_nodes"), 2);
    let cpus = std::thread::available_parallelism().expect("CPUs").get();
    for node in 0..2.min(cpus) {
        let (used, backed) = (
            value(&format!("numa_node{node}_used_bytes")),
            value(&format!("numa_node{node}_backed_bytes")),
        );
        // Each made 38 MB at a time, all of which was freed, most of it by the other.
        assert!(backed >= 8 << 20, "node {node} has {backed} bytes");
        assert!(used <= 16 << 20, "node {node} still uses {used} bytes");
    }
    expect_ok(&binary, &[], "numa=2,rseq=0");
    expect_ok(&binary, &[], "numa=1");
}

#[test]
fn small_address_spaces_give_enomem_and_no_crash() {
    let binary = program("threads.c");
    for limit_kib in [200_000, 400_000, 4_000_000] {
        let script = format!("ulimit -v {limit_kib}; exec {} 2", binary.display());
        let output = Command::new("sh")
            .args(["-c", &script])
            .env("LD_PRELOAD", library())
            .output()
            .expect("sh");
        let text = String::from_utf8_lossy(&output.stderr);
        // The program itself aborts when malloc gives nothing; the allocator may not complain.
        assert!(!text.contains("ample-malloc"), "{limit_kib} KiB: {text}");
    }
}

/// RLIMIT_DATA counts every private writable mapping when it is made, as strict overcommit does for
/// the whole machine: what is reserved must shrink to what may be had.
#[test]
fn a_limit_on_what_may_be_committed_leaves_the_program_running() {
    let binary = program("threads.c");
    for limit_kib in [150_000, 600_000] {
        let script = format!("ulimit -d {limit_kib}; exec {} 2", binary.display());
        for options in ["", "rseq=0", "background=1"] {
            expect_ok(Path::new("/bin/sh"), &["-c", &script], options);
        }
    }
}

/// A container may lack `/proc` and `/sys`: in a name space of its own they are empty here.
#[test]
fn without_proc_and_sys_everything_works() {
    let hide = "mount -t tmpfs none /proc && mount -t tmpfs none /sys && test ! -e /proc/self";
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-r", "-m", "sh", "-c", script]);
        command
    };
    let allowed = unshare(hide).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        eprintln!("not run: unshare may make no mount name space here");
        return;
    }
    let (threads, entries) = (program("threads.c"), program("entry_points.c"));
    for (binary, arguments) in [(&threads, "2"), (&entries, "")] {
        for options in ["", "rseq=0", "hugetlb=2m", "stats=json", "profile=64k"] {
            let script = format!("{hide} && exec {} {arguments}", binary.display());
            let mut command = unshare(&script);
            command
                .env("LD_PRELOAD", library())
                .env("AMPLE_MALLOC", options);
            let output = command.output().expect("unshare was there before");
            let shown = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "AMPLE_MALLOC={options}: {shown}");
        }
    }
}

#[test]
fn programs_of_the_system_run() {
    for (command, expected) in [
        ("echo $(echo nested $(echo shells))", "nested shells"),
        ("seq 1 20000 | sort -rn | head -1", "20000"),
        ("printf 'a b c' | awk '{print $2}'", "b"),
        ("AMPLE_MALLOC=nonsense=1 true; echo went on", "went on"),
    ] {
        let output = Command::new("bash")
            .args(["-c", command])
            .env("LD_PRELOAD", library())
            .output()
            .expect("bash");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.trim() == expected,
            "{command}: {text}"
        );
    }
}

/// The part of `make malloc-foreign` whose programs every machine has.
#[test]
fn foreign_programs_do_what_they_do_under_glibc() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/malloc/foreign.py");
    let run = Command::new("python3")
        .arg(script)
        .args(["--runs", "1", "perl", "python", "setuid", "--library"])
        .arg(library())
        .output();
    let Ok(output) = run else {
        eprintln!("not run: python3 is not installed here");
        return;
    };
    assert!(output.status.success(), "{output:?}");
}

/// A profile took every call off the fast path, and knew only what is live.
#[test]
fn a_profile_counts_each_byte_once() {
    let binary = program("profile.c");
    for options in ["profile=64k", "profile=64k,rseq=0"] {
        // Samples on the whole: what is shown, and in brackets.
        let samples = |kind: &str| -> Vec<f64> {
            let output = run(&binary, &[kind], options);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let (first, _) = text.split_once('@').expect("a first line");
            let numbers = first.split(|c: char| !c.is_ascii_digit());
            numbers.filter_map(|number| number.parse().ok()).collect()
        };
        let near = |count: f64, bytes: f64| (count / (bytes / 65536.0) - 1.0).abs() < 0.25;
        let (live, peak, freed) = (samples("0"), samples("1"), samples("2"));
        assert!(near(live[0], 20e6) && near(live[2], 94e6), "{live:?}");
        assert!(near(peak[0], 30e6), "{peak:?}");
        assert!(near(freed[0], 74e6), "{freed:?}");
    }
}

#[test]
fn statistics_profile_and_trace_are_written() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let binary = program("threads.c");
    let file = |name: &str| folder.join(format!("{name}.{}", std::process::id()));
    let (profile, recording, stats) = (file("profile"), file("trace"), file("stats"));
    let options = format!(
        "stats=json,stats_to={},profile=32k,profile_to={},record={}",
        stats.display(),
        profile.display(),
        recording.display()
    );
    // No fork here: the child of a fork writes no trace, and this program's child ends by _exit.
    expect_ok(&binary, &["3"], &options);
    let json = std::fs::read_to_string(&stats).expect("statistics");
    assert!(
        json.starts_with("{\"schema\":\"ample.malloc-stats/1\""),
        "{json}"
    );
    assert!(json.contains(",\"classes\":[{\"object_bytes\":"), "{json}");
    let text = std::fs::read_to_string(&profile).expect("profile");
    assert!(text.starts_with("heap profile: ") && text.contains("MAPPED_LIBRARIES:"));
    let bytes = std::fs::read(&recording).expect("trace");
    let records = bytes.strip_prefix(trace::MAGIC).expect("the first bytes");
    let (records, rest) = records.as_chunks::<{ trace::RECORD_BYTES }>();
    assert!(records.len() > 100 && rest.is_empty());
    assert!(
        records
            .iter()
            .all(|record| trace::Event::decode(record).is_some())
    );
    let more =
        [".peak", ".lifetime"].map(|end| PathBuf::from(format!("{}{end}", profile.display())));
    assert!(more.iter().all(|path| path.exists()));
    for path in more.into_iter().chain([profile, recording, stats]) {
        let _ = std::fs::remove_file(path);
    }
}
