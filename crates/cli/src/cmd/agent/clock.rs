// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting for a moment of the day by a clock that somebody may set.

use super::round::Agent;
use super::warn;
use anyhow::{Context, Result};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Longest sleep: a clock that is set is noticed within it, and pressure at the border, a mean of
/// ten seconds, is read so often that an alert over a quarter of an hour sees its course.
const TICK: Duration = Duration::from_secs(60);

/// Time since 1970.
pub(super) fn now() -> Result<Duration> {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .context("the clock of this host stands before 1970")
}

/// Sleeps until the next scan is due by the clock `now`; looks at the clock and at the border each
/// minute.
///
/// # Errors
/// When the clock stands before 1970.
pub(super) fn wait(
    agent: &mut Agent,
    now: &dyn Fn() -> Result<Duration>,
    sleep: &dyn Fn(Duration),
) -> Result<()> {
    while let Some(left) = agent.left(now()?) {
        sleep(left.min(TICK));
        if left > TICK {
            warn(&agent.look(now()?).err());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::round::tests::agent;
    use super::*;
    use ample_fleet::agent::{LastScan, Schedule};
    use std::cell::Cell;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_clock_that_is_set_back_while_the_agent_waits_costs_one_period_at_most() {
        let host = tempfile::tempdir().unwrap();
        let mut agent = agent(host.path());
        let start = Duration::from_secs(1_793_491_200);
        let (clock, slept) = (Cell::new(start), Cell::new(Duration::ZERO));
        let schedule = Schedule::new(HOUR, "web1");
        let last = LastScan {
            began: start,
            cpu: Duration::from_secs(1),
        };
        agent.schedule = Some(schedule);
        agent.last = Some(last);
        agent.counts.next_scan = Some(schedule.next(start, Some(last)));
        let sleep = |time: Duration| {
            // In the first minute somebody sets the clock back by a year.
            if slept.replace(slept.get() + time).is_zero() {
                clock.set(clock.get() - 365 * 24 * HOUR);
            }
            clock.set(clock.get() + time);
        };
        wait(&mut agent, &|| Ok(clock.get()), &sleep).unwrap();
        assert!(slept.get() <= 2 * HOUR, "{:?}", slept.get());
        // What a collector is told is when the scan begins.
        let said = agent.counts.next_scan.unwrap();
        assert!(clock.get() >= said && clock.get() - said < TICK);
        assert!(said < start - 300 * 24 * HOUR, "{said:?}");
    }
}
