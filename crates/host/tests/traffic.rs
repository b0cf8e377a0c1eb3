// SPDX-License-Identifier: MIT OR Apache-2.0
//! The traffic of the machine that runs the tests. Skips, with the reason, where it cannot run.
#![cfg(feature = "bpf")]

use ample_host::{TrafficCounts, TrafficOrigin, TrafficRecorder};
use std::time::Duration;

const BYTES: usize = 512 << 20;
const PAGES: u64 = BYTES as u64 >> 12;

/// Pages that user memory asked for (movable and zeroed), and of these the pages freed.
fn user(counts: &[TrafficCounts]) -> (u64, u64) {
    let zeroed = |counts: &&TrafficCounts| {
        matches!(&counts.origin, TrafficOrigin::Request { gfp, migratetype: 1, .. }
            if gfp.contains("__GFP_ZERO"))
    };
    counts.iter().filter(zeroed).fold((0, 0), |sum, counts| {
        (sum.0 + counts.allocated_pages, sum.1 + counts.freed_pages)
    })
}

#[test]
fn memory_that_lives_for_half_a_second_is_counted_with_its_life() {
    let mut recorder = match TrafficRecorder::start() {
        Ok(recorder) => recorder,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let before = user(&recorder.counts().unwrap());
    let mut memory = vec![0u8; BYTES];
    for byte in memory.iter_mut().step_by(4096) {
        *byte = 1;
    }
    std::hint::black_box(&memory);
    std::thread::sleep(Duration::from_millis(600));
    drop(memory);
    let counts = recorder.counts().unwrap();
    let after = user(&counts);
    // The machine runs other programs; what it counts beside is no more than they allocate.
    assert!(after.0 - before.0 > PAGES * 9 / 10, "{before:?} {after:?}");
    assert!(after.1 - before.1 > PAGES * 9 / 10, "{before:?} {after:?}");
    // 512 ms and more: a busy machine takes its time to fill the memory.
    let lived = |counts: &TrafficCounts| counts.lifetimes_pages[10..16].iter().sum::<u64>();
    let old: u64 = counts.iter().map(lived).sum();
    assert!(old > PAGES * 9 / 10, "{old} of {PAGES} pages");
    assert_eq!(recorder.lost(), 0);
}
