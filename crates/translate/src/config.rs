// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of one core's translation hardware.

use crate::assoc::{Assoc, Geometry};
use crate::error::ConfigError;
use crate::pagetable::PageSize;
use serde::{Deserialize, Serialize};

/// One TLB array and the page sizes it holds; a size in no array of a level is not cached there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlbArray {
    /// Page sizes that share the array, each indexed by its own page number.
    pub sizes: Vec<PageSize>,
    /// Shape.
    pub geometry: Geometry,
}

impl TlbArray {
    /// An array for the given sizes.
    pub fn new(sizes: &[PageSize], geometry: Geometry) -> Self {
        TlbArray {
            sizes: sizes.to_vec(),
            geometry,
        }
    }
}

/// Page-walk caches: what they cache are entries above the leaves, by the address bits that lead
/// to them; a hit at level n starts the walk in a node of level n - 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PwcKind {
    /// One array per level, from level 2 (PDE) upwards, as Intel describes its
    /// paging-structure caches.
    PerLevel(Vec<Geometry>),
    /// One array for all levels (AMD's organisation, with virtual tags).
    Unified(Geometry),
    /// None.
    Absent,
}

/// The translation hardware of a core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MmuConfig {
    /// Page-table levels, 4 or 5.
    pub levels: u8,
    /// First-level data TLB arrays.
    pub l1d: Vec<TlbArray>,
    /// First-level instruction TLB arrays.
    pub l1i: Vec<TlbArray>,
    /// Second-level arrays, for data and instructions.
    pub l2: Vec<TlbArray>,
    /// Cycles from an L1 miss to the result of the second level.
    pub l2_cycles: u32,
    /// Cycles to look up the page-walk caches.
    pub pwc_cycles: u32,
    /// Page-walk caches.
    pub pwc: PwcKind,
    /// Cache for the walker's own guest-physical to host-physical translations (virtualised).
    pub nested_tlb: Option<Geometry>,
    /// Walks that can be under way at once.
    pub walkers: u32,
    /// Whether entries carry an address-space identifier (PCID); without it a switch flushes.
    pub pcid: bool,
    /// Fetch the translation of the next page after a second-level miss.
    #[serde(default)]
    pub prefetch_next: bool,
    /// Cycles of one INVLPG instruction (250 in Contiguitas, section 4).
    pub invlpg_cycles: u32,
    /// Cycles to flush everything.
    pub flush_cycles: u32,
    /// Cycles until one remote core has acknowledged a shootdown, sent one after another.
    pub ipi_cycles_per_core: u32,
}

/// Above this many pages Linux flushes everything instead (`tlb_single_page_flush_ceiling`).
const FLUSH_CEILING_PAGES: u64 = 33;

impl MmuConfig {
    /// Cycles of a TLB shootdown of `pages` pages that `remote_cores` other cores may hold: the
    /// local invalidation, then one interrupt after another until all have acknowledged.
    pub fn shootdown_cycles(&self, pages: u64, remote_cores: u64) -> u64 {
        let local = if self.flushes(pages) {
            u64::from(self.flush_cycles)
        } else {
            pages * u64::from(self.invlpg_cycles)
        };
        local + remote_cores * u64::from(self.ipi_cycles_per_core)
    }

    /// Whether an invalidation of so many pages flushes everything instead.
    pub fn flushes(&self, pages: u64) -> bool {
        pages > FLUSH_CEILING_PAGES
    }

    /// Checks every array.
    ///
    /// # Errors
    /// If an array cannot be built, a list is empty or the levels are neither 4 nor 5.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.levels != 4 && self.levels != 5 {
            return Err(ConfigError::Invalid(format!(
                "page tables have 4 or 5 levels, not {}",
                self.levels
            )));
        }
        if self.walkers == 0 {
            return Err(ConfigError::Invalid(
                "a core needs at least one page walker".into(),
            ));
        }
        for (what, arrays) in [("L1 D-TLB", &self.l1d), ("L1 I-TLB", &self.l1i)] {
            if !arrays.iter().any(|a| a.sizes.contains(&PageSize::K4)) {
                return Err(ConfigError::Invalid(format!(
                    "the {what} holds no 4 KB pages"
                )));
            }
        }
        for array in self.l1d.iter().chain(&self.l1i).chain(&self.l2) {
            array.geometry.check("a TLB array")?;
        }
        if let PwcKind::PerLevel(levels) = &self.pwc {
            for geometry in levels {
                geometry.check("a page-walk cache")?;
            }
        }
        if let PwcKind::Unified(geometry) = &self.pwc {
            geometry.check("the page-walk cache")?;
        }
        Ok(())
    }
}

/// The page-walk caches at work.
#[derive(Clone, Debug)]
pub(crate) struct Pwc {
    arrays: Vec<Assoc>,
    unified: bool,
    levels: u8,
}

impl Pwc {
    pub(crate) fn new(kind: &PwcKind, levels: u8) -> Result<Self, ConfigError> {
        let (arrays, unified) = match kind {
            PwcKind::Absent => (Vec::new(), false),
            PwcKind::Unified(geometry) => (vec![Assoc::new(*geometry, "page-walk cache")?], true),
            PwcKind::PerLevel(list) => {
                let arrays = list.iter().take(levels as usize - 1);
                let arrays = arrays.map(|g| Assoc::new(*g, "page-walk cache"));
                (arrays.collect::<Result<_, _>>()?, false)
            }
        };
        Ok(Pwc {
            arrays,
            unified,
            levels,
        })
    }

    #[inline(always)]
    fn array(&mut self, level: u8) -> Option<&mut Assoc> {
        let at = if self.unified { 0 } else { level as usize - 2 };
        self.arrays.get_mut(at)
    }

    /// The child node behind the deepest cached entry for `va` of level `lowest` or above, and
    /// that entry's level.
    #[inline(always)]
    pub(crate) fn deepest(&mut self, va: u64, asid: u16, lowest: u8) -> Option<(u8, u32)> {
        if self.unified {
            return (lowest..=self.levels).find_map(|level| {
                let child = look_up(self.arrays.first_mut()?, va, asid, level)?;
                Some((level, child))
            });
        }
        let arrays = self.arrays.iter_mut().skip(usize::from(lowest) - 2);
        for (level, array) in (lowest..).zip(arrays) {
            if let Some(child) = look_up(array, va, asid, level) {
                return Some((level, child));
            }
        }
        None
    }

    #[inline(always)]
    pub(crate) fn insert(&mut self, va: u64, asid: u16, level: u8, child: u32) {
        let index = index_of(va, crate::pagetable::level_shift(level));
        if let Some(array) = self.array(level) {
            array.insert_new(index, key_of(index, asid, level), u64::from(child));
        }
    }

    pub(crate) fn flush(&mut self, asid: Option<u16>) {
        for array in &mut self.arrays {
            array.retain(|key, _| asid.is_some_and(|asid| asid_of(key) != asid));
        }
    }
}

/// The child node behind the entry for `va` of a level.
#[inline(always)]
fn look_up(array: &mut Assoc, va: u64, asid: u16, level: u8) -> Option<u32> {
    let index = index_of(va, crate::pagetable::level_shift(level));
    let (_, child) = array.lookup(index, key_of(index, asid, level))?;
    Some(child as u32)
}

/// Page number of `va` for pages of `1 << shift` bytes, in the 57 bits an address can have.
#[inline(always)]
pub(crate) fn index_of(va: u64, shift: u32) -> u64 {
    (va & ((1 << 57) - 1)) >> shift
}

/// A key of any of the arrays: number, address space, and what kind of entry it is.
#[inline(always)]
pub(crate) fn key_of(index: u64, asid: u16, kind: u8) -> u64 {
    index << 16 | u64::from(asid) << 4 | u64::from(kind)
}

#[inline]
pub(crate) fn asid_of(key: u64) -> u16 {
    (key >> 4 & 0xfff) as u16
}
