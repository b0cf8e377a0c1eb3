// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run of one core comes to.

use serde::Serialize;

/// Counters at the start of the measured part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    pub(super) instructions: u64,
    pub(super) units: u64,
    pub(super) active: u64,
    pub(super) stall: u64,
    pub(super) fetch_stall: u64,
    pub(super) fault_stall: u64,
}

/// What a timed run reports; cycles are of the core.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimedReport {
    /// Instructions committed.
    pub instructions: u64,
    /// Cycles taken.
    pub cycles: f64,
    /// Instructions a cycle.
    pub ipc: f64,
    /// Cycles with a page walk under way, as hardware counters count.
    pub walk_active_cycles: f64,
    /// Sum of all walks' durations, cycles.
    pub walk_duration_cycles: f64,
    /// Commit cycles lost to translation: an estimate, at most the walk latency of each access.
    pub translation_stall_cycles: f64,
    /// Front-end cycles lost to instruction translation.
    pub fetch_translation_stall_cycles: f64,
    /// Commit and front-end cycles lost to the operating system's work in page faults.
    pub fault_stall_cycles: f64,
}

impl TimedReport {
    /// Walk-active cycles in percent of all.
    pub fn walk_percent(&self) -> f64 {
        100.0 * self.walk_active_cycles / self.cycles
    }
}
