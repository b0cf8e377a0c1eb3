// SPDX-License-Identifier: MIT OR Apache-2.0
//! DRAM with open rows: bank state decides the latency, the data bus the bandwidth.
//!
//! Unloaded read latencies follow the timing parameters: a row hit CL + BL/2, a closed bank tRCD
//! more, a conflict tRP more again: 26, 48 and 70 cycles for DDR4-3200 22-22-22.

use crate::limits::Limits;
use crate::{BadParams, LimitsConfig, MainMemory, ReorderConfig};
use ample_kit::divisor::Divisor;
use serde::{Deserialize, Serialize};

/// Timing and shape. Times are in memory clock cycles unless named otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// Independent channels; lines are spread over them.
    pub channels: u32,
    /// Banks of one channel (all ranks).
    pub banks: u32,
    /// Bytes of one row.
    pub row_bytes: u32,
    /// Controller and fabric, both ways, ns.
    pub controller_ns: f64,
    /// A controller that reorders; without it requests are served as they come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder: Option<ReorderConfig>,
    /// Refresh, activations and turns of the bus where requests are served as they come; without
    /// it they cost nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsConfig>,
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
            reorder: None,
            limits: None,
        }
    }

    /// Checks what could not be built.
    ///
    /// # Errors
    /// If there is no channel, bank or time, a row is shorter than a line, or a controller that
    /// reorders is given the limits of one that does not.
    pub fn check(&self) -> Result<(), BadParams> {
        let timed = self.tck_ns > 0.0 && self.tck_ns.is_finite() && self.controller_ns >= 0.0;
        if self.channels == 0 || self.banks == 0 || self.row_bytes < 64 || !timed {
            let reason = "channels, banks, row_bytes (64 or more) and tck_ns must be positive";
            return Err(BadParams::new("dram", reason));
        }
        if self.reorder.is_some() && self.limits.is_some() {
            let reason = "a controller that reorders has limits of its own; leave one of them out";
            return Err(BadParams::new("dram.limits", reason));
        }
        if let Some(limits) = &self.limits {
            limits.check(self.tras.saturating_add(self.trp))?;
        }
        self.reorder
            .iter()
            .try_for_each(|reorder| reorder.check(self))
    }

    /// Peak bandwidth of all channels, bytes a second.
    pub fn peak_bytes_per_s(&self) -> f64 {
        64.0 * f64::from(self.channels) / (f64::from(self.burst) / 2.0 * self.tck_ns * 1e-9)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Bank {
    /// Open row + 1; 0: closed.
    row: u64,
    activated: u64,
    /// Arrival of the last access, and when the bank could take the next.
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
    /// From the first command to the data, by state of the row: open, closed, another open.
    to_data: [u64; 3],
    tras: u64,
    transfer: u64,
    controller: u64,
    limits: Option<Box<Limits>>,
    /// Accesses by state of the row: hit, closed, conflict.
    pub row_state: [u64; 3],
    /// Lines read.
    pub reads: u64,
    /// Lines written back.
    pub writes: u64,
    #[cfg(test)]
    pub(crate) written: Vec<u64>,
}

impl Dram {
    /// DRAM whose times are given in units of `unit_ns` nanoseconds. Each latency is turned into
    /// units once, rounded.
    ///
    /// # Errors
    /// As [`DramConfig::check`].
    pub fn new(config: &DramConfig, unit_ns: f64) -> Result<Self, BadParams> {
        config.check()?;
        let units = |cycles: u32| (f64::from(cycles) * config.tck_ns / unit_ns).round() as u64;
        let banks = (config.channels * config.banks) as usize;
        Ok(Dram {
            banks: vec![Bank::default(); banks],
            calendar: vec![0; (CALENDAR * u64::from(config.channels)) as usize],
            channels: Divisor::new(u64::from(config.channels)),
            banks_per_channel: Divisor::new(u64::from(config.banks)),
            channel_banks: u64::from(config.banks),
            lines_per_row: Divisor::new(u64::from(config.row_bytes / 64)),
            to_data: [
                units(config.cl),
                units(config.trcd + config.cl),
                units(config.trp + config.trcd + config.cl),
            ],
            tras: units(config.tras),
            transfer: units(config.burst / 2).max(1),
            controller: (config.controller_ns / unit_ns).round() as u64,
            limits: config.limits.map(|limits| {
                let cycle = config.tck_ns / unit_ns;
                Box::new(Limits::new(&limits, config.channels, config.cl, cycle))
            }),
            row_state: [0; 3],
            reads: 0,
            writes: 0,
            #[cfg(test)]
            written: Vec::new(),
        })
    }

    /// Books the first free bus slot of a channel that starts at `at` or later; returns its end.
    #[inline]
    fn transfer_end(&mut self, channel: u64, at: u64) -> u64 {
        let mut slot = at / self.transfer;
        let first = (channel * CALENDAR) as usize;
        loop {
            let cell = &mut self.calendar[first + (slot % CALENDAR) as usize];
            if *cell != slot + 1 {
                *cell = slot + 1;
                // In a slot of its own a transfer starts when it is asked for.
                return at.max(slot * self.transfer) + self.transfer;
            }
            slot += 1;
        }
    }

    /// Reads a line, asked for at `now`; returns when the data are at the caller.
    #[inline]
    pub fn read(&mut self, line: u64, now: u64) -> u64 {
        self.reads += 1;
        let at = self.access(line, now);
        debug_assert!(self.all_are_counted(), "an access of no kind");
        at
    }

    /// Channel of a line, its bank among all, and its row in the bank.
    #[inline]
    fn place(&self, line: u64) -> (u64, usize, u64) {
        let (row_line, _) = self.channels.split(line);
        let (row_number, _) = self.lines_per_row.split(row_line);
        let (_, channel) = self.channels.split(line ^ row_number);
        let (row, _) = self.banks_per_channel.split(row_number);
        // Rows that differ only above the bank bits are spread over banks (permutation).
        let (_, bank) = self.banks_per_channel.split(row_number ^ row);
        (channel, (channel * self.channel_banks + bank) as usize, row)
    }

    #[inline]
    fn access(&mut self, line: u64, now: u64) -> u64 {
        let (channel, bank, row) = self.place(line);
        let [hit, closed, conflict] = self.to_data;
        let half = self.controller / 2;
        let arrive = now + half;
        let bank = &mut self.banks[bank];
        // A request earlier than the last one served is of an access that was asked for later: the
        // other's walk was not over yet, or, in the order of the program, its address was not
        // there. It does not wait for what in truth came after it.
        let is_early = arrive < bank.last;
        let mut start = match is_early {
            true => arrive,
            false => arrive.max(bank.free),
        };
        if let Some(limits) = &self.limits {
            start = limits.after_refresh(channel, start);
            if limits.is_closed(channel, bank.activated, start) {
                bank.row = 0;
            }
        }
        let data = if bank.row == row + 1 {
            self.row_state[0] += 1;
            start + hit
        } else {
            let mut activate = start;
            if bank.row == 0 {
                self.row_state[1] += 1;
            } else {
                self.row_state[2] += 1;
                let precharge = match is_early {
                    true => start,
                    false => start.max(bank.activated + self.tras),
                };
                activate = precharge + (conflict - closed);
            }
            if let Some(limits) = &mut self.limits {
                activate = limits.activation(channel, activate);
            }
            bank.activated = activate;
            activate + closed
        };
        debug_assert!(data >= arrive + hit, "data before the command to read them");
        bank.row = row + 1;
        bank.last = arrive.max(bank.last);
        // Bursts to an open row follow one another; only opening a row keeps the bank.
        bank.free = bank.free.max(data - hit + self.transfer);
        let end = self.transfer_end(channel, data);
        debug_assert!(
            end >= data + self.transfer,
            "a burst takes its time on the bus"
        );
        end + (self.controller - half)
    }

    /// Lines that are written together, and the turns of the bus before and behind them.
    #[cold]
    fn write_batch(&mut self, channel: u64, lines: &[u64], now: u64, turns: u64) {
        let ends = lines.iter().map(|&line| self.access(line, now));
        let end = ends.max().unwrap_or(now);
        for _ in 0..turns.div_ceil(self.transfer) {
            self.transfer_end(channel, end);
        }
    }

    /// Every access has been of one kind, or waits to be written.
    fn all_are_counted(&self) -> bool {
        let waiting = self.limits.as_ref().map_or(0, |limits| limits.waiting());
        self.row_state.iter().sum::<u64>() + waiting == self.reads + self.writes
    }
}

impl MainMemory for Dram {
    /// Occupies its bank and the bus, with limits once enough lines wait.
    #[inline]
    fn write(&mut self, line: u64, now: u64) {
        self.writes += 1;
        #[cfg(test)]
        self.written.push(line);
        if self.limits.is_none() {
            self.access(line, now);
            return;
        }
        let (channel, ..) = self.place(line);
        if let Some(limits) = &mut self.limits {
            let turns = limits.turns;
            if let Some(lines) = limits.write(channel, line) {
                self.write_batch(channel, &lines, now, turns);
            }
        }
        debug_assert!(self.all_are_counted(), "an access of no kind");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times in memory clock cycles, no controller.
    fn plain(channels: u32) -> Dram {
        Dram::new(&DramConfig::ddr4_3200(channels, 16, 0.0), 0.625).unwrap()
    }

    /// Lines of a row.
    const ROW: u64 = 128;
    /// Line 0 of the next row of bank 0: rows 16 to 31 lie in the banks in another order.
    const SAME_BANK: u64 = 17 * ROW;

    #[test]
    fn unloaded_latencies_follow_the_timing_parameters() {
        let mut dram = plain(1);
        assert_eq!(dram.read(0, 1000), 1048, "closed: tRCD + CL + BL/2");
        assert_eq!(dram.read(1, 2000), 2026, "row hit: CL + BL/2");
        let conflict = dram.read(SAME_BANK, 3000);
        assert_eq!(conflict, 3070, "conflict: tRP + tRCD + CL + BL/2");
        assert_eq!(dram.row_state, [1, 1, 1]);
    }

    #[test]
    fn latencies_are_rounded_once_and_carry_the_controller() {
        // 26, 48 and 70 cycles of 0.625 ns at 2 GHz, and 20 ns on the way.
        let mut dram = Dram::new(&DramConfig::ddr4_3200(1, 16, 20.0), 0.5).unwrap();
        assert_eq!(dram.read(0, 0), 60 + 40);
        assert_eq!(dram.read(1, 10_000) - 10_000, 33 + 40);
        assert_eq!(dram.read(SAME_BANK, 20_000) - 20_000, 88 + 40);
    }

    #[test]
    fn hits_to_one_row_follow_each_other_by_a_burst() {
        let mut dram = plain(1);
        let ends: Vec<u64> = (0..4).map(|line| dram.read(line, 1000)).collect();
        assert_eq!(ends, [1048, 1052, 1056, 1060]);
    }

    #[test]
    fn banks_open_rows_at_once_and_share_the_bus() {
        let mut dram = plain(1);
        let ends: Vec<u64> = (0..4).map(|row| dram.read(row * ROW, 1000)).collect();
        assert_eq!(ends, [1048, 1052, 1056, 1060], "one burst of the bus apart");
        let mut dram = plain(2);
        // A line and its neighbour lie in two channels: no bus is shared.
        assert_eq!([dram.read(0, 1000), dram.read(1, 1000)], [1048, 1048]);
    }

    #[test]
    fn conflicts_in_a_bank_wait_for_its_row_to_have_been_open() {
        let mut dram = plain(1);
        assert_eq!(dram.read(0, 1000), 1048);
        // Precharge no earlier than tRAS (52) behind the activation at 1000.
        assert_eq!(dram.read(SAME_BANK, 1000), 1052 + 70);
        let mut dram = plain(1);
        dram.read(0, 1000);
        dram.write(SAME_BANK, 2000);
        assert_eq!(
            dram.read(0, 2000),
            2022 + 52 + 70,
            "a write opens its row too"
        );
        assert_eq!((dram.reads, dram.writes), (2, 1));
    }

    #[test]
    fn streams_reach_peak_bandwidth_and_no_more() {
        let config = DramConfig::ddr4_3200(1, 16, 0.0);
        let mut dram = plain(1);
        let lines = 100_000;
        // All asked for as early as 64 outstanding reads allow.
        let mut done = vec![0u64; 64];
        let mut end = 0;
        for line in 0..lines {
            let at = line as usize % 64;
            done[at] = dram.read(line, done[at]);
            end = end.max(done[at]);
        }
        let bytes_per_s = 64.0 * lines as f64 / (end as f64 * 0.625e-9);
        let share = bytes_per_s / config.peak_bytes_per_s();
        assert!((0.97..=1.0001).contains(&share), "{share} of peak");
    }

    #[test]
    fn memory_that_cannot_be_built_is_refused() {
        for change in [
            (|c| c.channels = 0) as fn(&mut DramConfig),
            |c| c.banks = 0,
            |c| c.row_bytes = 32,
            |c| c.tck_ns = f64::NAN,
        ] {
            let mut config = DramConfig::ddr4_3200(1, 16, 0.0);
            change(&mut config);
            assert_eq!(Dram::new(&config, 0.5).unwrap_err().field, "dram");
        }
    }
}
