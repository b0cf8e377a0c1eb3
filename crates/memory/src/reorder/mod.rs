// SPDX-License-Identifier: MIT OR Apache-2.0
//! A memory controller that reorders: row hits first, then the oldest (FR-FCFS, Rixner et al.,
//! ISCA 2000), with a queue of writes that is drained in bursts, refresh, and the limits on
//! activations and turns of the bus. It works command by command, and says when a read's data are
//! there once its column command is issued.
//!
//! Left out: ranks beyond one and bank groups (consecutive lines are taken to alternate between
//! groups, so that tCCD_S holds), power-down, and the command bus beyond one command a clock.

mod channel;

use crate::{BadParams, DramConfig, MainMemory};
use ample_kit::divisor::Divisor;
use channel::{Channel, Request};
use serde::{Deserialize, Serialize};

/// Queues and the timing that only a reordering controller obeys. Times in memory clock cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReorderConfig {
    /// Reads that are looked at together; others wait outside.
    pub read_entries: u32,
    /// Writes that are kept until they are drained.
    pub write_entries: u32,
    /// Writes in the queue at which draining begins.
    pub write_high: u32,
    /// Writes in the queue at which it ends, when reads wait.
    pub write_low: u32,
    /// Row hits that may pass an older request to the same bank, from the opening of the row.
    pub row_hits: u32,
    /// Write latency.
    pub cwl: u32,
    /// Column command to column command.
    pub tccd: u32,
    /// Activate to activate, two banks.
    pub trrd: u32,
    /// Window that holds at most four activations.
    pub tfaw: u32,
    /// End of written data to precharge.
    pub twr: u32,
    /// End of written data to a read.
    pub twtr: u32,
    /// Read to precharge.
    pub trtp: u32,
    /// Time between two refreshes; 0: none.
    pub trefi: u32,
    /// Duration of a refresh.
    pub trfc: u32,
}

impl ReorderConfig {
    /// DDR4-3200, chips of 8 Gb and eight data lines (JESD79-4): queues of 32.
    pub const fn ddr4_3200() -> Self {
        Self {
            read_entries: 32,
            write_entries: 32,
            write_high: 28,
            write_low: 16,
            row_hits: 16,
            cwl: 16,
            tccd: 4,
            trrd: 4,
            tfaw: 34,
            twr: 24,
            twtr: 12,
            trtp: 12,
            trefi: 12_480,
            trfc: 560,
        }
    }

    /// Checks what could not work.
    ///
    /// # Errors
    /// If a queue has no entry, or writes could never be drained.
    pub fn check(&self, dram: &DramConfig) -> Result<(), BadParams> {
        let bad = |reason: &str| Err(BadParams::new("dram.reorder", reason));
        if self.read_entries == 0 || self.row_hits == 0 {
            return bad("read_entries, row_hits: must be at least 1");
        }
        if self.write_high == 0
            || self.write_high > self.write_entries
            || self.write_low >= self.write_high
        {
            return bad("write_low < write_high <= write_entries is needed, write_high at least 1");
        }
        if dram.banks > 64 {
            return bad("at most 64 banks a channel");
        }
        if self.trefi != 0 && self.trefi <= self.trfc + dram.tras + dram.trp {
            return bad("trefi: must be longer than a refresh and the closing of all rows");
        }
        Ok(())
    }
}

/// All timing in the caller's units.
#[derive(Clone, Copy, Debug)]
struct Timing {
    clock: u64,
    cl: u64,
    cwl: u64,
    trcd: u64,
    trp: u64,
    tras: u64,
    burst: u64,
    tccd: u64,
    trrd: u64,
    tfaw: u64,
    twr: u64,
    twtr: u64,
    trtp: u64,
    trefi: u64,
    trfc: u64,
}

impl Timing {
    fn new(dram: &DramConfig, reorder: &ReorderConfig, unit_ns: f64) -> Self {
        let units = |cycles: u32| (f64::from(cycles) * dram.tck_ns / unit_ns).round() as u64;
        Self {
            clock: units(1).max(1),
            cl: units(dram.cl),
            cwl: units(reorder.cwl),
            trcd: units(dram.trcd),
            trp: units(dram.trp),
            tras: units(dram.tras),
            burst: units(dram.burst / 2).max(1),
            tccd: units(reorder.tccd).max(1),
            trrd: units(reorder.trrd),
            tfaw: units(reorder.tfaw),
            twr: units(reorder.twr),
            twtr: units(reorder.twtr),
            trtp: units(reorder.trtp),
            trefi: units(reorder.trefi),
            trfc: units(reorder.trfc),
        }
    }
}

/// A read whose data will be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The line that was read.
    pub line: u64,
    /// When its data are at the caller.
    pub at: u64,
}

/// DRAM behind a controller that reorders. Times are in the caller's units; requests must come in
/// the order of time, except that each may be ahead of it.
#[derive(Clone, Debug)]
pub struct ReorderingDram {
    channels: Vec<Channel>,
    channel_count: Divisor,
    banks_per_channel: Divisor,
    lines_per_row: Divisor,
    controller: u64,
    arrivals: Vec<Arrival>,
    /// Lines read.
    pub reads: u64,
    /// Lines written back.
    pub writes: u64,
}

impl ReorderingDram {
    /// DRAM whose times are given in units of `unit_ns` nanoseconds. Each latency is turned into
    /// units once, rounded.
    ///
    /// # Errors
    /// As [`DramConfig::check`] and [`ReorderConfig::check`].
    pub fn new(
        dram: &DramConfig,
        reorder: &ReorderConfig,
        unit_ns: f64,
    ) -> Result<Self, BadParams> {
        dram.check()?;
        reorder.check(dram)?;
        let timing = Timing::new(dram, reorder, unit_ns);
        let channel = Channel::new(*reorder, timing, dram.banks);
        Ok(Self {
            channels: vec![channel; dram.channels as usize],
            channel_count: Divisor::new(u64::from(dram.channels)),
            banks_per_channel: Divisor::new(u64::from(dram.banks)),
            lines_per_row: Divisor::new(u64::from(dram.row_bytes / 64)),
            controller: (dram.controller_ns / unit_ns).round() as u64,
            arrivals: Vec::new(),
            reads: 0,
            writes: 0,
        })
    }

    /// Asks for a line at `now`; an [`Arrival`] will say when it is there.
    pub fn read(&mut self, line: u64, now: u64) {
        self.reads += 1;
        self.submit(line, (false, false), now);
    }

    /// The same before the reads of others that wait in the queue; hits of open rows still go
    /// first.
    pub fn read_first(&mut self, line: u64, now: u64) {
        self.reads += 1;
        self.submit(line, (false, true), now);
    }

    fn submit(&mut self, line: u64, (write, first): (bool, bool), now: u64) {
        // Where a line lies: as in `Dram`, which see.
        let (row_line, _) = self.channel_count.split(line);
        let (row_number, _) = self.lines_per_row.split(row_line);
        let (_, channel) = self.channel_count.split(line ^ row_number);
        let (row, _) = self.banks_per_channel.split(row_number);
        let (_, bank) = self.banks_per_channel.split(row_number ^ row);
        self.channels[channel as usize].submit(Request {
            line,
            bank: bank as usize,
            row,
            write,
            first,
            arrives: now + self.controller / 2,
            opened: 0,
        });
    }

    /// When a command can be issued next; `None` when nothing waits.
    pub fn next_event(&self) -> Option<u64> {
        self.channels.iter().filter_map(Channel::next_event).min()
    }

    /// Issues all commands up to and including `until`, and returns the reads whose data have a
    /// time now; none of them is earlier than its command.
    pub fn run_until(&mut self, until: u64) -> impl Iterator<Item = Arrival> + '_ {
        let back = self.controller - self.controller / 2;
        for channel in &mut self.channels {
            channel.run_until(until, &mut self.arrivals);
        }
        self.arrivals.drain(..).map(move |arrival| Arrival {
            at: arrival.at + back,
            ..arrival
        })
    }

    /// Accesses by state of the row: hit, closed, conflict.
    pub fn row_state(&self) -> [u64; 3] {
        let mut all = [0; 3];
        for channel in &self.channels {
            for (sum, n) in all.iter_mut().zip(channel.row_state) {
                *sum += n;
            }
        }
        all
    }
}

impl MainMemory for ReorderingDram {
    fn write(&mut self, line: u64, now: u64) {
        self.writes += 1;
        self.submit(line, (true, false), now);
    }
}

#[cfg(test)]
mod tests;
