// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a workload pins: for long, when a service starts, and for a second.

use super::Driver;
use crate::server::ServerModel;

/// Of a million pages, those under direct I/O at any time.
const SHORT_PINS_PER_MILLION: u64 = 20;

impl Driver {
    pub(super) fn long_pins(&mut self, server: &mut ServerModel) {
        let pins = &self.workload.pins;
        if pins.level_ratio == 0.0 {
            return;
        }
        let held = server.pool_len(self.pinned) as u32;
        let ended = self.rng.round(f64::from(held) / pins.hold_s);
        server.release(self.pinned, ended, 0);
        let goal = (pins.level_ratio * self.pages) as u32;
        let wanted = goal.saturating_sub(held - ended);
        let holders: Vec<usize> = (0..self.processes.len())
            .filter(|&p| self.processes[p].group == 0)
            .collect();
        for _ in 0..wanted.min(goal / 16 + 1) {
            let process = holders[self.rng.below(holders.len() as u32) as usize];
            let running = &mut self.processes[process];
            let len = server.pool_len(running.pool) as u32;
            if len == 0 {
                continue;
            }
            let index = self.rng.below(len);
            if server.pin_long(running.pool, index, self.pinned) {
                running.pages = running.pages.saturating_sub(1);
            }
        }
    }

    /// Direct I/O holds a few pages for about a second.
    pub(super) fn short_pins(&mut self, server: &mut ServerModel) {
        self.drop_short_pins(server);
        let count = server.frames() as u64 * SHORT_PINS_PER_MILLION / 1_000_000;
        for _ in 0..count {
            if let Some(pfn) = server.random_cached(&mut self.rng) {
                server.pin_shortly(pfn, true);
                self.short.push(pfn);
            }
        }
    }

    pub(super) fn drop_short_pins(&mut self, server: &mut ServerModel) {
        for pfn in self.short.drain(..) {
            server.pin_shortly(pfn, false);
        }
    }

    /// Processes of the first group pin their share of memory as they grow, and hold it until they
    /// end.
    pub(super) fn start_pins(&mut self, server: &mut ServerModel) {
        let ratio = self.workload.pins.start_ratio;
        let Some(group) = self.workload.process.first() else {
            return;
        };
        if ratio == 0.0 {
            return;
        }
        let full = group.memory_ratio * self.pages / f64::from(group.count);
        let share = ratio / group.memory_ratio;
        for process in self.processes.iter().filter(|process| process.group == 0) {
            let grown = (process.pages as f64).min(full);
            let goal = (grown * share) as usize;
            let held = server.pool_len(process.pinned);
            for _ in held..goal {
                let len = server.pool_len(process.pool) as u32;
                if len == 0 {
                    break;
                }
                let index = self.rng.below(len);
                // Refused for now: it is tried again in a second.
                if !server.pin_long(process.pool, index, process.pinned) {
                    break;
                }
            }
        }
    }
}
