// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters that every slow call writes: one for each CPU, on a line of its own. A single one takes
//! its line from CPU to CPU at every call, and without restartable sequences every call is slow.

use super::numa;
use core::sync::atomic::{AtomicU32, Ordering};

/// CPUs beyond this many share counters.
const COUNTERS: usize = 64;

#[repr(align(128))]
struct Line(AtomicU32);

/// A counter a CPU. Threads that change CPUs in between lose a count now and then.
pub struct PerCpu([Line; COUNTERS]);

impl PerCpu {
    /// All at 0.
    pub const fn zeroed() -> Self {
        PerCpu([const { Line(AtomicU32::new(0)) }; COUNTERS])
    }

    /// The counter of this CPU.
    #[inline]
    pub fn here(&self) -> &AtomicU32 {
        &self.0[numa::cpu() % COUNTERS].0
    }

    /// Gives the counters of all CPUs the same value.
    pub fn set(&self, value: u32) {
        for line in &self.0 {
            line.0.store(value, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(any(miri, feature = "models"))))]
mod tests {
    use super::*;

    #[test]
    fn counters_lie_on_lines_of_their_own() {
        static COUNTS: PerCpu = PerCpu::zeroed();
        assert_eq!(size_of::<Line>(), 128);
        COUNTS.set(7);
        assert!(
            COUNTS
                .0
                .iter()
                .all(|line| line.0.load(Ordering::Relaxed) == 7)
        );
        COUNTS.here().store(8, Ordering::Relaxed);
        let changed = |line: &&Line| line.0.load(Ordering::Relaxed) == 8;
        assert_eq!(COUNTS.0.iter().filter(changed).count(), 1);
    }
}
