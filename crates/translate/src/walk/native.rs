// SPDX-License-Identifier: MIT OR Apache-2.0
//! The walk of a machine that is not virtualised.

use super::cache::WalkCache;
use super::descent::{Fault, Reached, descend};
use super::port::Port;
use crate::stats::TranslationStats;
use crate::table::entry::PageSize;
use crate::table::page_table::PageTable;

/// A leaf as the walker found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walked {
    /// The page-table entry, with the accessed bit as it was before the walk.
    pub entry: u64,
    /// Its level (1, 2 or 3).
    pub level: u8,
    /// The node it stands in.
    pub node: u32,
    /// References taken.
    pub refs: u64,
    /// When the last one was answered.
    pub done: u64,
}

impl Walked {
    /// Page size of the leaf.
    #[inline(always)]
    pub fn size(&self) -> PageSize {
        PageSize::ALL[self.level as usize - 1]
    }
}

/// Walks a page table from the deepest page-walk-cache hit down to its leaf, every reference
/// through `port`; sets accessed bits. `start` is when the page-walk cache has answered.
///
/// # Errors
/// If the walk ends at an entry that is not present.
#[inline(always)]
pub(crate) fn walk<P: Port + ?Sized>(
    table: &mut PageTable,
    pwc: &mut WalkCache,
    stats: &mut TranslationStats,
    (va, asid): (u64, u16),
    start: u64,
    port: &mut P,
) -> Result<Walked, Fault> {
    if !table.is_canonical(va) {
        return Err(Fault::NotPresent);
    }
    let mut time = start;
    let cached = pwc.deepest(va, asid, 2);
    stats.pwc_hits[cached.map_or(0, |(level, _)| level as usize)] += 1;
    let mut trajectory = 0u64;
    let mut refs = 0;
    let Reached { entry, level, node } =
        descend(table, pwc, (va, asid), cached, 0, |pa, level| {
            let (answered, hit) = port.read(pa, time);
            debug_assert!(answered >= time, "memory answered before it was asked");
            time = answered;
            trajectory = trajectory << 3 | hit as u64;
            stats.refs_by_level[level as usize] += 1;
            stats.refs_at[level as usize][hit as usize] += 1;
            refs += 1;
            Ok(())
        })?;
    debug_assert!((1..=3).contains(&level), "a leaf at level {level}");
    debug_assert!(refs <= u64::from(table.levels()), "{refs} references");
    stats.trajectory(trajectory);
    stats.longest_walk_refs = stats.longest_walk_refs.max(refs);
    Ok(Walked {
        entry,
        level,
        node,
        refs,
        done: time,
    })
}
