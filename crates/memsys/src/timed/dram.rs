// SPDX-License-Identifier: MIT OR Apache-2.0
//! One DRAM channel: open rows, busy banks, a shared data bus, first come first served.
//!
//! Unloaded latencies are closed forms of the DDR4 timings (CL 22, RCD 22, RP 22, burst of 8):
//! row hit CL + 4 = 26, closed RCD + CL + 4 = 48, conflict RP + RCD + CL + 4 = 70 memory cycles.

use super::params::{DramParams, LINE_BYTES};
use crate::protocol::LineAddr;

#[derive(Clone, Copy, Debug, Default)]
struct Bank {
    row: Option<u64>,
    free_at: u64,
}

/// The channel.
#[derive(Clone, Debug)]
pub struct Dram {
    banks: Vec<Bank>,
    bus_free_at: u64,
    lines_per_row: u64,
    hit: u64,
    closed: u64,
    conflict: u64,
    burst: u64,
    overhead: u64,
    /// Accesses so far.
    pub accesses: u64,
    /// Those that found their row open.
    pub row_hits: u64,
}

impl Dram {
    /// An idle channel; latencies are turned into core cycles once, rounded.
    pub fn new(params: &DramParams, clock_ghz: f64) -> Self {
        let core = |cycles: u32| {
            (f64::from(cycles) * clock_ghz * 1000.0 / params.clock_mhz).round() as u64
        };
        Self {
            banks: vec![Bank::default(); params.banks as usize],
            bus_free_at: 0,
            lines_per_row: u64::from(params.row_bytes / LINE_BYTES),
            hit: core(params.row_hit_cycles),
            closed: core(params.row_closed_cycles),
            conflict: core(params.row_conflict_cycles),
            burst: core(params.burst_cycles).max(1),
            overhead: params.overhead_cycles,
            accesses: 0,
            row_hits: 0,
        }
    }

    /// Starts an access at `now`; returns when its data are at the slice.
    pub fn access(&mut self, now: u64, line: LineAddr) -> u64 {
        let row = line.0 / self.lines_per_row;
        let banks = self.banks.len() as u64;
        // Upper bits are mixed in so that equal strides do not meet in one bank.
        let bank = &mut self.banks[((row ^ (row / banks)) % banks) as usize];
        let start = now.max(bank.free_at);
        let latency = match bank.row {
            Some(open) if open == row => self.hit,
            None => self.closed,
            Some(_) => self.conflict,
        };
        self.accesses += 1;
        self.row_hits += u64::from(bank.row == Some(row));
        bank.row = Some(row);
        let transfer = (start + latency - self.burst).max(self.bus_free_at);
        self.bus_free_at = transfer + self.burst;
        // Bursts to an open row follow one another; only opening a row keeps the bank.
        bank.free_at = transfer + self.burst - self.hit.min(latency) + self.burst;
        transfer + self.burst + self.overhead
    }
}
