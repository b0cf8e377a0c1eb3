// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several address spaces of one core, and the kernel half of addresses that they may share.
//!
//! A kernel maps its half alike in every address space, and marks pages of it global: their TLB
//! entries outlive a switch. The half is one space whose entries carry the identifier of global
//! pages, whichever address space is current; those of its pages that are not global go with the
//! next switch.

use super::space::{GLOBAL_ASID, Inval, Space};
use crate::engine::Engine;
use crate::error::MapError;
use crate::table::entry::bits;

impl Engine {
    /// Adds an address space; returns its number.
    ///
    /// # Errors
    /// If there is no frame for its page table.
    pub fn add_space(&mut self) -> Result<usize, MapError> {
        let asid = self.spaces.len() as u16 + 1;
        let levels = self.mmu.config().levels;
        self.spaces
            .push(Space::new(asid, levels, self.frames.as_mut())?);
        self.vmas.push(Vec::new());
        Ok(self.spaces.len() - 1)
    }

    /// Gives all address spaces one kernel half, the addresses with the sign bit set; returns its
    /// number, by which [`switch_to`](Self::switch_to) is not to be called. From then on what is
    /// mapped at such an address is mapped in all of them, and pages with [`bits::GLOBAL`] outlive
    /// a switch ([`global_kernel`](Self::global_kernel)).
    ///
    /// # Errors
    /// If an address space has a page in that half already.
    pub fn share_kernel(&mut self) -> Result<usize, MapError> {
        assert!(!self.has_kernel(), "there is a kernel half already");
        for space in &self.spaces {
            let mut taken = None;
            space.table.for_each_leaf(|va, _| {
                let is_upper = (va as i64) < 0;
                taken = taken.or(is_upper.then_some(va));
            });
            if let Some(va) = taken {
                return Err(MapError::Occupied { va });
            }
        }
        let levels = self.mmu.config().levels;
        let root_frame = self.spaces[self.current].table.root_frame();
        self.spaces.push(Space::kernel(levels, root_frame));
        self.vmas.push(Vec::new());
        self.upper = self.spaces.len() - 1;
        self.global_kernel = true;
        self.mmu.switched();
        Ok(self.upper)
    }

    /// Whether the upper half of addresses is one for all address spaces.
    fn has_kernel(&self) -> bool {
        self.spaces[self.upper].asid == GLOBAL_ASID
    }

    /// Makes another address space current: flushes without PCID, keeps tagged entries with it.
    /// Global pages of a shared kernel half stay either way, and its other pages go. A mirror
    /// changes its space by [`load_root`](Self::load_root) alone.
    pub fn switch_to(&mut self, space: usize) {
        assert!(
            space < self.spaces.len(),
            "there are {} address spaces",
            self.spaces.len()
        );
        assert!(self.roots.is_none(), "a mirror loads roots");
        let is_kernel = self.spaces[space].asid == GLOBAL_ASID;
        assert!(!is_kernel, "the kernel half is part of every space");
        self.sync();
        self.current = space;
        self.os_cycles += u64::from(self.costs.switch_cycles);
        if self.has_kernel() {
            self.forget_kernel();
        } else {
            self.upper = space;
        }
        if self.mmu.config().pcid {
            self.mmu.switched();
            return;
        }
        self.mmu.retain(|asid, _| asid == GLOBAL_ASID);
        self.mmu.pwc.flush(None);
        self.os_cycles += u64::from(self.mmu.config().flush_cycles);
        for space in self.spaces.iter().filter(|s| s.asid != GLOBAL_ASID) {
            self.scheme.invalidate(&Inval::Space, space.asid);
        }
    }

    /// What a switch takes of the kernel half: all but its global pages.
    fn forget_kernel(&mut self) {
        let (keeps, root) = (
            self.global_kernel,
            self.spaces[self.current].table.root_frame(),
        );
        let kernel = &mut self.spaces[self.upper];
        kernel.table.set_root_frame(root);
        self.mmu
            .retain(|asid, entry| asid != GLOBAL_ASID || keeps && entry & bits::GLOBAL != 0);
        self.mmu.pwc.flush(Some(GLOBAL_ASID));
        // A scheme's own structures do not say which of their entries are global.
        if std::mem::take(&mut self.used_not_global) || !keeps {
            self.scheme.invalidate(&Inval::Space, GLOBAL_ASID);
        }
    }
}
