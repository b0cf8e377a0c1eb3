// SPDX-License-Identifier: MIT OR Apache-2.0
//! Redundant memory mappings (RMM, ISCA 2015): beside the page table the system keeps a table of
//! ranges, each contiguous in virtual and physical memory; a small fully associative range TLB is
//! asked together with the second-level TLB and fills the first level with 4 KB entries.

use super::paging::install;
use super::scheme::{Refill, Scheme};
use crate::mmu::Fill;
use crate::os::space::{Inval, Space};
use crate::table::entry::{PageSize, bits};
use crate::walk::descent::Fault;

/// Entries of the range TLB in the paper.
pub(super) const RANGES: u64 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    start: u64,
    end: u64,
    /// Physical minus virtual address, wrapping.
    offset: u64,
    rights: u64,
    asid: u16,
}

struct Rmm {
    /// Entries of the range TLB.
    entries: usize,
    /// Most recently used first.
    tlb: Vec<Range>,
    /// The system's range table: sorted by start, rebuilt when the address space has changed.
    table: Vec<Range>,
    built_for: Option<(u16, u64)>,
}

/// Makes the scheme with a range TLB of so many entries.
pub fn rmm(entries: u64) -> Box<dyn Scheme> {
    Box::new(Rmm {
        entries: entries as usize,
        tlb: Vec::new(),
        table: Vec::new(),
        built_for: None,
    })
}

impl Rmm {
    fn find_in_table(&mut self, space: &Space, asid: u16, va: u64) -> Option<Range> {
        let version = (asid, space.generation);
        if self.built_for != Some(version) {
            self.table = ranges_of(space, asid);
            self.built_for = Some(version);
        }
        let at = self.table.partition_point(|range| range.end <= va);
        self.table
            .get(at)
            .copied()
            .filter(|range| range.start <= va)
    }
}

/// Maximal ranges of a page table, plain pages only.
fn ranges_of(space: &Space, asid: u16) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    space.table.for_each_leaf(|va, leaf| {
        if leaf.entry & bits::PERFORATED != 0 {
            return;
        }
        let bytes = leaf.size.bytes();
        let offset = (leaf.entry & bits::FRAME & !(bytes - 1)).wrapping_sub(va);
        let rights = leaf.entry & bits::RIGHTS;
        match ranges.last_mut() {
            Some(last) if last.end == va && last.offset == offset && last.rights == rights => {
                last.end = last.end.saturating_add(bytes);
            }
            _ => ranges.push(Range {
                start: va,
                // The last page of all ends beyond the largest address.
                end: va.saturating_add(bytes),
                offset,
                rights,
                asid,
            }),
        }
    });
    ranges
}

impl Scheme for Rmm {
    fn name(&self) -> &'static str {
        "rmm"
    }

    fn refill(&mut self, miss: &mut Refill<'_>) -> Result<Fill, Fault> {
        if let Some(fill) = miss.probe_l2() {
            return Ok(fill);
        }
        let (va, asid) = (miss.va, miss.asid);
        let inside = |r: &Range| r.asid == asid && r.start <= va && va < r.end;
        if let Some(at) = self.tlb.iter().position(inside) {
            let range = self.tlb.remove(at);
            self.tlb.insert(0, range);
            miss.mmu.stats.l2_hits += 1;
            miss.mmu.stats.scheme_hits += 1;
            let entry = va.wrapping_add(range.offset) & bits::FRAME | range.rights;
            return Ok(Fill {
                size: PageSize::K4,
                entry,
                done: miss.now,
            });
        }
        let walked = miss.walk()?;
        if miss.host.is_none()
            && let Some(range) = self.find_in_table(miss.space, asid, va)
        {
            // The range-table walk goes on in the background of the page walk (section 4.3).
            self.tlb.truncate(self.entries - 1);
            self.tlb.insert(0, range);
            miss.mmu.stats.scheme.add("ranges_walked", 1);
        }
        Ok(install(miss, &walked))
    }

    fn invalidate(&mut self, inval: &Inval, asid: u16) {
        match *inval {
            Inval::Page { va, .. } | Inval::Holes { va } => {
                self.tlb
                    .retain(|r| r.asid != asid || va < r.start || va >= r.end);
            }
            Inval::Space | Inval::Segment => self.tlb.retain(|r| r.asid != asid),
        }
    }
}
