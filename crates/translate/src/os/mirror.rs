// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recorded guest at work: an engine whose page tables mirror those of a real x86-64 system, and
//! the events by which that system changes what its hardware knows.
//!
//! Linux maps the kernel half of addresses alike under every root and marks its pages global. So
//! that half is one space here, whose root frame follows the root loaded, and its entries carry
//! the identifier of global pages: what one program's system calls bring in serves the next one's.
//! Where roots differ in that half, the paths recorded after each load say so, and replace what
//! the other root had.

use super::frames::NoFrames;
use super::roots::{KERNEL, RootSpace, Roots};
use super::space::{GLOBAL_ASID, Inval, Space};
use crate::config::MmuConfig;
use crate::engine::Engine;
use crate::error::{ConfigError, MapError};
use crate::schemes::scheme::Scheme;
use crate::table::entry::{PageSize, bits};
use crate::table::page_table::{Dropped, Mirrored};

/// The root frame of the kernel half before the first load: none that an address can name.
const NO_ROOT: u64 = u64::MAX >> 12;

impl Engine {
    /// An engine that mirrors a guest: no frames to hand out, no ranges that fault in, and no
    /// address space until [`load_root`](Self::load_root). `units_per_cycle` as for
    /// [`Engine::new`]. Every access must follow a [`mirror`](Self::mirror) of its page since the
    /// last event that made hardware forget it; one that no path allows ends as `BadAccess`.
    ///
    /// # Errors
    /// If the hardware cannot be built.
    pub fn mirrored(
        config: &MmuConfig,
        scheme: Box<dyn Scheme>,
        units_per_cycle: u64,
    ) -> Result<Self, ConfigError> {
        // Checked first: a table of other than 4 or 5 levels cannot be made.
        config.check()?;
        let kernel = Space::mirrored(GLOBAL_ASID, config.levels, NO_ROOT);
        let frames = Box::new(NoFrames);
        let mut engine = Engine::with_space(config, scheme, frames, units_per_cycle, kernel)?;
        engine.global_kernel = true;
        engine.roots = Some(Roots::new());
        Ok(engine)
    }

    fn roots(&mut self) -> &mut Roots {
        let roots = self.roots.as_mut();
        roots.expect("only an engine made by `mirrored` follows a guest's page tables")
    }

    /// CR3 is loaded with `root_frame` (bits 12 to 51 of its value, as a frame number): that root's
    /// space becomes the current one, new if the root is. There are 4094 of them; then the one
    /// loaded least recently loses its tables.
    ///
    /// As on hardware without PCID, TLB entries that are not global and the page-walk caches are
    /// forgotten. With `pcid` in the configuration, entries of other roots stay, and those of the
    /// root loaded unless it was loaded already: reloading is how such a guest asks for a flush.
    /// The guest does not use PCID, so this answers what would be if it did; entries of the kernel
    /// half that are not global, and its page-walk cache, go all the same.
    pub fn load_root(&mut self, root_frame: u64) {
        let old = self.current;
        let new = match self.roots().load(root_frame) {
            RootSpace::Known(at) => at,
            RootSpace::Added(at) => {
                self.add_root(at, root_frame);
                at
            }
            RootSpace::Reused(at) => {
                self.reuse_space(at, root_frame);
                at
            }
        };
        self.current = new;
        self.spaces[KERNEL].table.set_root_frame(root_frame);
        let (pcid, flush_cycles) = {
            let config = self.mmu.config();
            (config.pcid, config.flush_cycles)
        };
        let (own, keeps_global) = (self.spaces[new].asid, self.global_kernel);
        let reloaded = new == old;
        self.mmu.retain(|asid, entry| match asid {
            GLOBAL_ASID => keeps_global && entry & bits::GLOBAL != 0,
            asid => pcid && !(reloaded && asid == own),
        });
        let forgotten = match (pcid, reloaded) {
            (false, _) => [Some(own), Some(self.spaces[old].asid)],
            (true, true) => [Some(own), None],
            (true, false) => [None, None],
        };
        for asid in forgotten.into_iter().flatten() {
            self.mmu.pwc.flush(Some(asid));
            self.scheme.invalidate(&Inval::Space, asid);
        }
        self.mmu.pwc.flush(Some(GLOBAL_ASID));
        // A scheme's own structures do not say which of their entries are global.
        if std::mem::take(&mut self.used_not_global) || !keeps_global {
            self.scheme.invalidate(&Inval::Space, GLOBAL_ASID);
        }
        if forgotten != [None, None] {
            self.os_cycles += u64::from(flush_cycles);
        }
    }

    fn add_root(&mut self, at: usize, root_frame: u64) {
        debug_assert_eq!(at, self.spaces.len());
        let levels = self.mmu.config().levels;
        self.spaces
            .push(Space::mirrored(at as u16, levels, root_frame));
        self.vmas.push(Vec::new());
    }

    /// Gives a space to another root.
    fn reuse_space(&mut self, at: usize, root_frame: u64) {
        let levels = self.mmu.config().levels;
        let asid = self.spaces[at].asid;
        let generation = self.spaces[at].generation + 1;
        self.spaces[at] = Space::mirrored(asid, levels, root_frame);
        // Data derived from the old tables must not be taken for the new ones'.
        self.spaces[at].generation = generation;
        self.mmu.flush(Some(asid));
        self.scheme.invalidate(&Inval::Space, asid);
    }

    /// INVLPG of `va`: its page leaves the TLBs, whatever its size and global or not, the
    /// page-walk caches forget what they know for the current root, and the mirrored table the
    /// page. An address that is not canonical does nothing.
    pub fn invalidate_page(&mut self, va: u64) {
        let at = self.half(va);
        let space = &mut self.spaces[at];
        assert!(self.roots.is_some(), "an engine made by `mirrored`");
        if !space.table.is_canonical(va) {
            return;
        }
        // What is not in the table is in no TLB either, but for what a scheme has kept.
        let leaf = space.table.find(va);
        let size = leaf.map_or(PageSize::K4, |leaf| leaf.size);
        let inval = Inval::Page { va, size };
        let asid = space.asid;
        if space.table.forget(va) {
            space.generation += 1;
        }
        self.mmu.invalidate(&inval, asid);
        self.scheme.invalidate(&inval, asid);
        for asid in [self.spaces[self.current].asid, GLOBAL_ASID] {
            self.mmu.pwc.flush(Some(asid));
        }
        self.os_cycles += u64::from(self.mmu.config().invlpg_cycles);
    }

    /// Everything is forgotten, global pages too: CR4.PGE or CR0.PG has changed.
    pub fn flush_all(&mut self) {
        self.mmu.flush(None);
        for space in &self.spaces {
            self.scheme.invalidate(&Inval::Space, space.asid);
        }
        self.used_not_global = false;
        self.os_cycles += u64::from(self.mmu.config().flush_cycles);
    }

    /// Takes over the way to `va` through the guest's page tables, as
    /// [`PageTable::mirror`](crate::PageTable::mirror) describes it; its root is the one loaded.
    /// Hardware forgets what contradicts it. That is no event of the machine, and counts nowhere:
    /// a guest that changes a page in use flushes it itself.
    ///
    /// # Errors
    /// As [`PageTable::mirror`](crate::PageTable::mirror); nothing has changed then.
    pub fn mirror(&mut self, va: u64, path: &[(u64, u64)]) -> Result<Mirrored, MapError> {
        let at = self.half(va);
        let mut dropped = Dropped::default();
        let found = self.spaces[at].mirror_into(va, path, &mut dropped)?;
        self.drop_from_hardware(at, va, &dropped);
        Ok(found)
    }

    /// Takes over the neighbours of `va` in the 64-byte line of its 4 KB entry, for schemes that
    /// look at the whole line; see [`PageTable::mirror_line`](crate::PageTable::mirror_line).
    ///
    /// # Errors
    /// If nothing is mapped at `va`: [`mirror`](Self::mirror) comes first.
    pub fn mirror_line(&mut self, va: u64, entries: &[u64; 8]) -> Result<bool, MapError> {
        let at = self.half(va);
        let mut dropped = Dropped::default();
        let changed = self.spaces[at].mirror_line_into(va, entries, &mut dropped)?;
        self.drop_from_hardware(at, va, &dropped);
        Ok(changed)
    }

    fn drop_from_hardware(&mut self, at: usize, va: u64, dropped: &Dropped) {
        let asid = self.spaces[at].asid;
        if dropped.more {
            self.mmu.flush(Some(asid));
            self.scheme.invalidate(&Inval::Space, asid);
            return;
        }
        for &(va, size) in &dropped.leaves {
            self.mmu.forget_page(va, size, asid);
            self.scheme.invalidate(&Inval::Page { va, size }, asid);
        }
        if let Some(level) = dropped.under {
            self.mmu.pwc.drop_under(va, level, asid);
        }
    }
}
