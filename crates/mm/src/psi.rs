// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pressure stall accounting, split by the kind of memory that was missing (Contiguitas §3.2).

use ample_pfn::MigrateType;

/// What a task waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// Kernel memory.
    Unmovable = 0,
    /// User memory and page cache.
    Movable = 1,
}

impl Stall {
    /// Which pressure a wait for pages of this type belongs to.
    pub(crate) fn of(mt: MigrateType) -> Stall {
        match mt {
            MigrateType::Movable => Stall::Movable,
            _ => Stall::Unmovable,
        }
    }
}

/// Cost of direct reclaim, per page looked at, in ns.
pub(crate) const RECLAIM_NS: u64 = 500;
/// Cost of migrating one 4 KB page in software (copy, unmap, shootdown), in ns.
pub(crate) const MIGRATE_NS: u64 = 4000;
/// Cost of scanning one pageblock for compaction, in ns.
pub(crate) const SCAN_BLOCK_NS: u64 = 3000;
/// Cost of reading one evicted page back, in ns.
pub(crate) const REFAULT_NS: u64 = 100_000;

/// Stall time and its running averages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Psi {
    pending_ns: [u64; 2],
    /// All stall time so far, by [`Stall`], in ns.
    pub total_ns: [u64; 2],
    average_bp: [f64; 2],
}

impl Psi {
    /// Books stall time.
    pub fn stall(&mut self, kind: Stall, ns: u64) {
        self.pending_ns[kind as usize] += ns;
        self.total_ns[kind as usize] += ns;
    }

    /// Closes an interval of `elapsed_ns`: ten-second decaying averages as in
    /// `kernel/sched/psi.c`.
    pub fn update(&mut self, elapsed_ns: u64) {
        let keep = (-(elapsed_ns as f64) / 10e9).exp();
        for kind in 0..2 {
            let share = (self.pending_ns[kind] as f64 / elapsed_ns as f64).min(1.0);
            let average = &mut self.average_bp[kind];
            *average = *average * keep + 1e4 * share * (1.0 - keep);
            self.pending_ns[kind] = 0;
        }
    }

    /// The ten-second average in basis points of time; of both kinds together if `merged`.
    pub fn pressure_bp(&self, kind: Stall, merged: bool) -> u32 {
        let [unmovable, movable] = self.average_bp;
        let value = match (merged, kind) {
            (true, _) => (unmovable + movable).min(1e4),
            (false, Stall::Unmovable) => unmovable,
            (false, Stall::Movable) => movable,
        };
        value.round() as u32
    }
}
