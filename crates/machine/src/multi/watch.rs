// SPDX-License-Identifier: MIT OR Apache-2.0
//! What accesses to a page see while it moves: how long each takes, and which part of that is due
//! to the migration.

use super::core::{ComingAccess, CoreAccess};
use super::lines::LineMap;
use super::machine::MultiCore;
use super::memory::AccessStatus;
use super::parts::CoreProgram;
use super::private::Completed;
use ample_migration::protocol::{Envelope, LineAddr, Message, Party};
use serde::Serialize;
use std::collections::HashMap;
use std::ops::Range;

/// What the memory system adds to one access because a page moves, in cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LineDelays {
    /// Waited at a line that the copy engine had in hand.
    pub engine_cycles: u64,
    /// From the request to the refusal that sends it to the last level (non-cacheable design).
    pub nack_cycles: u64,
    /// From one slice to the other: where the request went first and where the line lives.
    pub forward_cycles: u64,
    /// It was performed in the last level instead of a private cache.
    pub is_uncached: bool,
}

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

/// A request that is followed through the memory system.
#[derive(Clone, Copy, Debug, Default)]
struct Followed {
    asked_at: u64,
    delays: LineDelays,
}

/// Requests that are followed, by agent and line.
#[derive(Clone, Debug, Default)]
pub(super) struct FollowedRequests(LineMap<Followed>);

impl FollowedRequests {
    fn key(agent: u8, line: LineAddr) -> LineAddr {
        LineAddr(line.0 | u64::from(agent) << 56)
    }

    /// Follows a request that was made at `now`; one for the same line is followed already if
    /// this one joined it.
    pub(super) fn follow(&mut self, agent: u8, line: LineAddr, now: u64) {
        let followed = Followed {
            asked_at: now,
            ..Followed::default()
        };
        self.0.entry(Self::key(agent, line)).or_insert(followed);
    }

    fn with(&mut self, agent: u8, line: LineAddr, note: impl FnOnce(&mut Followed)) {
        if !self.0.is_empty()
            && let Some(followed) = self.0.get_mut(&Self::key(agent, line))
        {
            note(followed);
        }
    }

    /// A request waited at a line that the engine had in hand.
    pub(super) fn waited(&mut self, envelope: &Envelope<u64>, cycles: u64) {
        if let Message::Request(request) = envelope.message {
            self.with(request.agent, request.line, |f| {
                f.delays.engine_cycles += cycles;
            });
        }
    }

    /// A slice passes a request on, which arrives elsewhere after these cycles.
    pub(super) fn forwarded(&mut self, envelope: &Envelope<u64>, cycles: u64) {
        if let Message::Request(request) = envelope.message {
            self.with(request.agent, request.line, |f| {
                f.delays.forward_cycles += cycles;
            });
        }
    }

    /// An answer has come to its agent at `now`.
    pub(super) fn answered(&mut self, now: u64, envelope: &Envelope<u64>) {
        let Party::Agent(agent) = envelope.to else {
            return;
        };
        match envelope.message {
            Message::Nack { line } => self.with(agent, line, |f| {
                f.delays.nack_cycles += now.saturating_sub(f.asked_at);
            }),
            Message::Once { line, .. } => self.with(agent, line, |f| f.delays.is_uncached = true),
            _ => {}
        }
    }

    fn take(&mut self, agent: u8, line: LineAddr) -> LineDelays {
        let followed = self.0.remove(&Self::key(agent, line));
        followed.map_or_else(LineDelays::default, |f| f.delays)
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
