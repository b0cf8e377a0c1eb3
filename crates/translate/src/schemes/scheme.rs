// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface of a translation scheme.

use crate::mmu::{Fill, Mmu};
use crate::os::space::{Inval, Space};
use crate::table::entry::bits;
use crate::walk::descent::Fault;
use crate::walk::native::Walked;
use crate::walk::nested::Host;
use crate::walk::port::Port;

/// Everything a scheme may use to answer one L1 TLB miss.
///
/// Schemes see it with the port behind a vtable. The engine makes it with the concrete port for
/// plain paging, so that the commonest path is one piece of straight code.
pub struct Refill<'a, P: Port + ?Sized = dyn Port + 'a> {
    /// The core's TLBs, page-walk caches and counters.
    pub mmu: &'a mut Mmu,
    /// The address space of the access.
    pub space: &'a mut Space,
    /// Guest-physical to host-physical translation; None: not virtualised.
    pub host: Option<&'a mut Host>,
    /// The way to memory.
    pub port: &'a mut P,
    /// Address that missed.
    pub va: u64,
    /// Address-space identifier its entries carry.
    pub asid: u16,
    /// An instruction fetch.
    pub fetch: bool,
    /// When the L1 TLB missed.
    pub now: u64,
}

impl<P: Port + ?Sized> Refill<'_, P> {
    /// Asks the second-level TLB for a plain page and counts a hit. The look-up takes its time
    /// either way: `now` moves on.
    #[inline(always)]
    pub fn probe_l2(&mut self) -> Option<Fill> {
        self.now += self.mmu.l2_time;
        let (size, entry) = self.mmu.l2_page(self.va, self.asid)?;
        self.mmu.stats.l2_hits += 1;
        Some(Fill {
            size,
            entry,
            done: self.now,
        })
    }

    /// Counts a page walk and waits for a walker; returns its start.
    #[inline(always)]
    pub fn begin_walk(&mut self) -> u64 {
        if self.fetch {
            self.mmu.stats.walks_fetch += 1;
        } else {
            self.mmu.stats.walks_data += 1;
            self.mmu.stats.walks_watched += u64::from(self.mmu.watched.contains(&self.va));
        }
        self.port.walk_start(self.now)
    }

    /// Ends the walk that began at `start`.
    #[inline(always)]
    pub fn end_walk(&mut self, start: u64, end: u64) {
        self.mmu.stats.walks_ended += 1;
        self.mmu.stats.walk_cycles += end - start;
        if self.fetch {
            self.mmu.stats.walk_cycles_fetch += end - start;
        } else if self.mmu.watched.contains(&self.va) {
            self.mmu.stats.walk_cycles_watched += end - start;
        }
        self.port.walk_end(start, end);
        self.now = end;
    }

    /// A whole walk of the page table, one- or two-dimensional: to the leaf, whatever it is. One
    /// that faults counts as begun and takes no time.
    ///
    /// # Errors
    /// If nothing is mapped.
    #[inline(always)]
    pub fn walk(&mut self) -> Result<Walked, Fault> {
        let start = self.begin_walk();
        let walked = match self.host.as_deref_mut() {
            None => self
                .mmu
                .walk(self.space, self.va, self.asid, start, self.port),
            Some(host) => host.walk(self.mmu, self.space, self.va, self.asid, start, self.port),
        };
        match &walked {
            Ok(walked) => self.end_walk(start, walked.done),
            Err(_) => self.port.walk_end(start, start),
        }
        walked
    }
}

/// One way to translate addresses behind the L1 TLBs.
///
/// The engine looks in the L1 TLB first (after [`bypass`](Self::bypass), where a scheme has one),
/// calls [`refill`](Self::refill) on a miss and installs what it returns. A scheme must return
/// exactly what [`Space::lookup`] says; property tests hold every registered one to that.
pub trait Scheme: Send {
    /// The name in the registry.
    fn name(&self) -> &'static str;

    /// Whether [`bypass`](Self::bypass) is to be asked before the TLBs.
    fn has_bypass(&self) -> bool {
        false
    }

    /// Translates beside the TLBs, in no extra time (a direct segment).
    fn bypass(&mut self, space: &Space, host: Option<&Host>, va: u64) -> Option<u64> {
        let _ = (space, host, va);
        None
    }

    /// Whether [`refill`](Self::refill) is conventional paging and nothing else; the engine then
    /// runs its own inlined copy of it.
    fn is_plain(&self) -> bool {
        false
    }

    /// Answers an L1 TLB miss.
    ///
    /// # Errors
    /// If nothing is mapped at the address.
    fn refill(&mut self, miss: &mut Refill<'_>) -> Result<Fill, Fault>;

    /// Invalidates structures of the scheme's own; those of [`Mmu`] have been seen to.
    fn invalidate(&mut self, inval: &Inval, asid: u16) {
        let _ = (inval, asid);
    }
}

/// True if the rights in `entry` allow the access.
#[inline(always)]
pub fn allows(entry: u64, write: bool, fetch: bool) -> bool {
    !(write && entry & bits::WRITE == 0 || fetch && entry & bits::NO_EXECUTE != 0)
}
