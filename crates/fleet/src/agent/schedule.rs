// SPDX-License-Identifier: MIT OR Apache-2.0
//! When the next scan begins.

use super::LastScan;
use ample_kit::random::mix64;
use std::time::Duration;

/// A scan may use this share of one processor at most: one part in so many.
const CPU_PARTS: u32 = 100;

/// Nobody waits longer than that for a scan that was expensive, or for a clock that was wrong.
const LONGEST_REST: Duration = Duration::from_secs(24 * 3600);

/// The moment at which a scan has used no more than its share of a processor.
pub fn rested(last: LastScan) -> Duration {
    let rest = last.cpu.saturating_mul(CPU_PARTS).min(LONGEST_REST);
    last.began.saturating_add(rest)
}

/// How long an agent that starts now rests first: its last scan, perhaps one that a crash ended,
/// has used a share of a processor too. A scan of the future was none.
pub fn rest(now: Duration, last: Option<LastScan>) -> Duration {
    let last = last.filter(|last| last.began <= now);
    last.map_or(Duration::ZERO, |last| rested(last).saturating_sub(now))
}

/// Scans at a fixed period, each host at a moment of its own within it, so that a fleet does not
/// scan, deliver and load its network at once. The moment is a hash of the host's name: it is the
/// same after a restart, and spread evenly over the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    every: Duration,
    offset: Duration,
}

impl Schedule {
    /// A period for the host of this name.
    ///
    /// # Panics
    /// When the period is zero.
    pub fn new(every: Duration, host: &str) -> Schedule {
        assert!(!every.is_zero(), "a period of no length");
        let hash = host
            .bytes()
            .fold(0, |hash: u64, byte| mix64(hash ^ u64::from(byte)));
        let offset = every.mul_f64((hash >> 11) as f64 / (1u64 << 53) as f64);
        Schedule { every, offset }
    }

    /// The start of the first scan after `now`, both since 1970, never before the last one's share
    /// of a processor is used up. Where the clock was set back since, the last one began now.
    pub fn next(&self, now: Duration, last: Option<LastScan>) -> Duration {
        let earliest = last.map_or(now, |last| {
            let began = last.began.min(now);
            now.max(rested(LastScan { began, ..last }))
        });
        let every = self.every.as_nanos();
        let rounds = match earliest.checked_sub(self.offset) {
            Some(past) => past.as_nanos() / every + 1,
            None => 0,
        };
        let next = self.offset.as_nanos() + rounds * every;
        let next = Duration::from_nanos(u64::try_from(next).unwrap_or(u64::MAX));
        debug_assert!(next > now);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn hosts_are_spread_over_the_period() {
        let mut quarters = [0; 4];
        for host in 0..1000 {
            let schedule = Schedule::new(HOUR, &format!("host{host:04}.example"));
            quarters[(schedule.offset.as_secs() / 900) as usize] += 1;
        }
        assert!(
            quarters.iter().all(|hosts| (200..=300).contains(hosts)),
            "{quarters:?}"
        );
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_put_the_next_scan_off() {
        let schedule = Schedule::new(HOUR, "web1");
        let now = Duration::from_secs(1_793_491_200);
        let cpu = Duration::from_secs(30);
        let began = now + 365 * 24 * HOUR;
        let next = schedule.next(now, Some(LastScan { began, cpu }));
        assert!(next >= now + cpu * CPU_PARTS, "it rests, whenever it began");
        assert!(next <= now + cpu * CPU_PARTS + HOUR, "{:?}", next - now);
    }

    proptest! {
        #[test]
        fn scans_come_once_a_period_and_use_a_hundredth_of_a_processor(
            host in "[a-z]{1,8}",
            every in 1u64..100_000,
            now in 1_700_000_000u64..1_900_000_000,
            cpu_ms in 0u64..800_000,
        ) {
            let every = Duration::from_secs(every);
            let schedule = Schedule::new(every, &host);
            let first = schedule.next(Duration::from_secs(now), None);
            prop_assert!(first > Duration::from_secs(now));
            prop_assert!(first <= Duration::from_secs(now) + every);
            let cpu = Duration::from_millis(cpu_ms);
            let last = LastScan { began: first, cpu };
            let second = schedule.next(first, Some(last));
            // The same holds where the agent is started again and again.
            prop_assert_eq!(rest(first + cpu, Some(last)), cpu * 99);
            prop_assert_eq!(rest(first - every, Some(last)), Duration::ZERO);
            prop_assert!(second - first >= every && second - first >= cpu * 100);
            prop_assert!(second - first <= every + cpu * 100);
            prop_assert_eq!((second - first).as_nanos() % every.as_nanos(), 0);
        }
    }
}
