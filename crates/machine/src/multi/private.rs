// SPDX-License-Identifier: MIT OR Apache-2.0
//! The private caches of one core: an L1 of tags inside an L2 that holds the lines, and lines on
//! their way out. What they decide is the protocol's ([`CoreSide`]).

use super::lines::LineMap;
use super::params::MemoryParams;
use super::shadow::Shadow;
use ample_memory::{BadParams, Cache};
use ample_migration::protocol::{Cached, CoreSide, LineAddr, Observer, PrivateLines};

/// Where the lines lie.
#[derive(Clone, Debug)]
pub struct Arrays {
    l1: Cache<()>,
    l2: Cache<Cached<u64>>,
    /// Lines that are written back, until their home has answered.
    leaving: LineMap<Cached<u64>>,
}

impl PrivateLines<u64> for Arrays {
    fn line(&mut self, line: LineAddr) -> Option<&mut Cached<u64>> {
        if !self.leaving.is_empty()
            && let Some(cached) = self.leaving.get_mut(&line)
        {
            return Some(cached);
        }
        self.l2.peek(line.0)
    }

    fn put(&mut self, line: LineAddr, cached: Cached<u64>) -> Option<(LineAddr, Cached<u64>)> {
        self.l1.put(line.0, ());
        let victim = self.l2.put(line.0, cached)?;
        self.l1.remove(victim.line);
        Some((LineAddr(victim.line), victim.value))
    }

    fn leave(&mut self, line: LineAddr, cached: Cached<u64>) {
        let twice = self.leaving.insert(line, cached);
        debug_assert!(twice.is_none(), "{line:?} is written back already");
    }

    fn take(&mut self, line: LineAddr) -> Option<Cached<u64>> {
        if !self.leaving.is_empty()
            && let Some(cached) = self.leaving.remove(&line)
        {
            return Some(cached);
        }
        self.l1.remove(line.0);
        self.l2.remove(line.0)
    }
}

/// The caches and MSHRs of a core.
#[derive(Clone, Debug)]
pub struct PrivateCache {
    /// Lines, misses and marks; an access is named by its token.
    pub(super) side: CoreSide<Arrays, u64>,
    l1_cycles: u64,
    l2_cycles: u64,
}

impl PrivateCache {
    pub(super) fn new(params: &MemoryParams) -> Result<Self, BadParams> {
        let arrays = Arrays {
            l1: Cache::new(&params.l1, "l1")?,
            l2: Cache::new(&params.l2, "l2")?,
            leaving: LineMap::default(),
        };
        Ok(Self {
            side: CoreSide::new(arrays),
            l1_cycles: params.l1.latency_cycles.into(),
            l2_cycles: params.l2.latency_cycles.into(),
        })
    }

    /// Performs the access when the caches allow it; returns its latency.
    pub(super) fn hit(&mut self, line: LineAddr, write: bool, shadow: &mut Shadow) -> Option<u64> {
        let Arrays { l1, l2, .. } = &mut self.side.lines;
        let in_l1 = l1.lookup(line.0, false).is_some();
        let cached = l2.lookup(line.0, false)?;
        shadow.check(line, cached.permits(write)?);
        if write {
            *cached = Cached::Modified(shadow.store(line));
        }
        if in_l1 {
            return Some(self.l1_cycles);
        }
        l1.install(line.0, (), false);
        Some(self.l2_cycles)
    }
}

/// An access that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Who asked.
    pub agent: u8,
    /// The number the asker gave it.
    pub token: u64,
    /// Cycle in which the data are there.
    pub at: u64,
}

/// What a core's accesses find and do at cycle `now`.
pub(super) struct Seen<'a> {
    pub(super) agent: u8,
    pub(super) now: u64,
    pub(super) shadow: &'a mut Shadow,
    pub(super) completed: &'a mut Vec<Completed>,
}

impl Observer<u64, u64> for Seen<'_> {
    fn given(&mut self, line: LineAddr, value: u64, _write: bool) {
        self.shadow.check(line, value);
    }

    fn store(&mut self, line: LineAddr) -> u64 {
        self.shadow.store(line)
    }

    fn store_once(&mut self) -> u64 {
        self.shadow.next_value()
    }

    fn ended(&mut self, token: u64) {
        self.completed.push(Completed {
            agent: self.agent,
            token,
            at: self.now,
        });
    }
}
