// SPDX-License-Identifier: MIT OR Apache-2.0
//! Coalesced TLB entries (CoLT, MICRO 2012), in the second level: the walker has the 64-byte line
//! of eight page-table entries in hand, and those around the missing page that continue its frame
//! numbers with equal rights share one TLB entry. Several runs of one line have an entry each, in
//! the same set: one tag, other valid bits (there §4.1).

use super::paging::install;
use super::scheme::{Refill, Scheme};
use crate::mmu::Fill;
use crate::table::entry::{PageSize, bits, tlb_entry};
use crate::tlb::key::{index_of, kind};
use crate::walk::descent::Fault;

struct Colt;

/// Makes the scheme.
pub fn colt() -> Box<dyn Scheme> {
    Box::new(Colt)
}

/// Pages one entry can cover: those of one line of page-table entries.
const GROUP_SHIFT: u32 = 15;
/// The members of a group, one bit a page, above the frame number.
const MEMBERS_SHIFT: u32 = bits::FILTER_SHIFT;

impl Scheme for Colt {
    fn name(&self) -> &'static str {
        "colt"
    }

    fn refill(&mut self, miss: &mut Refill<'_>) -> Result<Fill, Fault> {
        if let Some(fill) = miss.probe_l2() {
            return Ok(fill);
        }
        let group = index_of(miss.va, GROUP_SHIFT);
        let page = miss.va >> 12 & 7;
        let asid = miss.asid;
        let l2 = miss.mmu.l2_array(PageSize::K4);
        let holds = |value: u64| value >> MEMBERS_SHIFT >> page & 1 != 0;
        if let Some(value) = l2.and_then(|l2| l2.get_run(group, page as u8, asid, holds)) {
            miss.mmu.stats.l2_hits += 1;
            miss.mmu.stats.scheme_hits += 1;
            let entry = (value & !(0xff << MEMBERS_SHIFT)).wrapping_add(page << 12);
            return Ok(Fill {
                size: PageSize::K4,
                entry,
                done: miss.now,
            });
        }
        let walked = miss.walk()?;
        if walked.level != 1 || miss.host.is_some() {
            return Ok(install(miss, &walked));
        }
        let entry = tlb_entry(walked.entry, 1);
        let line = miss.space.table.line(walked.node, miss.va, 1);
        let members = run_around(line, page as usize);
        if members.count_ones() < 2 || entry & bits::FRAME < page << 12 {
            return Ok(install(miss, &walked));
        }
        // The entry holds what page 0 of the group would map to.
        let value = entry.wrapping_sub(page << 12) | u64::from(members) << MEMBERS_SHIFT;
        if let Some(l2) = miss.mmu.l2_array(PageSize::K4) {
            let first = members.trailing_zeros() as u8;
            l2.put(kind::COALESCED + first, group, asid, value);
        }
        let counters = &mut miss.mmu.stats.scheme;
        counters.add("entries_coalesced", 1);
        counters.add("pages_coalesced", u64::from(members.count_ones()));
        Ok(Fill {
            size: PageSize::K4,
            entry,
            done: walked.done,
        })
    }
}

/// The pages around `page` whose entries continue its own: consecutive frames, equal rights.
fn run_around(line: &[u64], page: usize) -> u8 {
    let compare = bits::PRESENT | bits::RIGHTS;
    let fits = |other: usize| {
        let expected = (line[page] & bits::FRAME)
            .wrapping_add((other as u64) << 12)
            .wrapping_sub((page as u64) << 12);
        line[other] & bits::FRAME == expected && (line[other] ^ line[page]) & compare == 0
    };
    let first = (0..page)
        .rev()
        .take_while(|&p| fits(p))
        .last()
        .unwrap_or(page);
    let last = (page + 1..8)
        .take_while(|&p| fits(p))
        .last()
        .unwrap_or(page);
    (first..=last).fold(0, |members, p| members | 1 << p)
}
