// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conventional paging: second-level TLB, then a page walk.

use super::scheme::{Refill, Scheme};
use crate::mmu::Fill;
use crate::table::entry::{bits, tlb_entry};
use crate::walk::descent::Fault;
use crate::walk::native::Walked;
use crate::walk::port::Port;

struct Paging;

/// Makes the scheme.
pub fn paging() -> Box<dyn Scheme> {
    Box::new(Paging)
}

impl Scheme for Paging {
    fn name(&self) -> &'static str {
        "paging"
    }

    fn is_plain(&self) -> bool {
        true
    }

    fn refill(&mut self, miss: &mut Refill<'_>) -> Result<Fill, Fault> {
        refill(miss)
    }
}

/// Second-level TLB, then a walk.
#[inline(always)]
pub(crate) fn refill<P: Port + ?Sized>(miss: &mut Refill<'_, P>) -> Result<Fill, Fault> {
    if let Some(fill) = miss.probe_l2() {
        return Ok(fill);
    }
    let walked = miss.walk()?;
    Ok(install(miss, &walked))
}

/// Puts a plain leaf into the second level and hands it on to the first.
#[inline(always)]
pub(super) fn install<P: Port + ?Sized>(miss: &mut Refill<'_, P>, walked: &Walked) -> Fill {
    let size = walked.size();
    let entry = tlb_entry(walked.entry, walked.level);
    miss.mmu.l2_install(miss.va, miss.asid, size, entry);
    if miss.mmu.config().prefetch_next {
        prefetch(miss, size.bytes());
    }
    Fill {
        size,
        entry,
        done: walked.done,
    }
}

/// Walks for the next page too, off the critical path, and installs it in the second level only.
#[inline(never)]
fn prefetch<P: Port + ?Sized>(miss: &mut Refill<'_, P>, bytes: u64) {
    let va = miss.va.wrapping_add(bytes);
    if miss.host.is_some() || miss.mmu.l2_page(va, miss.asid).is_some() {
        return;
    }
    let start = miss.port.walk_start(miss.now);
    if let Ok(next) = miss.mmu.walk(miss.space, va, miss.asid, start, miss.port) {
        miss.port.walk_end(start, next.done);
        if next.entry & bits::PERFORATED != 0 {
            // Not a plain page: it is for the scheme to look up when it is asked for.
            return;
        }
        miss.mmu.l2_install(
            va,
            miss.asid,
            next.size(),
            tlb_entry(next.entry, next.level),
        );
    }
}
