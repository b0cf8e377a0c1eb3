// SPDX-License-Identifier: MIT OR Apache-2.0
//! The NIC: its accesses one after the other, translated by its own TLB.

use super::core::ComingAccess;
use super::machine::MultiCore;
use super::parts::{CoreProgram, Event};

/// Until an access to a page without a translation tries again.
const FAULT_CYCLES: u64 = 100;

impl<P: CoreProgram> MultiCore<P> {
    pub(super) fn schedule_dma(&mut self, now: u64) {
        if let Some((wait, op)) = self.program.next_dma() {
            self.has_nic = true;
            self.pending_dma = op;
            self.schedule(now + wait, Event::Nic);
        }
    }

    pub(super) fn dma(&mut self, at: u64) {
        let Some(op) = self.pending_dma else {
            // It had nothing to do.
            return self.schedule_dma(at);
        };
        let asked_at = *self.dma_asked_at.get_or_insert(at);
        let nic = self.memory.params().cores;
        if self.is_unmapped(op.page, nic) {
            // The device would fault; here its access waits, and the wait is counted.
            self.dma_latency_cycles += FAULT_CYCLES;
            self.schedule(at + FAULT_CYCLES, Event::Nic);
            return;
        }
        if op.write {
            self.note_store(op.page);
        }
        let line = self.translate(op.page, op.index, 1 << nic);
        self.token += 1;
        self.dma_starts.insert(self.token, at);
        self.memory.access(at, nic, line, op.write, self.token);
        self.dma_asked_at = None;
        let coming = ComingAccess::of_device(asked_at, at);
        if let Some(seen) = self.watched((nic, &op), &coming) {
            self.follow(self.token, line, seen, at);
        }
        self.schedule_dma(at);
    }
}
