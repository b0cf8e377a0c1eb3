// SPDX-License-Identifier: MIT OR Apache-2.0
//! How pages come into an address space: by a fault, by a write to a shared page, or at once.

use super::space::USER_RW;
use crate::engine::{BadAccess, Engine, Intent};
use crate::error::MapError;
use crate::table::entry::{PageSize, bits};
use crate::walk::descent::Fault;

impl Engine {
    /// Answers a page fault, if some range or copy-on-write mapping can; returns the new time.
    #[cold]
    pub(crate) fn fault(
        &mut self,
        va: u64,
        intent: Intent,
        fault: Fault,
        now: u64,
    ) -> Result<u64, BadAccess> {
        self.mmu.stats.faults += 1;
        let bad = BadAccess { va, intent, fault };
        let cycles = match fault {
            Fault::Protection if intent == Intent::Write => self.break_cow(va).ok_or(bad)?,
            Fault::Protection => return Err(bad),
            Fault::NotPresent => self.demand(va).ok_or(bad)?,
        };
        let cycles = u64::from(cycles) + self.sync();
        self.os_cycles += cycles;
        Ok(now + cycles * self.units_per_cycle)
    }

    /// Brings in the page around `va` if it lies in a range that faults in on demand.
    fn demand(&mut self, va: u64) -> Option<u32> {
        let at = self.half(va);
        let vma = *self.vmas[at]
            .iter()
            .find(|v| (v.base..v.end).contains(&va))?;
        let frames = self.frames.as_mut();
        let space = &mut self.spaces[at];
        if let Some(leaf) = space.table.find(va)
            && leaf.entry & bits::PERFORATED != 0
        {
            // A lazily allocated hole (Perforated Pages, section VI).
            let frame = frames.alloc(0)?;
            let punched = space.punch(va & !0xfff, Some((frame, vma.flags)));
            debug_assert!(punched.is_ok(), "the page at {va:#x} is perforated");
            return Some(self.costs.fault_4k_cycles);
        }
        if vma.largest >= PageSize::M2 {
            let base = va & !(PageSize::M2.bytes() - 1);
            if base >= vma.base
                && base + PageSize::M2.bytes() <= vma.end
                && let Some(pfn) = frames.alloc(9)
            {
                if space
                    .map(base, PageSize::M2, pfn, vma.flags, frames)
                    .is_ok()
                {
                    return Some(self.costs.fault_2m_cycles);
                }
                frames.free(pfn, 9);
            }
        }
        let pfn = frames.alloc(0)?;
        let mapped = space.map(va & !0xfff, PageSize::K4, pfn, vma.flags, frames);
        if mapped.is_err() {
            frames.free(pfn, 0);
            return None;
        }
        Some(self.costs.fault_4k_cycles)
    }

    /// Maps `base..base + bytes` at once with pages of `size`, the rest that does not fill one
    /// with smaller ones: the state a long-running program has reached.
    ///
    /// # Errors
    /// If memory runs out or something is in the way.
    pub fn premap(&mut self, base: u64, bytes: u64, size: PageSize) -> Result<(), MapError> {
        self.premap_as(base, bytes, size, USER_RW)
    }

    /// As [`premap`](Self::premap) with the given rights.
    ///
    /// # Errors
    /// As [`premap`](Self::premap).
    pub fn premap_as(
        &mut self,
        base: u64,
        bytes: u64,
        size: PageSize,
        flags: u64,
    ) -> Result<(), MapError> {
        let (space, frames) = self.space_and_frames_of(base);
        let (mut va, mut left) = (base, bytes);
        while left > 0 {
            let mut step = size;
            while step > PageSize::K4 && (!va.is_multiple_of(step.bytes()) || step.bytes() > left) {
                step = PageSize::ALL[step as usize - 1];
            }
            let pfn = frames
                .alloc(step.order())
                .ok_or_else(|| frames.exhausted(step.order()))?;
            if let Err(error) = space.map(va, step, pfn, flags, frames) {
                frames.free(pfn, step.order());
                return Err(error);
            }
            va = va.wrapping_add(step.bytes());
            left = left.saturating_sub(step.bytes());
        }
        Ok(())
    }

    /// Gives a written copy-on-write page a frame of its own; in a 2 MB page it splits first,
    /// unless the page is perforated, where it punches a hole instead. Returns the cycles.
    fn break_cow(&mut self, va: u64) -> Option<u32> {
        let (cow, split) = (self.costs.cow_cycles, self.costs.split_cycles);
        let (space, frames) = self.space_and_frames_of(va);
        let mapping = space.lookup(va)?;
        let leaf = space.table.find(va)?;
        if mapping.flags & bits::COW == 0 || leaf.size == PageSize::G1 {
            return None;
        }
        let page = va & !0xfff;
        let flags = mapping.flags & (bits::RIGHTS | bits::ACCESSED) & !bits::COW | bits::WRITE;
        let frame = frames.alloc(0)?;
        if leaf.entry & bits::PERFORATED != 0 {
            let punched = space.punch(page, Some((frame, flags)));
            debug_assert!(punched.is_ok(), "the page at {va:#x} is perforated");
            return Some(cow);
        }
        let mut cycles = cow;
        if leaf.size == PageSize::M2 {
            if space.split(va, frames).is_err() {
                frames.free(frame, 0);
                return None;
            }
            cycles += split;
        }
        space.unmap(page, false, frames).ok()?;
        space.map(page, PageSize::K4, frame, flags, frames).ok()?;
        Some(cycles)
    }
}
