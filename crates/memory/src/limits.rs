// SPDX-License-Identifier: MIT OR Apache-2.0
//! What memory that serves requests as they come obeys beyond banks and buses: refresh, at most
//! four activations in a window, and turns of the bus between reads and writes.
//!
//! A core asks access by access, walk and line, and some requests lie earlier than those before
//! them. So nothing here is a queue: refreshes are a function of time, activations are booked in a
//! calendar, and writes wait until there are enough for one turn of the bus. Left out,
//! and in [`ReorderingDram`](crate::ReorderingDram): row hits before older requests, recovery of
//! a written row before it closes, and a read that finds its line among the writes that wait.

use crate::BadParams;
use serde::{Deserialize, Serialize};

/// The limits, in memory clock cycles; by default those of DDR4-3200, chips of 8 Gb (JESD79-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Activate to activate, two banks.
    pub trrd: u32,
    /// Window that holds at most four activations of a channel; 0: no limit.
    pub tfaw: u32,
    /// End of written data to a read.
    pub twtr: u32,
    /// Writes of a channel that wait until they are written together.
    pub write_batch: u32,
    /// Time between two refreshes of a channel; 0: none.
    pub trefi: u32,
    /// Duration of a refresh, which closes all rows.
    pub trfc: u32,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            trrd: 4,
            tfaw: 34,
            twtr: 12,
            write_batch: 16,
            trefi: 12_480,
            trfc: 560,
        }
    }
}

impl LimitsConfig {
    /// Checks what could not work; a row is open for `row_cycles` at least, its closing included.
    ///
    /// # Errors
    /// If writes would wait for ever, activations could not be told apart, or a channel would do
    /// nothing but refresh.
    pub fn check(&self, row_cycles: u32) -> Result<(), BadParams> {
        if self.write_batch == 0 {
            let reason = "write_batch: must be at least 1";
            return Err(BadParams::new("dram.limits", reason));
        }
        if self.tfaw != 0 && (self.trrd == 0 || self.tfaw > 64 * self.trrd) {
            let reason = "tfaw: must be 0, or at most 64 times trrd";
            return Err(BadParams::new("dram.limits", reason));
        }
        let busy = u64::from(self.trfc) + u64::from(row_cycles);
        if self.trefi != 0 && u64::from(self.trefi) <= busy {
            let reason = "trefi: must be longer than a refresh and the closing of all rows";
            return Err(BadParams::new("dram.limits", reason));
        }
        Ok(())
    }
}

/// Slots of a channel's calendar of activations: more than any window of a core reaches back.
const SLOTS: u64 = 4096;

/// The limits at work. Times are in the caller's units.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Length of a slot, which holds one activation, and slots of a window; 0: no limit.
    trrd: u64,
    window: u64,
    /// By channel and slot: number of the slot + 1, when it holds an activation.
    activations: Vec<u64>,
    trefi: u64,
    trfc: u64,
    channels: u64,
    /// By channel: lines that wait to be written.
    waiting: Vec<Vec<u64>>,
    batch: usize,
    /// What the bus loses when it turns to writes and back.
    pub(crate) turns: u64,
}

impl Limits {
    /// Of so many channels whose reads take `cl` cycles; a cycle is `cycle` units long.
    pub(crate) fn new(limits: &LimitsConfig, channels: u32, cl: u32, cycle: f64) -> Self {
        let units = |cycles: u32| (f64::from(cycles) * cycle).round() as u64;
        let channels = channels as usize;
        let trrd = units(limits.trrd).max(1);
        Self {
            trrd,
            window: units(limits.tfaw).div_ceil(trrd),
            activations: vec![0; SLOTS as usize * channels],
            trefi: units(limits.trefi),
            trfc: units(limits.trfc),
            channels: channels as u64,
            waiting: vec![Vec::new(); channels],
            batch: limits.write_batch as usize,
            // Two cycles before the first written data; a read follows tWTR after the last, and
            // its data CL later.
            turns: units(2 + limits.twtr + cl),
        }
    }

    /// Channels do not refresh at once: each is an equal share of the period ahead of the next.
    fn phase(&self, channel: u64, at: u64) -> u64 {
        at + channel * self.trefi / self.channels
    }

    /// The first time from `at` on at which the channel takes a command.
    pub(crate) fn after_refresh(&self, channel: u64, at: u64) -> u64 {
        if self.trefi == 0 {
            return at;
        }
        let phase = self.phase(channel, at);
        let since = phase % self.trefi;
        match phase >= self.trefi && since < self.trfc {
            true => at + self.trfc - since,
            false => at,
        }
    }

    /// Whether a refresh lies between the opening of a row and `at`.
    pub(crate) fn is_closed(&self, channel: u64, activated: u64, at: u64) -> bool {
        self.trefi != 0
            && self.phase(channel, activated) / self.trefi < self.phase(channel, at) / self.trefi
    }

    /// Books an activation in the first slot from `at` on that has room, and whose windows have;
    /// returns its time.
    pub(crate) fn activation(&mut self, channel: u64, at: u64) -> u64 {
        if self.window == 0 {
            return at;
        }
        let first = at / self.trrd;
        let slot = (first..)
            .find(|&slot| self.has_room(channel, slot))
            .unwrap_or(first);
        let place = self.place(channel, slot);
        self.activations[place] = slot + 1;
        at.max(slot * self.trrd)
    }

    fn place(&self, channel: u64, slot: u64) -> usize {
        (channel * SLOTS + slot % SLOTS) as usize
    }

    /// Whether one more activation leaves every window that holds the slot with four at most.
    fn has_room(&self, channel: u64, slot: u64) -> bool {
        let holds = |at: u64| self.activations[self.place(channel, at)] == at + 1;
        let least = (slot + 1).saturating_sub(self.window);
        let mut within = (least..slot).filter(|&at| holds(at)).count();
        if holds(slot) {
            return false;
        }
        // The windows that begin at the least slot and after it.
        for begin in least..=slot {
            if within >= 4 {
                return false;
            }
            within -= usize::from(begin < slot && holds(begin));
            within += usize::from(holds(begin + self.window));
        }
        true
    }

    /// Takes a line that is to be written; returns the channel's lines once there are enough.
    pub(crate) fn write(&mut self, channel: u64, line: u64) -> Option<Vec<u64>> {
        let waiting = &mut self.waiting[channel as usize];
        waiting.push(line);
        (waiting.len() >= self.batch).then(|| std::mem::take(waiting))
    }

    /// Lines of all channels that wait to be written.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.iter().map(|lines| lines.len() as u64).sum()
    }
}
