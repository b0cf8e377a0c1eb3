// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way down a page table, the same for every walker: native, guest, host, and to shadow nodes.

use super::cache::WalkCache;
use crate::table::entry::bits;
use crate::table::page_table::{PageTable, ROOT};

/// Why an access cannot be translated as things stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is mapped.
    NotPresent,
    /// A write to a read-only page, or a fetch from data.
    Protection,
}

/// Where a descent ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reached {
    /// The entry; 0 if the descent stopped above a node.
    pub(crate) entry: u64,
    /// Level of the entry, or of the node above which the descent stopped.
    pub(crate) level: u8,
    /// The node it stands in.
    pub(crate) node: u32,
}

/// Descends to the leaf for `va`, or stops above the node of level `stop` (0: never). `cached` is
/// the deepest hit in the page-walk cache, whose child the descent starts in; entries passed on
/// the way go into `pwc`. `read` is called with physical address and level before an entry is
/// looked at. Every entry used gets its accessed bit (Intel's manual, volume 3, 5.8); of a
/// perforated one it is software's.
#[inline(always)]
pub(crate) fn descend(
    table: &mut PageTable,
    pwc: &mut WalkCache,
    (va, asid): (u64, u16),
    cached: Option<(u8, u32)>,
    stop: u8,
    mut read: impl FnMut(u64, u8) -> Result<(), Fault>,
) -> Result<Reached, Fault> {
    let (mut level, mut node) = match cached {
        Some((level, child)) => (level - 1, child),
        None => (table.levels(), ROOT),
    };
    while level != stop {
        read(table.entry_pa(node, va, level), level)?;
        let entry = table.entry(node, va, level);
        if entry & bits::PRESENT == 0 {
            return Err(Fault::NotPresent);
        }
        if entry & (bits::ACCESSED | bits::PERFORATED) == 0 {
            table.set_bits(node, va, level, bits::ACCESSED);
        }
        if level == 1 || entry & bits::LARGE != 0 {
            return Ok(Reached { entry, level, node });
        }
        let child = PageTable::child(entry);
        pwc.insert(va, asid, level, child);
        node = child;
        level -= 1;
    }
    Ok(Reached {
        entry: 0,
        level,
        node,
    })
}
