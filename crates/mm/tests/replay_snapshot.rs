// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays that start from a snapshot of the recorded machine: pages that were there before are
//! there, and their frees match them.

use ample_mm::replay::{KernelReplay, ReplayError, ReplayOptions, ReplayResult, Start};
use ample_mm::workload::PageStream;
use ample_mm::{Config, PolicyKind, ServerError};
use ample_pfn::{Layout, PageClass, Pfn};
use proptest::prelude::*;
use std::fmt::Write;

/// 128 MB from frame 1.
const PAGES: u64 = 32767;

fn configs() -> Vec<Config> {
    PolicyKind::ALL.map(Config::new).to_vec()
}

fn start(class_of: impl Fn(u64) -> PageClass) -> Start {
    let classes = (1..=PAGES).map(class_of).collect();
    Start::new(Layout::single(Pfn(1), PAGES), classes).expect("one class a frame")
}

/// A hole, firmware, a huge page's worth of user memory, scattered kernel pages.
fn machine() -> Start {
    start(|pfn| match (pfn / 512, pfn % 512) {
        (0, 0..160) => PageClass::Reserved,
        (10..12, _) => PageClass::Hole,
        (20, _) => PageClass::Anon,
        (_, 7) => PageClass::Network,
        (_, 8..20) => PageClass::File,
        (_, 20) => PageClass::FreePcp,
        _ => PageClass::Free,
    })
}

fn replay(lines: &[String]) -> KernelReplay {
    let text: String = lines
        .iter()
        .enumerate()
        .map(|(index, line)| format!(" t-1 [000] ..... 1.{index:06}: mm_page_{line}\n"))
        .collect();
    let options = ReplayOptions {
        samples: 3,
        ..ReplayOptions::default()
    };
    KernelReplay::from_bytes(text.into_bytes(), "trace.txt", options).expect("a readable trace")
}

fn free(pfn: u64, order: u32) -> String {
    format!("free: pfn={pfn:#x} order={order}")
}

fn alloc(pfn: u64, order: u32, migratetype: u32) -> String {
    format!("alloc: pfn={pfn:#x} order={order} migratetype={migratetype} gfp_flags=GFP_KERNEL")
}

fn used_pages(result: &ReplayResult, at: usize) -> u64 {
    let policy = &result.policies[at];
    let classes = policy.metrics.total.class_pages.iter();
    let placed = classes
        .filter(|(name, _)| !["hole", "reserved", "free", "free-pcp"].contains(&name.as_str()));
    placed.map(|(_, pages)| pages).sum()
}

#[test]
fn frees_match_the_pages_of_the_snapshot() {
    let start = machine();
    // The huge page in one piece, then one network page, and something new.
    let lines = [
        free(20 * 512, 9),
        free(30 * 512 + 7, 0),
        alloc(40 * 512 + 32, 2, 0),
    ];
    let result = replay(&lines)
        .run_from(&start, &configs(), &|_| {})
        .expect("a replay");
    assert_eq!(result.repairs.total(), 0, "{:?}", result.repairs);
    let snapshot = result.snapshot.as_ref().expect("a snapshot");
    assert_eq!(snapshot.freed_pages, 513);
    assert_eq!(result.live_blocks, 1);
    let left = snapshot.pages - 513 + 4;
    let (first, last) = (&result.kernel[0], result.kernel.last().expect("a sample"));
    assert_eq!((first.live_pages, last.live_pages), (snapshot.pages, left));
    for (at, policy) in result.policies.iter().enumerate() {
        let name = policy.policy.name();
        assert_eq!(
            (policy.unplaced_blocks, policy.unplaced_snapshot_pages),
            (0, 0),
            "{name}"
        );
        assert_eq!(used_pages(&result, at), left, "{name}");
    }
}

/// Under `linux` all pages lie where the traced kernel has them, so both begin alike.
#[test]
fn linux_begins_as_the_traced_kernel() {
    let result = replay(&[free(30 * 512 + 7, 0)])
        .run_from(&machine(), &configs(), &|_| {})
        .expect("a replay");
    let (kernel, linux) = (&result.kernel[0], &result.policies[0].samples[0]);
    assert_eq!(kernel.unmovable_2m_ratio, linux.unmovable_2m_ratio);
    assert_eq!(kernel.unmovable_page_ratio, linux.unmovable_page_ratio);
    assert_eq!(kernel.potential_32m_ratio, linux.potential_32m_ratio);
    // One network page in each block but those of the hole, the firmware and the huge page.
    assert!(kernel.unmovable_2m_ratio > 0.9, "{kernel:?}");
    let contiguitas = &result.policies[3].samples[0];
    assert!(contiguitas.unmovable_2m_ratio < 0.2, "{contiguitas:?}");
}

#[test]
fn what_does_not_fit_the_snapshot_is_counted() {
    let lines = [
        alloc(30 * 512 + 7, 0, 0),
        alloc(20 * 512, 3, 1),
        free(50 * 512 + 100, 0),
    ];
    let result = replay(&lines).run_from(&machine(), &configs(), &|_| {});
    let result = result.expect("a replay");
    assert_eq!(result.repairs.stale_snapshot_pages, 1 + 8);
    assert_eq!(result.repairs.frees_of_earlier_pages, 1);
    assert_eq!(result.repairs.missing_frees, 0);
    assert_eq!(result.repairs.total(), 10);
}

#[test]
fn snapshots_of_other_machines_are_refused() {
    let classes = vec![PageClass::Free; 5];
    let wrong = Start::new(Layout::single(Pfn(1), PAGES), classes).map(|_| ());
    let expected = ServerError::WrongLength {
        given: 5,
        expected: PAGES,
    };
    assert!(matches!(wrong, Err(ReplayError::Server(error)) if error == expected));
    let error = replay(&[alloc(PAGES + 1, 0, 1)])
        .run_from(&machine(), &configs(), &|_| {})
        .expect_err("a frame too far");
    let said = error.to_string();
    assert!(
        said.starts_with("trace.txt names frame 0x8000, but"),
        "{said}"
    );
    let tiny = Start::new(Layout::single(Pfn(0), 512), vec![PageClass::Free; 512]);
    let error = replay(&[alloc(8, 0, 1)])
        .run_from(&tiny.expect("a start"), &configs(), &|_| {})
        .expect_err("too small for a server");
    assert!(error.to_string().contains("64M"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever happens to the pages, every server and the traced kernel hold as many.
    #[test]
    fn every_server_holds_what_the_traced_kernel_holds(
        kinds in proptest::collection::vec(0u8..40, 64),
        steps in proptest::collection::vec((0u64..64, 0u64..512, 0u32..10, 0u32..3), 1..400),
    ) {
        let start = start(|pfn| match kinds[(pfn % 64) as usize] {
            0..2 => PageClass::Slab,
            2..8 => PageClass::Anon,
            8..10 => PageClass::File,
            10 => PageClass::Reserved,
            _ => PageClass::Free,
        });
        let lines: Vec<String> = steps
            .iter()
            .map(|&(block, page, kind, migratetype)| {
                let order = if kind < 8 { 0 } else { kind % 4 };
                let pfn = ((block * 512 + page) >> order << order).max(1 << order);
                match kind % 2 {
                    0 => alloc(pfn, order, migratetype),
                    _ => free(pfn, order),
                }
            })
            .collect();
        let result = replay(&lines).run_from(&start, &configs(), &|_| {}).expect("a replay");
        let live = result.kernel.last().expect("a sample").live_pages;
        let mut shown = String::new();
        for (at, policy) in result.policies.iter().enumerate() {
            let _ = write!(shown, "{} {} ", policy.policy.name(), used_pages(&result, at));
            if policy.unplaced_blocks + policy.unplaced_snapshot_pages == 0 {
                prop_assert_eq!(used_pages(&result, at), live, "{}", shown);
            }
        }
    }
}

#[test]
fn a_recording_shows_the_traffic_and_lifetimes_of_pages() {
    let at =
        |seconds: f64, event: String| format!(" t-1 [000] ..... {seconds:.6}: mm_page_{event}\n");
    let text = [
        at(1.0, alloc(3000, 0, 0)),
        at(1.0, alloc(4096, 3, 0)),
        // One page of the block of eight, after two seconds.
        at(3.0, free(4096, 0)),
        // A page of the snapshot, and one that lived for three seconds.
        at(4.0, free(7, 0)),
        at(4.0, free(3000, 0)),
        at(5.0, alloc(5000, 0, 0)),
        at(6.0, alloc(6000, 0, 1)),
    ]
    .concat();
    let replay =
        KernelReplay::from_bytes(text.into_bytes(), "trace.txt", ReplayOptions::default()).unwrap();
    let start = start(|pfn| match pfn {
        7 => PageClass::Network,
        _ => PageClass::Free,
    });
    let observed = replay.observed(&start).unwrap();
    assert_eq!(observed.seconds, 5.0);
    assert_eq!(observed.before_pages[PageClass::Network as usize], 1);
    let sum = |value: fn(&PageStream) -> u64| observed.streams.iter().map(value).sum::<u64>();
    assert_eq!(sum(|stream| stream.allocated_pages), 11);
    assert_eq!(sum(|stream| stream.freed_pages), 3);
    // Two seconds are in bucket 11; three seconds in bucket 12, twice.
    assert_eq!(sum(|stream| stream.lifetimes_pages[11]), 1);
    assert_eq!(sum(|stream| stream.lifetimes_pages[12]), 2);
    // 128 steps of 39 ms, each without what happens at that very moment.
    let course = &observed.kernel_change_pages;
    let at_second = |second: usize| course[second * 1000 / 39];
    assert_eq!([1, 2, 3].map(at_second), [9.0, 8.0, 6.0]);
    assert_eq!(course.last(), Some(&7.0));
}
