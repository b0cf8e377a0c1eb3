// SPDX-License-Identifier: MIT OR Apache-2.0
//! A last-level cache above memory: the one place from which evicted lines are written back.

use crate::{BadParams, Cache, CacheConfig, Victim};

/// What lies below the last level: it takes lines that are written back.
pub trait MainMemory {
    /// Writes a line back; nobody waits for it.
    fn write(&mut self, line: u64, now: u64);
}

/// A last-level cache, or one slice of it, with a value a line.
#[derive(Clone, Debug)]
pub struct LastLevel<T> {
    /// Tags, order of use, dirty bits, values.
    pub cache: Cache<T>,
}

impl<T: Copy + Default> LastLevel<T> {
    /// An empty cache.
    ///
    /// # Errors
    /// If the sizes do not make whole sets; `field` names it.
    pub fn new(config: &CacheConfig, field: &'static str) -> Result<Self, BadParams> {
        let cache = Cache::new(config, field)?;
        Ok(Self { cache })
    }

    /// Puts in a line that is not held. What leaves for it goes to memory at `now` when dirty.
    #[inline]
    pub fn install(
        &mut self,
        dram: &mut impl MainMemory,
        line: u64,
        (value, dirty): (T, bool),
        now: u64,
    ) {
        let victim = self.cache.install(line, value, dirty);
        Self::evicted(dram, victim, now);
    }

    /// Takes in a line from the level above that is newer than memory.
    #[inline]
    pub fn write_back(&mut self, dram: &mut impl MainMemory, line: u64, now: u64) {
        let victim = self.cache.write_back(line);
        Self::evicted(dram, victim, now);
    }

    #[inline]
    fn evicted(dram: &mut impl MainMemory, victim: Option<Victim<T>>, now: u64) {
        if let Some(victim) = victim.filter(|victim| victim.dirty) {
            dram.write(victim.line, now);
        }
    }
}
