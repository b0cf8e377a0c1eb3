// SPDX-License-Identifier: MIT OR Apache-2.0
//! DRAM with open rows: bank state decides the latency, the data bus the bandwidth.
//!
//! Unloaded read latencies follow the timing parameters: a row hit CL + BL/2, a closed bank tRCD
//! more, a conflict tRP more again: 26, 48 and 70 cycles for DDR4-3200 22-22-22.

use ample_kit::divisor::Divisor;
use serde::{Deserialize, Serialize};

/// Timing and shape. Times are in memory clock cycles unless named otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DramConfig {
    /// Clock period, ns (0.625 for DDR4-3200).
    pub tck_ns: f64,
    /// Read latency.
    pub cl: u32,
    /// Activate to read.
    pub trcd: u32,
    /// Precharge to activate.
    pub trp: u32,
    /// Activate to precharge at least.
    pub tras: u32,
    /// Bursts of this many transfers, two a cycle.
    pub burst: u32,
    /// Channels.
    pub channels: u32,
    /// Banks of one channel (all ranks).
    pub banks: u32,
    /// Bytes of one row.
    pub row_bytes: u32,
    /// Controller and fabric, both ways, ns.
    pub controller_ns: f64,
}

impl DramConfig {
    /// DDR4-3200 22-22-22.
    pub const fn ddr4_3200(channels: u32, banks: u32, controller_ns: f64) -> Self {
        DramConfig {
            tck_ns: 0.625,
            cl: 22,
            trcd: 22,
            trp: 22,
            tras: 52,
            burst: 8,
            channels,
            banks,
            row_bytes: 8192,
            controller_ns,
        }
    }

    /// DDR3-1066 7-7-7.
    pub const fn ddr3_1066(channels: u32, banks: u32, controller_ns: f64) -> Self {
        DramConfig {
            tck_ns: 1.875,
            cl: 7,
            trcd: 7,
            trp: 7,
            tras: 20,
            burst: 8,
            channels,
            banks,
            row_bytes: 8192,
            controller_ns,
        }
    }

    /// Peak bandwidth of all channels, bytes a second.
    pub fn peak_bytes_per_s(&self) -> f64 {
        64.0 * f64::from(self.channels) / (f64::from(self.burst) / 2.0 * self.tck_ns * 1e-9)
    }
}

#[derive(Clone, Copy, Debug)]
struct Bank {
    /// Open row + 1; 0: closed.
    row: u64,
    activated: u64,
    /// Start of the last access and when the bank could take the next.
    last: u64,
    free: u64,
}

/// Slots of the bus calendar: enough for the reordering of one core's window.
const CALENDAR: u64 = 4096;

/// The banks and buses at work. Times are in the caller's units.
#[derive(Clone, Debug)]
pub struct Dram {
    banks: Vec<Bank>,
    calendar: Vec<u64>,
    channels: Divisor,
    banks_per_channel: Divisor,
    channel_banks: u64,
    lines_per_row: Divisor,
    cl: u64,
    trcd: u64,
    trp: u64,
    tras: u64,
    transfer: u64,
    controller: u64,
    /// Reads by row state: hit, closed, conflict.
    pub row_state: [u64; 3],
    /// Lines moved, reads and writes.
    pub transfers: u64,
}

impl Dram {
    /// DRAM whose times are given in units of `unit_ns` nanoseconds.
    pub fn new(config: &DramConfig, unit_ns: f64) -> Self {
        let units = |cycles: u32| (f64::from(cycles) * config.tck_ns / unit_ns).round() as u64;
        let banks = (config.channels * config.banks) as usize;
        Dram {
            banks: vec![
                Bank {
                    row: 0,
                    activated: 0,
                    last: 0,
                    free: 0
                };
                banks
            ],
            calendar: vec![0; (CALENDAR * u64::from(config.channels)) as usize],
            channels: Divisor::new(u64::from(config.channels)),
            banks_per_channel: Divisor::new(u64::from(config.banks)),
            channel_banks: u64::from(config.banks),
            lines_per_row: Divisor::new(u64::from(config.row_bytes / 64)),
            cl: units(config.cl),
            trcd: units(config.trcd),
            trp: units(config.trp),
            tras: units(config.tras),
            transfer: units(config.burst / 2).max(1),
            controller: (config.controller_ns / unit_ns).round() as u64,
            row_state: [0; 3],
            transfers: 0,
        }
    }

    /// Books the first free bus slot of a channel that starts at `at` or later; returns its end.
    #[inline]
    fn transfer_end(&mut self, channel: u64, at: u64) -> u64 {
        let mut slot = at.div_ceil(self.transfer);
        let first = (channel * CALENDAR) as usize;
        loop {
            let cell = &mut self.calendar[first + (slot % CALENDAR) as usize];
            if *cell != slot + 1 {
                *cell = slot + 1;
                // A slot is a unit of bookkeeping: the transfer starts when it is asked for.
                return at.max(slot.saturating_sub(1) * self.transfer) + self.transfer;
            }
            slot += 1;
        }
    }

    /// Reads (or writes) the line at line number `line` from `now` on; returns when the data are
    /// at the caller.
    #[inline]
    pub fn access(&mut self, line: u64, now: u64) -> u64 {
        self.transfers += 1;
        let (row_line, _) = self.channels.split(line);
        let (row_number, _) = self.lines_per_row.split(row_line);
        let (_, channel) = self.channels.split(line ^ row_number);
        let (row, _) = self.banks_per_channel.split(row_number);
        // Rows that differ only above the bank bits are spread over banks (permutation).
        let (_, bank) = self.banks_per_channel.split(row_number ^ row);
        let (cl, trcd, trp, tras) = (self.cl, self.trcd, self.trp, self.tras);
        let half = self.controller / 2;
        let arrive = now + half;
        let bank = &mut self.banks[(channel * self.channel_banks + bank) as usize];
        // A request earlier than the last one served comes from further back in the core's
        // window; it does not wait for what in truth came after it.
        let start = if arrive < bank.last {
            arrive
        } else {
            arrive.max(bank.free)
        };
        let data = if bank.row == row + 1 {
            self.row_state[0] += 1;
            start + cl
        } else if bank.row == 0 {
            self.row_state[1] += 1;
            bank.activated = start;
            start + trcd + cl
        } else {
            self.row_state[2] += 1;
            let precharge = if start < bank.last {
                start
            } else {
                start.max(bank.activated + tras)
            };
            bank.activated = precharge + trp;
            precharge + trp + trcd + cl
        };
        bank.row = row + 1;
        bank.last = start.max(bank.last);
        bank.free = bank.free.max(data - cl + self.transfer);
        self.transfer_end(channel, data) + (self.controller - half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One channel, times in memory clock cycles, no controller.
    fn plain() -> Dram {
        Dram::new(&DramConfig::ddr4_3200(1, 16, 0.0), 0.625)
    }

    #[test]
    fn unloaded_latencies_follow_the_timing_parameters() {
        let mut dram = plain();
        let row = 128 * 16;
        assert_eq!(dram.access(0, 1000), 1048, "closed: tRCD + CL + BL/2");
        assert_eq!(dram.access(1, 2000), 2026, "row hit: CL + BL/2");
        // Another row of the same bank: row 1 lies in bank 0 ^ 1 under the permutation, so that
        // row-number 16 + 1 comes back to bank 0.
        assert_eq!(
            dram.access(row + 128, 3000),
            3070,
            "conflict: tRP + tRCD + CL + BL/2"
        );
        assert_eq!(dram.row_state, [1, 1, 1]);
    }

    #[test]
    fn streams_reach_peak_bandwidth_and_no_more() {
        let config = DramConfig::ddr4_3200(1, 16, 0.0);
        let mut dram = plain();
        let lines = 100_000;
        // All asked for as early as 64 outstanding reads allow.
        let mut done = vec![0u64; 64];
        let mut end = 0;
        for line in 0..lines {
            let at = line as usize % 64;
            done[at] = dram.access(line, done[at]);
            end = end.max(done[at]);
        }
        let bytes_per_s = 64.0 * lines as f64 / (end as f64 * 0.625e-9);
        let share = bytes_per_s / config.peak_bytes_per_s();
        assert!((0.97..=1.0001).contains(&share), "{share} of peak");
    }
}
