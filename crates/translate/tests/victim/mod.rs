// SPDX-License-Identifier: MIT OR Apache-2.0
//! A victim buffer behind the second-level TLB: the results of the latest page walks.

use ample_translate::*;

struct VictimBuffer {
    /// Most results that are kept.
    capacity: usize,
    /// Base address, address space and translation, the latest first.
    entries: Vec<(u64, u16, Fill)>,
}

/// Makes the scheme with a buffer of so many entries.
pub fn victim(capacity: u64) -> Box<dyn Scheme> {
    Box::new(VictimBuffer {
        capacity: capacity as usize,
        entries: Vec::new(),
    })
}

impl Scheme for VictimBuffer {
    fn name(&self) -> &'static str {
        "victim"
    }

    fn refill(&mut self, miss: &mut Refill<'_>) -> Result<Fill, Fault> {
        // Takes the time of the second level, whether or not it hits.
        if let Some(fill) = miss.probe_l2() {
            return Ok(fill);
        }
        let (va, asid) = (miss.va, miss.asid);
        let base = |size: PageSize| va & !(size.bytes() - 1);
        let found = self
            .entries
            .iter()
            .find(|&&(start, owner, fill)| owner == asid && start == base(fill.size));
        if let Some(&(_, _, fill)) = found {
            miss.mmu.stats.scheme_hits += 1;
            let done = miss.now;
            return Ok(Fill { done, ..fill });
        }
        // Waits for a walker and counts the references.
        let walked = miss.walk()?;
        let fill = Fill {
            size: walked.size(),
            entry: tlb_entry(walked.entry, walked.level),
            done: walked.done,
        };
        miss.mmu.l2_install(va, asid, fill.size, fill.entry);
        if self.entries.len() == self.capacity {
            self.entries.pop();
            miss.mmu.stats.scheme.add("victims_dropped", 1);
        }
        self.entries.insert(0, (base(fill.size), asid, fill));
        Ok(fill)
    }

    fn invalidate(&mut self, _inval: &Inval, asid: u16) {
        // Coarse but correct: forget everything of the address space.
        self.entries.retain(|&(_, owner, _)| owner != asid);
    }
}
