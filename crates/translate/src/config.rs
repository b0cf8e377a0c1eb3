// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of one core's translation hardware.

use crate::error::ConfigError;
use crate::table::entry::PageSize;
use crate::tlb::array::TlbArray;
use crate::tlb::geometry::Geometry;
use crate::walk::cache::PwcKind;
use serde::{Deserialize, Serialize};

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
    /// Cycles that the walker itself needs for each reference, beside those of the cache that
    /// answers.
    #[serde(default)]
    pub reference_cycles: u32,
    /// Page-walk caches.
    pub pwc: PwcKind,
    /// Page-walk caches of the host of a virtual machine; as `pwc` where nothing is said.
    #[serde(default)]
    pub host_pwc: Option<PwcKind>,
    /// Cycles to look up the host's page-walk caches; as `pwc_cycles` where nothing is said.
    #[serde(default)]
    pub host_pwc_cycles: Option<u32>,
    /// Cache for the walker's own guest-physical to host-physical translations (virtualised).
    pub nested_tlb: Option<Geometry>,
    /// Cycles to look up the nested TLB; the host's page-walk caches take theirs after it.
    #[serde(default = "one")]
    pub nested_cycles: u32,
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

fn one() -> u32 {
    1
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
        for (level, arrays) in [("l1d", &self.l1d), ("l1i", &self.l1i), ("l2", &self.l2)] {
            if let Some((number, page, why)) = TlbArray::wrong_pieces(arrays) {
                let place = format!("{level}.{number}.pieces.{}", page.name());
                return Err(ConfigError::Invalid(format!("{place}: {why}")));
            }
        }
        self.pwc.check("page-walk cache")?;
        self.host_pwc().check("page-walk cache of the host")
    }

    /// The page-walk caches of a host.
    pub fn host_pwc(&self) -> &PwcKind {
        self.host_pwc.as_ref().unwrap_or(&self.pwc)
    }

    /// Cycles to look up the page-walk caches of a host.
    pub fn host_pwc_cycles(&self) -> u32 {
        self.host_pwc_cycles.unwrap_or(self.pwc_cycles)
    }
}
