// SPDX-License-Identifier: MIT OR Apache-2.0
//! Next-line prefetching against what strided loads must give.

use crate::hierarchy::tests::tiny_config;
use crate::{CacheConfig, Level, MemoryConfig, MemorySystem, PrivateMemory};

/// Lines of 4 KB.
const PAGE_LINES: u64 = 64;

/// Caches that hold some pages whole.
fn memory(next_lines: u32, prefetch_lines: u32) -> PrivateMemory {
    let config = MemoryConfig {
        l1d: CacheConfig::new(64, 16, 2),
        l2: CacheConfig::new(128, 16, 4),
        llc: CacheConfig::new(256, 16, 8),
        next_lines,
        ..tiny_config(true, prefetch_lines)
    };
    PrivateMemory::new(&config, 4, 0.5).unwrap()
}

/// A miss brings its line and `n` more. Of loads `stride` lines apart the next to miss is the first
/// that lies behind these, or the first of the next 4 KB.
#[test]
fn strided_loads_miss_where_nothing_was_read_before() {
    const PAGES: u64 = 8;
    for n in [0u32, 1, 2, 3, 7, 8, 62, 63, 64] {
        for stride in [1u64, 2, 4, 8, 32] {
            let mut memory = memory(n, 0);
            let lines = (0..PAGES * PAGE_LINES).step_by(stride as usize);
            for (number, line) in (0..).zip(lines) {
                memory.data(line << 6, false, 10_000 * number);
            }
            let covered = u64::from(n) / stride + 1;
            let loads = PAGE_LINES / stride;
            let misses = loads.div_ceil(covered);
            let read = |at: u64| (u64::from(n) + 1).min(PAGE_LINES - at * covered * stride);
            let reads: u64 = (0..misses).map(read).sum();
            let hits = &memory.data_hits;
            let counted = [hits.l1, hits.dram, memory.dram.reads];
            let expected = [loads - misses, misses, reads].map(|count| PAGES * count);
            assert_eq!(counted, expected, "{n} lines, stride {stride}");
        }
    }
}

/// The next line is asked for with the one that missed: a load of it that comes at once waits for
/// the same data as one that was asked at the same time without prefetching, a late one does not.
#[test]
fn what_was_read_before_arrives_as_if_loaded_at_the_time_of_the_miss() {
    let (mut plain, mut ahead) = (memory(0, 0), memory(1, 0));
    let (first, _) = plain.data(0, false, 500);
    let (second, _) = plain.data(64, false, 500);
    assert!(second > first, "one bus");
    assert_eq!(ahead.data(0, false, 500), (first, Level::Dram));
    assert_eq!(ahead.data(64, false, 501), (second, Level::L1));
    let late = second + 1000;
    assert_eq!(ahead.data(64, false, late), (late + 2 * 4, Level::L1));
}

/// Lines that are read before train the stream prefetcher of the second level as misses do.
#[test]
fn a_stream_is_seen_through_the_lines_read_before() {
    let mut memory = memory(1, 4);
    for line in 0..8 {
        memory.data(line << 6, false, 10_000 * line);
    }
    let hits = &memory.data_hits;
    // Line 0 misses all; 1 comes with it, and makes a stream of it that runs 4 lines ahead.
    assert_eq!([hits.l1, hits.l2, hits.dram], [4, 3, 1]);
}
