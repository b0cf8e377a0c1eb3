// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which job may start next.

use crate::experiment::Cost;
use crate::needs::meminfo_bytes;

/// What all jobs together may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Threads that may be busy.
    pub threads: usize,
    /// Memory that may be resident.
    pub memory_bytes: u64,
}

impl Budget {
    /// All processors of this machine, or `RAYON_NUM_THREADS` of them, and four fifths of the
    /// memory that is available now.
    pub fn of_this_machine() -> Budget {
        let available = meminfo_bytes("MemAvailable");
        Budget {
            threads: rayon::current_num_threads(),
            memory_bytes: available.map_or(u64::MAX, |bytes| bytes / 5 * 4),
        }
    }

    /// Threads that a job gets: what it asks for, no more than there are.
    pub fn threads_of(&self, cost: Cost) -> usize {
        match cost.threads {
            0 => self.threads,
            wanted => wanted.min(self.threads),
        }
    }
}

/// A job that waits or runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) index: usize,
    pub(super) cost: Cost,
    pub(super) measures: bool,
}

/// The job to start next, if one can: the longest that fits beside those that run. Jobs that
/// measure this machine wait until nothing else can run.
pub(super) fn next(budget: &Budget, running: &[Item], ready: &[Item]) -> Option<usize> {
    if running.iter().any(|item| item.measures) {
        return None;
    }
    let used_threads: usize = running.iter().map(|i| budget.threads_of(i.cost)).sum();
    let used_memory: u64 = running.iter().map(|i| i.cost.memory_bytes).sum();
    let fits = |item: &&Item| {
        let threads = used_threads + budget.threads_of(item.cost);
        let memory = used_memory.saturating_add(item.cost.memory_bytes);
        !item.measures && threads <= budget.threads && memory <= budget.memory_bytes
    };
    let longest = |items: &mut dyn Iterator<Item = &Item>| {
        items
            .max_by(|a, b| {
                let seconds = a.cost.seconds.total_cmp(&b.cost.seconds);
                seconds.then(b.index.cmp(&a.index))
            })
            .map(|item| item.index)
    };
    let simulated = longest(&mut ready.iter().filter(fits));
    let others_wait = ready.iter().any(|item| !item.measures);
    if simulated.is_some() || !running.is_empty() || others_wait {
        return simulated;
    }
    longest(&mut ready.iter().filter(|item| item.measures))
}

/// Whether a job can never start within the budget.
pub(super) fn too_large(budget: &Budget, cost: Cost) -> bool {
    cost.memory_bytes > budget.memory_bytes
}
