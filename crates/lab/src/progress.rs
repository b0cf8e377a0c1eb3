// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shares done of work in many parts.

use crate::experiment::Progress;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Work in equal parts that end in any order.
pub struct Steps<'a> {
    progress: Progress<'a>,
    done: AtomicUsize,
    total: usize,
}

impl<'a> Steps<'a> {
    /// Work of so many parts, none of them done.
    pub fn new(progress: Progress<'a>, total: usize) -> Steps<'a> {
        Steps {
            progress,
            done: AtomicUsize::new(0),
            total: total.max(1),
        }
    }

    /// One part is done.
    pub fn step(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        (self.progress)(done.min(self.total) as f64 / self.total as f64);
    }
}

/// Shares done of many runs, kept without locks.
pub struct Shares(Vec<AtomicU64>);

impl Shares {
    /// Of so many runs, none begun.
    pub fn new(count: usize) -> Shares {
        Shares((0..count).map(|_| AtomicU64::new(0)).collect())
    }

    /// Sets one run's share; the share of all of them.
    pub fn set(&self, index: usize, share: f64) -> f64 {
        self.0[index].store((share * 1e6) as u64, Ordering::Relaxed);
        let sum: u64 = self.0.iter().map(|s| s.load(Ordering::Relaxed)).sum();
        sum as f64 / 1e6 / self.0.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn shares_rise_to_one() {
        let seen = Mutex::new(Vec::new());
        let told = |share: f64| seen.lock().expect("no panic").push(share);
        let steps = Steps::new(&told, 4);
        (0..4).for_each(|_| steps.step());
        assert_eq!(*seen.lock().expect("no panic"), [0.25, 0.5, 0.75, 1.0]);
        let shares = Shares::new(2);
        assert_eq!((shares.set(0, 1.0), shares.set(1, 0.5)), (0.5, 0.75));
    }
}
