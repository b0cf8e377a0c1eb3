// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whatever the bytes, a replay ends with counts that add up.

use ample_mm::replay::{KernelReplay, ReplayError, ReplayOptions};
use ample_mm::{Config, PolicyKind};
use ample_trace::pages::{PageTraceError, ReadCounts};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write;

fn lenient() -> ReplayOptions {
    ReplayOptions {
        max_unreadable_ratio: 1.0,
        samples: 3,
        ..ReplayOptions::default()
    }
}

/// Every line is in exactly one count.
fn adds_up(counts: &ReadCounts) -> bool {
    let sorted = counts.page_events()
        + counts.other_events
        + counts.quiet_lines
        + counts.lost_notes
        + counts.unreadable_lines
        + u64::from(counts.truncated_last_line);
    sorted == counts.lines
}

fn configs(kinds: &[PolicyKind]) -> Vec<Config> {
    let config = |&kind| {
        let mut config = Config::new(kind);
        config.memory_bytes = 128 << 20;
        config.cpus = 2;
        config
    };
    kinds.iter().map(config).collect()
}

/// Replays bytes under two policies; the server checks its own invariants at the end.
fn survives(bytes: Vec<u8>) {
    match KernelReplay::from_bytes(bytes, "random", lenient()) {
        Ok(replay) => {
            assert!(adds_up(&replay.survey().counts));
            let kinds = [PolicyKind::Linux, PolicyKind::Contiguitas];
            let result = replay.run(&configs(&kinds), &|_| {}).expect("a replay");
            let live = result.kernel.last().expect("a sample").live_pages;
            assert!(result.live_blocks <= live);
        }
        Err(ReplayError::NoEvents { .. } | ReplayError::Trace(PageTraceError::Read { .. })) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Lines of all kinds, among few frames so that they collide.
fn line() -> impl Strategy<Value = String> {
    let fields = (0u64..64, 0u32..11, 0u32..4, 0u32..3, 0u64..4000);
    (0usize..10, fields).prop_map(|(kind, (frame, order, mt, cpu, time))| {
        let pfn = (frame << 6) >> order << order;
        let at = format!("  t-1 [00{cpu}] ..... 1.{time:04}: ");
        let alloc = format!("migratetype={mt} gfp_flags=GFP_HIGHUSER_MOVABLE");
        match kind {
            0..4 => format!("{at}mm_page_alloc: pfn={pfn:#x} order={order} {alloc}"),
            4..6 => format!("{at}mm_page_free: pfn={pfn:#x} order={order}"),
            6 => format!("{at}mm_page_free: pfn={:#x} order=0", pfn + time % 64),
            7 => format!("{at}mm_page_free_batched: pfn={pfn:#x} order=0"),
            8 => format!("{at}mm_page_alloc: pfn={frame:#x} order=0 {alloc}"),
            _ => format!("CPU:{cpu} [LOST {time} EVENTS]"),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..4000)) {
        survives(bytes);
    }

    #[test]
    fn any_order_of_events_is_survived(lines in proptest::collection::vec(line(), 1..300)) {
        survives((lines.join("\n") + "\n").into_bytes());
    }

    #[test]
    fn mutated_lines_are_survived(
        lines in proptest::collection::vec(line(), 1..60),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
    ) {
        let mut bytes = (lines.join("\n") + "\n").into_bytes();
        for (index, byte) in damage {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        survives(bytes);
    }

    /// What is allocated and freed leaves nothing behind, under every policy.
    #[test]
    fn balanced_recordings_leave_all_pages_free(
        steps in proptest::collection::vec((0u64..400, 0u32..4, 0u32..3), 1..600),
        batched in any::<bool>(),
    ) {
        let mut trace = String::new();
        let mut live = BTreeMap::new();
        let mut time = 0;
        let free = |trace: &mut String, pfn: u64, order: u32, time: u64| {
            let at = format!(" t-1 [000] 7.{time:06}:");
            let _ = writeln!(trace, "{at} kmem:mm_page_free: pfn={pfn} order={order}");
            if batched && order == 0 {
                let _ = writeln!(trace, "{at} kmem:mm_page_free_batched: pfn={pfn} order=0");
            }
        };
        for (slot, order, mt) in steps {
            time += 1;
            let pfn = 512 + slot * 8;
            match live.remove(&pfn) {
                Some(order) => free(&mut trace, pfn, order, time),
                None => {
                    let flags = format!("migratetype={mt} gfp_flags=GFP_KERNEL");
                    let _ = writeln!(
                        trace,
                        " t-1 [001] 7.{time:06}: mm_page_alloc: pfn={pfn} order={order} {flags}"
                    );
                    live.insert(pfn, order);
                }
            }
        }
        for (pfn, order) in live {
            free(&mut trace, pfn, order, time);
        }
        let replay = KernelReplay::from_bytes(trace.into_bytes(), "balanced", lenient())
            .expect("a readable trace");
        let result = replay.run(&configs(&PolicyKind::ALL), &|_| {}).expect("a replay");
        prop_assert_eq!(result.repairs.total(), 0);
        prop_assert_eq!(result.live_blocks, 0);
        for policy in result.policies {
            prop_assert_eq!(policy.metrics.total.free_bytes, policy.memory_bytes);
        }
    }
}
