// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests that are followed on their way through the memory system, for what a migration does
//! to them.

use super::lines::LineMap;
use ample_migration::protocol::{Envelope, LineAddr, Message, Party};
use serde::Serialize;

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

    /// Ends following a request: what was added to it.
    pub(super) fn take(&mut self, agent: u8, line: LineAddr) -> LineDelays {
        let followed = self.0.remove(&Self::key(agent, line));
        followed.map_or_else(LineDelays::default, |f| f.delays)
    }
}
