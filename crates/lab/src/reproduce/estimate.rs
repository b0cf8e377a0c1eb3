// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long the rest takes.
//!
//! Each experiment declares its time. What finished ones really took, and how far those that run
//! have come, correct the declarations of the rest.

use std::time::Duration;

/// One job that is not finished.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    /// Declared seconds.
    pub(super) declared_s: f64,
    /// Threads that it gets.
    pub(super) threads: usize,
    /// For one that runs: seconds since it started, and the share done.
    pub(super) running: Option<(f64, f64)>,
}

/// Below this share done a run's own pace says little.
const TELLING_SHARE: f64 = 0.05;

/// Times of finished jobs.
#[derive(Clone, Debug, Default)]
pub struct Estimate {
    declared_s: f64,
    taken_s: f64,
}

impl Estimate {
    /// Takes note of a job that ran to its end.
    pub(super) fn finished(&mut self, declared_s: f64, taken_s: f64) {
        self.declared_s += declared_s;
        self.taken_s += taken_s;
    }

    /// Taken over declared time; 1 while nothing is known.
    fn pace(&self, rest: &[Rest]) -> f64 {
        let telling = rest.iter().filter_map(|job| {
            let (elapsed_s, share) = job.running?;
            (share >= TELLING_SHARE).then_some((job.declared_s * share, elapsed_s))
        });
        let (mut declared_s, mut taken_s) = (self.declared_s, self.taken_s);
        for (declared, taken) in telling {
            declared_s += declared;
            taken_s += taken;
        }
        if declared_s > 0.0 && taken_s > 0.0 {
            taken_s / declared_s
        } else {
            1.0
        }
    }

    /// How long the rest takes on so many threads: the longest job, or all work spread evenly,
    /// whichever is more.
    pub(super) fn left(&self, rest: &[Rest], threads: usize) -> Duration {
        let pace = self.pace(rest);
        let seconds = |job: &Rest| match job.running {
            Some((elapsed_s, share)) if share >= TELLING_SHARE => {
                elapsed_s * (1.0 - share).max(0.0) / share
            }
            // What is over its time takes longer still: nobody knows how much.
            Some((elapsed_s, _)) => (job.declared_s * pace - elapsed_s).max(elapsed_s / 4.0),
            None => job.declared_s * pace,
        };
        let longest = rest.iter().map(seconds).fold(0.0, f64::max);
        let work: f64 = rest.iter().map(|j| seconds(j) * j.threads as f64).sum();
        let left = longest.max(work / threads.max(1) as f64);
        Duration::try_from_secs_f64(left).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(declared_s: f64, threads: usize) -> Rest {
        Rest {
            declared_s,
            threads,
            running: None,
        }
    }

    #[test]
    fn what_was_slower_than_declared_makes_the_rest_longer() {
        let mut estimate = Estimate::default();
        let rest = [waiting(10.0, 1), waiting(10.0, 1)];
        assert_eq!(estimate.left(&rest, 2).as_secs(), 10);
        estimate.finished(10.0, 30.0);
        assert_eq!(estimate.left(&rest, 2).as_secs(), 30);
    }

    #[test]
    fn a_running_job_is_estimated_by_its_share() {
        let running = Rest {
            running: Some((10.0, 0.25)),
            ..waiting(1.0, 2)
        };
        assert_eq!(Estimate::default().left(&[running], 2).as_secs(), 30);
        let starting = Rest {
            running: Some((1.0, 0.0)),
            ..waiting(5.0, 1)
        };
        assert_eq!(Estimate::default().left(&[starting], 2).as_secs(), 4);
        let late = Rest {
            running: Some((40.0, 0.0)),
            ..waiting(5.0, 2)
        };
        assert_eq!(Estimate::default().left(&[late], 2).as_secs(), 10);
        assert!(Estimate::default().left(&[], 2).is_zero());
    }
}
