// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processor time of this thread, and the clock of the core it runs on.

use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;

/// Clock of this core while it is busy, GHz: a chain of multiplications and exclusive ors takes
/// four cycles a link on every x86-64 of the last fifteen years. Median of nine.
pub fn clock_ghz() -> f64 {
    const LINKS: u64 = 2_000_000;
    let mut rounds: Vec<f64> = (0..9u64)
        .map(|round| {
            let started = thread_ns();
            let (mut x, factor) = (black_box(round | 1u64), black_box(0x9e37_79b9_7f4a_7c15u64));
            for link in 0..LINKS {
                x = x.wrapping_mul(factor) ^ link;
            }
            black_box(x);
            (4 * LINKS) as f64 / (thread_ns() - started).max(1) as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

/// Processor time of this thread, ns.
pub(crate) fn thread_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
