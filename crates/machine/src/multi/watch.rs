// SPDX-License-Identifier: MIT OR Apache-2.0
//! What accesses to a page see while it moves: how long each takes, and which part of that is due
//! to the migration.

use super::core::{ComingAccess, CoreAccess};
use super::follow::LineDelays;
use super::machine::MultiCore;
use super::memory::AccessStatus;
use super::parts::CoreProgram;
use super::private::Completed;
use ample_migration::protocol::LineAddr;
use serde::Serialize;
use std::collections::HashMap;
use std::ops::Range;

/// An access to a watched page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SeenAccess {
    /// A core; higher numbers are devices.
    pub agent: u8,
    /// When its agent wanted it.
    pub at_cycle: u64,
    /// From there until its data are there.
    pub latency_cycles: u64,
    /// Of it: the agent's kernel was at work. A program that is held up comes to its accesses
    /// later; one that it makes `n` cycles after the kernel counts as wanted `n` cycles after the
    /// kernel began.
    pub kernel_cycles: u64,
    /// Of it: the page had no translation.
    pub unmapped_cycles: u64,
    /// Of it: in the memory system.
    pub lines: LineDelays,
}

impl SeenAccess {
    /// Cycles that the migration added, those of an uncached access apart.
    pub fn delay_cycles(&self) -> u64 {
        let lines = self.lines;
        let in_memory = lines.engine_cycles + lines.nack_cycles + lines.forward_cycles;
        self.kernel_cycles + self.unmapped_cycles + in_memory
    }
}

/// An access to a watched page that is under way.
#[derive(Clone, Copy, Debug)]
struct OpenAccess {
    line: LineAddr,
    seen: SeenAccess,
}

/// Pages that are watched, and what accesses to them have seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    pages: Range<u32>,
    open: HashMap<u64, OpenAccess>,
    seen: Vec<SeenAccess>,
}

impl<P: CoreProgram> MultiCore<P> {
    /// Notes from now on what accesses of programs and of the NIC to these pages see. Accesses
    /// that wait for a page walk are not among them.
    pub fn watch(&mut self, pages: Range<u32>) {
        self.watch.pages = pages;
    }

    /// What accesses to watched pages that have ended saw, in the order of their ends; the list
    /// begins anew.
    pub fn take_seen(&mut self) -> Vec<SeenAccess> {
        std::mem::take(&mut self.watch.seen)
    }

    /// The access that agent `id` has made, if its page is watched, as far as is known before its
    /// end.
    pub(super) fn watched(
        &self,
        (id, op): (u8, &CoreAccess),
        coming: &ComingAccess,
    ) -> Option<SeenAccess> {
        self.watch.pages.contains(&op.page).then(|| SeenAccess {
            agent: id,
            at_cycle: coming.wanted_at(),
            latency_cycles: 0,
            kernel_cycles: coming.kernel_cycles,
            unmapped_cycles: coming.unmapped_cycles,
            lines: LineDelays::default(),
        })
    }

    /// A core has issued the access that it had come to at `now`.
    pub(super) fn note_issued(
        &mut self,
        now: u64,
        (id, op): (u8, &CoreAccess),
        line: LineAddr,
        token: u64,
        outcome: AccessStatus,
    ) {
        let coming = self.cores[usize::from(id)].coming.take();
        if let Some(seen) = coming.and_then(|coming| self.watched((id, op), &coming)) {
            match outcome {
                AccessStatus::Done(at) => self.seen_hit(seen, at),
                _ => self.follow(token, line, seen, now),
            }
        }
    }

    /// A watched access ended in the private caches at `at`.
    pub(super) fn seen_hit(&mut self, seen: SeenAccess, at: u64) {
        let latency_cycles = at.saturating_sub(seen.at_cycle);
        self.watch.seen.push(SeenAccess {
            latency_cycles,
            ..seen
        });
    }

    /// A watched access has been asked of the memory system at `now`.
    pub(super) fn follow(&mut self, token: u64, line: LineAddr, seen: SeenAccess, now: u64) {
        self.memory.followed.follow(seen.agent, line, now);
        self.watch.open.insert(token, OpenAccess { line, seen });
    }

    /// An access has ended, watched or not.
    pub(super) fn seen_end(&mut self, done: &Completed) {
        if self.watch.open.is_empty() {
            return;
        }
        if let Some(OpenAccess { line, seen }) = self.watch.open.remove(&done.token) {
            let lines = self.memory.followed.take(done.agent, line);
            self.seen_hit(SeenAccess { lines, ..seen }, done.at);
        }
    }
}
