// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small recordings in the three text forms, damaged ones, and a real one.

use ample_mm::replay::{KernelReplay, Repairs, ReplayError, ReplayOptions, ReplayResult};
use ample_mm::{Config, PolicyKind};
use ample_trace::pages::PageTraceError;
use std::path::{Path, PathBuf};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

fn configs(memory_bytes: u64) -> Vec<Config> {
    let config = |kind| {
        let mut config = Config::new(kind);
        config.memory_bytes = memory_bytes;
        config.cpus = 2;
        config
    };
    PolicyKind::ALL.map(config).to_vec()
}

fn play(replay: &KernelReplay) -> ReplayResult {
    let bytes = replay.survey().memory_bytes();
    replay.run(&configs(bytes), &|_| {}).expect("a replay")
}

fn text(lines: &str) -> Result<KernelReplay, ReplayError> {
    KernelReplay::from_bytes(
        lines.as_bytes().to_vec(),
        "trace.txt",
        ReplayOptions::default(),
    )
}

/// Each line is `cpu time event fields`; written out in the form of tracefs.
fn tracefs(lines: &[&str]) -> String {
    let line = |text: &&str| {
        let mut words = text.splitn(3, ' ');
        let mut next = || words.next().unwrap_or("");
        let (cpu, time, rest) = (next(), next(), next());
        format!("   task-1   [{cpu:0>3}] ..... {time}: mm_page_{rest}\n")
    };
    lines.iter().map(line).collect()
}

const USER: &str = "migratetype=1 gfp_flags=GFP_HIGHUSER_MOVABLE|__GFP_ZERO";
const KERNEL: &str = "migratetype=0 gfp_flags=GFP_KERNEL";

fn repairs_of(lines: &[&str]) -> (Repairs, ReplayResult) {
    let lines: Vec<String> = lines
        .iter()
        .map(|line| line.replace("USER", USER).replace("KERNEL", KERNEL))
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let replay = text(&tracefs(&lines)).expect("a readable trace");
    let result = play(&replay);
    (result.repairs.clone(), result)
}

fn all_free(result: &ReplayResult) {
    for policy in &result.policies {
        let free = policy.metrics.total.free_bytes;
        assert_eq!(free, policy.memory_bytes, "{}", policy.policy.name());
        assert_eq!(policy.unplaced_blocks, 0);
    }
    let last = result.kernel.last().expect("a sample");
    assert_eq!((last.live_pages, last.unmovable_pages), (0, 0));
}

#[test]
fn the_three_forms_say_the_same() {
    let read = |name: &str| {
        let options = ReplayOptions {
            samples: 3,
            ..ReplayOptions::default()
        };
        KernelReplay::open(&data(name), options).expect(name)
    };
    for (name, failed, lost) in [
        ("tracefs.txt", 1, 43),
        ("trace-cmd.txt", 0, 7),
        ("perf.txt", 0, 12),
    ] {
        let replay = read(name);
        let counts = &replay.survey().counts;
        assert_eq!(counts.page_alloc, 3 + failed, "{name}");
        assert_eq!(
            (counts.page_free, counts.page_free_batched),
            (3, 1),
            "{name}"
        );
        assert_eq!(counts.unreadable_lines, 0, "{name} {counts:?}");
        assert_eq!(counts.lost_events, lost, "{name}");
        assert_eq!(replay.survey().duration_ns(), 499_999_000, "{name}");
        let result = play(&replay);
        let expected = Repairs {
            failed_allocs: failed,
            max_gap_ns: result.repairs.max_gap_ns,
            ..Repairs::default()
        };
        assert_eq!(result.repairs, expected, "{name}");
        let middle = &result.kernel[1];
        assert_eq!(
            (middle.live_pages, middle.unmovable_pages),
            (1, 1),
            "{name}"
        );
        assert_eq!(result.policies[0].samples.len(), 3);
        all_free(&result);
    }
}

#[test]
fn other_events_of_a_trace_file_are_counted_by_name() {
    let replay =
        KernelReplay::open(&data("tracefs.txt"), ReplayOptions::default()).expect("a trace");
    let counts = &replay.survey().counts;
    assert_eq!(counts.other_event_names["rss_stat"], 1);
    assert_eq!((counts.page_alloc_extfrag, counts.extfrag_claimed), (1, 1));
    assert_eq!(counts.page_alloc_zone_locked, 1);
    assert_eq!(counts.page_pcpu_drain, 1);
    assert_eq!(counts.lost_notes, 1);
}

/// One wrong digit made servers of a terabyte.
#[test]
fn few_frames_far_from_all_others_are_told() {
    let with = |near: usize, far: &[&str]| {
        let line = |pfn: &str| format!("0 1.0 free: page=0 pfn={pfn} order=0");
        let lines: Vec<String> = (0..near)
            .map(|at| line(&format!("{:#x}", 0x1000 + at)))
            .chain(far.iter().map(|pfn| line(pfn)))
            .collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let replay = text(&tracefs(&lines)).expect("a readable trace");
        replay.survey().far_frames()
    };
    let found = with(2000, &["0xfffff00", "0x100"]).expect("one in two thousand");
    assert_eq!((found.events, found.of_events), (1, 2002));
    assert_eq!(found.near_bytes, 128 << 20);
    assert_eq!(with(2000, &[]), None);
    assert_eq!(with(2000, &["0x10000"]), None, "near enough");
    assert_eq!(with(500, &["0xfffff00"]), None, "one in five hundred");
}

#[test]
fn frees_of_earlier_pages_and_double_frees_are_counted() {
    let (repairs, result) = repairs_of(&[
        "0 1.0 free: pfn=0x10 order=0",
        "0 1.1 free_batched: pfn=0x10 order=0",
        "0 1.2 free: pfn=0x10 order=0",
        "0 1.3 alloc: pfn=0x20 order=0 USER",
        "0 1.4 free: pfn=0x20 order=0",
        "0 1.5 free_batched: pfn=0x20 order=0",
        "0 1.6 free_batched: pfn=0x20 order=0",
        "0 1.7 free: pfn=0x40 order=3",
    ]);
    assert_eq!(repairs.frees_of_earlier_pages, 2);
    assert_eq!(repairs.double_frees, 2);
    assert_eq!(repairs.total(), 4);
    all_free(&result);
}

/// Older kernels report the batch before the page.
#[test]
fn a_batched_free_and_its_page_free_are_one_in_either_order() {
    let (repairs, result) = repairs_of(&[
        "0 1.0 alloc: pfn=0x20 order=0 USER",
        "0 1.1 free_batched: pfn=0x20 order=0",
        "0 1.2 free: pfn=0x20 order=0",
    ]);
    assert_eq!(repairs.total(), 0);
    all_free(&result);
}

#[test]
fn missing_frees_are_made_up_for() {
    let (repairs, result) = repairs_of(&[
        "0 1.0 alloc: pfn=0x20 order=0 USER",
        "0 1.1 alloc: pfn=0x20 order=0 KERNEL",
        "0 1.2 alloc: pfn=0x20 order=2 KERNEL",
        "0 1.3 alloc: pfn=0x23 order=0 USER",
        "0 1.4 free: pfn=0x23 order=0",
    ]);
    assert_eq!(repairs.missing_frees, 3);
    assert_eq!(repairs.total(), 3);
    all_free(&result);
}

#[test]
fn blocks_freed_in_parts_or_together_keep_their_pages_right() {
    for (order, pages) in [(2u32, 4u64), (9, 512), (10, 1024)] {
        for class in ["USER", "KERNEL"] {
            let mut lines = vec![format!("0 1.0 alloc: pfn=0x400 order={order} {class}")];
            for page in 0..pages {
                let pfn = 0x400 + (page * 7) % pages;
                lines.push(format!("0 1.1 free: pfn={pfn:#x} order=0"));
            }
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let (repairs, result) = repairs_of(&lines);
            assert_eq!((repairs.split_blocks, repairs.total()), (1, 1));
            all_free(&result);
        }
    }
    let (repairs, result) = repairs_of(&[
        "0 1.0 alloc: pfn=0x20 order=0 USER",
        "0 1.1 alloc: pfn=0x21 order=0 KERNEL",
        "0 1.2 free: pfn=0x20 order=1",
    ]);
    assert_eq!((repairs.larger_frees, repairs.total()), (1, 1));
    all_free(&result);
}

#[test]
fn time_going_back_stops_the_clock_and_is_counted() {
    let (repairs, result) = repairs_of(&[
        "0 5.0 alloc: pfn=0x20 order=0 USER",
        "1 4.0 alloc: pfn=0x21 order=0 USER",
        "0 4.5 free: pfn=0x20 order=0",
        "1 9.0 free: pfn=0x21 order=0",
    ]);
    assert_eq!(repairs.backward_across_cpus, 1);
    assert_eq!(repairs.backward_same_cpu, 1);
    assert_eq!(repairs.max_backward_ns, 1_000_000_000);
    assert_eq!(repairs.max_gap_ns, 4_000_000_000);
    assert_eq!(result.duration_s, 4.0);
    all_free(&result);
}

/// A clock that jumps by years must not make the replay tick through them.
#[test]
fn a_wild_time_stamp_costs_no_time() {
    let (repairs, result) = repairs_of(&[
        "0 1.0 alloc: pfn=0x20 order=0 USER",
        "0 999999999.0 free: pfn=0x20 order=0",
    ]);
    assert_eq!(repairs.max_gap_ns, 999_999_998_000_000_000);
    all_free(&result);
}

#[test]
fn errors_name_file_line_and_field() {
    let alloc = "  a-1 [000] ..... 1.5: mm_page_alloc: pfn=0x10 order=0 migratetype=0 gfp_flags=0";
    let cases = [
        ("pfn=0x10", "pfn=0xzz", "field pfn: not a frame number"),
        ("pfn=0x10", "pfn=0x10000000", "field pfn: beyond 1 TB"),
        ("pfn=0x10", "pfn=-1", "field pfn: not a frame"),
        ("pfn=0x10 ", "", "field pfn: missing"),
        ("order=0", "order=x", "field order: not a number"),
        ("order=0", "order=12", "field order: larger than 10"),
        ("order=0", "order=5", "field pfn: not aligned"),
        ("migratetype=0", "migratetype=99", "field migratetype"),
        (" gfp_flags=0", "", "field gfp_flags: missing"),
        ("1.5:", "1234:", "field time: no fraction"),
        ("1.5:", "1.5x:", "field time: not seconds"),
        ("[000]", "[99999]", "field cpu"),
        ("[000]", "000", "field line: no `[cpu] time: event:`"),
    ];
    for (from, to, expected) in cases {
        let broken = alloc.replace(from, to);
        let error = text(&format!("{alloc}\n{broken}\n")).expect_err(to);
        let said = error.to_string();
        assert!(said.starts_with("trace.txt: 1 of 2 lines"), "{said}");
        assert!(said.contains(&format!("line 2, {expected}")), "{said}");
    }
}

#[test]
fn a_few_unreadable_lines_are_reported_and_many_are_an_error() {
    let good = tracefs(&["0 1.0 free: pfn=0x10 order=0"]);
    let mostly = format!("{}garbage\n", good.repeat(200));
    let counts = text(&mostly)
        .expect("mostly readable")
        .survey()
        .counts
        .clone();
    assert_eq!(counts.unreadable_lines, 1);
    let first = counts.first_unreadable.expect("the line");
    assert!(first.starts_with("line 201, field line"), "{first}");
    let early = format!(
        "{}{}",
        "garbage\n".repeat(2000),
        good.repeat(9_000_000 / good.len())
    );
    match text(&early) {
        Err(ReplayError::Trace(PageTraceError::TooManyUnreadable { lines: 1000, .. })) => {}
        other => panic!("{:?}", other.map(|replay| replay.survey().counts.clone())),
    }
}

#[test]
fn the_last_line_counts_only_with_its_end() {
    let whole = tracefs(&[
        "0 1.0 free: pfn=0x10 order=0",
        "0 1.0 free: pfn=0x20 order=0",
    ]);
    let cut = &whole[..whole.len() - 1];
    let counts = text(cut).expect("readable").survey().counts.clone();
    assert!(counts.truncated_last_line);
    assert_eq!((counts.lines, counts.page_free), (2, 1));
}

#[test]
fn what_is_no_recording_is_refused() {
    for empty in [
        "",
        "# tracer: nop\n",
        "a-1 [000] ..... 1.5: sched_switch: x=1\n",
    ] {
        let error = text(empty).expect_err("no events");
        assert!(matches!(error, ReplayError::NoEvents { .. }), "{error}");
    }
    let options = ReplayOptions::default();
    let error =
        KernelReplay::open(Path::new("/nonexistent"), options.clone()).expect_err("no file");
    assert!(error.to_string().contains("/nonexistent"), "{error}");
    let error = KernelReplay::open(&data(""), options).expect_err("a directory");
    assert!(matches!(error, ReplayError::NotAFile { .. }), "{error}");
    let mut cut = std::fs::read(data("stock-2g-start.trace.zst")).expect("the recording");
    cut.truncate(cut.len() / 2);
    let error =
        KernelReplay::from_bytes(cut, "cut.zst", ReplayOptions::default()).expect_err("cut");
    let said = error.to_string();
    assert!(said.starts_with("cut.zst: line "), "{said}");
}

#[test]
fn a_line_longer_than_the_buffer_is_one_unreadable_line() {
    let good = tracefs(&["0 1.0 free: pfn=0x10 order=0"]).repeat(200);
    let counts = text(&format!("{good}{}\n{good}", "x".repeat(3 << 20)))
        .expect("readable")
        .survey()
        .counts
        .clone();
    assert_eq!(
        (counts.unreadable_lines, counts.page_free, counts.lines),
        (1, 400, 401)
    );
}

/// A real Linux 6.12 guest: what the recorder counted, and a replay that fits on every policy.
#[test]
fn a_real_kernel_drives_every_policy() {
    let path = data("stock-2g-start.trace.zst");
    let replay = KernelReplay::open(&path, ReplayOptions::default()).expect("the recording");
    let counts = &replay.survey().counts;
    assert_eq!(counts.lines, 14_000);
    assert_eq!(counts.page_events() + counts.quiet_lines, 14_000);
    assert_eq!(replay.survey().memory_bytes(), 2 << 30);
    let result = play(&replay);
    // Nothing was lost, so nothing is inconsistent but what began before the recording.
    let repairs = &result.repairs;
    assert_eq!(repairs.double_frees, 0, "{repairs:?}");
    assert_eq!(repairs.failed_allocs, 0);
    let last = result.kernel.last().expect("a sample");
    assert!(last.unmovable_pages > 100, "{last:?}");
    for policy in &result.policies {
        let name = policy.policy.name();
        assert_eq!(policy.unplaced_blocks, 0, "{name}");
        let used = policy.memory_bytes - policy.metrics.total.free_bytes;
        assert_eq!(used, last.live_pages * 4096, "{name}");
        let end = policy.samples.last().expect("a sample");
        let unmovable = end.unmovable_page_ratio * policy.memory_bytes as f64 / 4096.0;
        assert_eq!(unmovable.round() as u64, last.unmovable_pages, "{name}");
    }
}

/// Same bytes out on one thread and on several.
#[test]
fn a_replay_does_not_depend_on_threads() {
    let path = data("stock-2g-start.trace.zst");
    let replay = KernelReplay::open(&path, ReplayOptions::default()).expect("the recording");
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.expect("a thread pool");
        let result = pool.install(|| replay.run(&configs(2 << 30), &|_| {}));
        serde_json::to_string(&result.expect("a replay")).expect("JSON")
    };
    assert_eq!(on(1), on(4));
}
