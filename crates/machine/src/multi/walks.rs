// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page walks of the cores: the walker reads page-table lines through the core's caches, one
//! after the other, while the core goes on with what its window holds. The access itself follows.

use super::core::CoreAccess;
use super::machine::MultiCore;
use super::memory::AccessStatus;
use super::parts::{CoreProgram, Event, Walk};
use ample_migration::protocol::LineAddr;

/// Cycles until something that found no MSHR, or no page, tries again.
const RETRY_CYCLES: u64 = 20;

impl<P: CoreProgram> MultiCore<P> {
    /// Starts the walk for an access that the core has issued; `reads` are in order.
    pub(super) fn start_walk(
        &mut self,
        core: u8,
        op: CoreAccess,
        now: u64,
        mut reads: Vec<LineAddr>,
    ) {
        debug_assert!(!reads.is_empty(), "a walk reads at least one entry");
        self.token += 1;
        let token = self.token;
        self.cores[usize::from(core)].issued_miss(&op, token);
        self.walk_reads += reads.len() as u64;
        reads.reverse();
        let walk = Walk {
            core,
            op,
            token,
            reads,
            start: Some(now),
        };
        self.go_on(walk, now);
    }

    /// A read of the walker has ended, if the token is one of its own.
    pub(super) fn walker_read(&mut self, token: u64, at: u64) -> bool {
        let Some(mut walk) = self.walks.remove(&token) else {
            return false;
        };
        walk.reads.pop();
        self.go_on(walk, at);
        true
    }

    /// Tries again what had to wait.
    pub(super) fn retry_walk(&mut self, token: u64, at: u64) {
        if let Some(walk) = self.walks.remove(&token) {
            self.go_on(walk, at);
        }
    }

    fn go_on(&mut self, mut walk: Walk, mut now: u64) {
        while let Some(&line) = walk.reads.last() {
            self.token += 1;
            let token = self.token;
            match self.memory.access(now, walk.core, line, false, token) {
                AccessStatus::Done(at) => {
                    now = at;
                    walk.reads.pop();
                }
                AccessStatus::Pending => {
                    self.walks.insert(token, walk);
                    return;
                }
                AccessStatus::Full => return self.later(walk, now),
            }
        }
        // A core may run ahead of a line that another of its misses brings: no time then.
        let start = walk.start.take();
        self.walk_cycles += start.map_or(0, |start| now.saturating_sub(start));
        if self.is_unmapped(walk.op.page, walk.core) {
            return self.later(walk, now);
        }
        let (core, op, token) = (walk.core, walk.op, walk.token);
        if op.write {
            self.note_store(op.page);
        }
        let line = self.translate(op.page, op.index, 1 << core);
        match self.memory.access(now, core, line, op.write, token) {
            AccessStatus::Done(at) => {
                let done = &mut self.cores[usize::from(core)];
                if done.ended(token, at) {
                    let at = done.now();
                    self.schedule(at, Event::Core(core));
                }
            }
            AccessStatus::Pending => {}
            AccessStatus::Full => self.later(walk, now),
        }
    }

    fn later(&mut self, walk: Walk, now: u64) {
        self.token += 1;
        let token = self.token;
        self.walks.insert(token, walk);
        self.schedule(now + RETRY_CYCLES, Event::Walk(token));
    }
}
