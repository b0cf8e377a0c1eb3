// SPDX-License-Identifier: MIT OR Apache-2.0
//! Translation hardware of machines that exist or stand in a paper. Where a vendor does not
//! publish a number, the value used here is a choice and says so.

use crate::assoc::{Geometry, Replacement};
use crate::config::{MmuConfig, PwcKind, TlbArray};
use crate::error::ConfigError;
use crate::pagetable::PageSize::{G1, K4, M2};

fn common() -> MmuConfig {
    MmuConfig {
        levels: 4,
        l1d: vec![
            TlbArray::new(&[K4], Geometry::new(64, 4)),
            TlbArray::new(&[M2], Geometry::new(32, 4)),
            TlbArray::new(&[G1], Geometry::full(4)),
        ],
        l1i: vec![
            TlbArray::new(&[K4], Geometry::new(128, 8)),
            TlbArray::new(&[M2], Geometry::full(8)),
        ],
        l2: vec![
            TlbArray::new(&[K4, M2], Geometry::new(1536, 12)),
            TlbArray::new(&[G1], Geometry::new(16, 4)),
        ],
        l2_cycles: 7,
        pwc_cycles: 1,
        // Intel does not publish the sizes; 32/4/2 is what the DMT simulator measured and uses.
        pwc: PwcKind::PerLevel(vec![
            Geometry::new(32, 4),
            Geometry::full(4),
            Geometry::full(2),
            Geometry::full(2),
        ]),
        nested_tlb: Some(Geometry::full(32)),
        walkers: 2,
        pcid: true,
        prefetch_next: false,
        invlpg_cycles: 250,
        flush_cycles: 100,
        ipi_cycles_per_core: 1_000,
    }
}

/// Sandy Bridge as in Direct Segments, table 1: no second level for large pages, one walker. The
/// replacement is a choice: tree-PLRU, which reverse engineering reports for the TLBs of Intel's
/// cores of those years (TLB;DR, USENIX Security 2022).
pub fn directseg_sandybridge() -> MmuConfig {
    let plru = |entries, ways| Geometry {
        replacement: Replacement::Plru,
        ..Geometry::new(entries, ways)
    };
    MmuConfig {
        l1d: vec![
            TlbArray::new(&[K4], plru(64, 4)),
            TlbArray::new(&[M2], plru(32, 4)),
            TlbArray::new(&[G1], plru(4, 4)),
        ],
        l1i: vec![
            TlbArray::new(&[K4], plru(128, 4)),
            TlbArray::new(&[M2], plru(8, 8)),
        ],
        l2: vec![TlbArray::new(&[K4], plru(512, 4))],
        walkers: 1,
        ..common()
    }
}

/// Skylake server: second level shared by 4 KB and 2 MB, two walkers.
pub fn skylake() -> MmuConfig {
    common()
}

/// The Skylake-like hardware of the Perforated Pages evaluation.
pub fn perforated_skylake() -> MmuConfig {
    MmuConfig {
        l2_cycles: 9,
        ..common()
    }
}

/// Contiguitas, table 1.
pub fn contiguitas_table1() -> MmuConfig {
    MmuConfig {
        l1d: vec![
            TlbArray::new(&[K4], Geometry::new(64, 4)),
            TlbArray::new(&[M2], Geometry::new(64, 4)),
            TlbArray::new(&[G1], Geometry::full(4)),
        ],
        l2: vec![
            TlbArray::new(&[K4, M2], Geometry::new(1536, 16)),
            TlbArray::new(&[G1], Geometry::full(16)),
        ],
        l2_cycles: 12,
        pwc_cycles: 2,
        pwc: PwcKind::PerLevel(vec![
            Geometry::full(32),
            Geometry::full(32),
            Geometry::full(32),
        ]),
        ..common()
    }
}

/// Sapphire Rapids (Golden Cove): larger arrays, five levels possible, four walkers.
pub fn sapphire_rapids() -> MmuConfig {
    MmuConfig {
        l1d: vec![
            TlbArray::new(&[K4], Geometry::full(96)),
            TlbArray::new(&[M2], Geometry::full(32)),
            TlbArray::new(&[G1], Geometry::full(8)),
        ],
        l1i: vec![
            TlbArray::new(&[K4], Geometry::new(256, 8)),
            TlbArray::new(&[M2], Geometry::new(32, 8)),
        ],
        l2: vec![
            TlbArray::new(&[K4, M2], Geometry::new(2048, 16)),
            TlbArray::new(&[G1], Geometry::new(16, 4)),
        ],
        walkers: 4,
        ..common()
    }
}

/// ChampSim's default core: one page size, five levels, PSCL caches of 32, 8, 4 and 2 entries.
pub fn champsim_default() -> MmuConfig {
    MmuConfig {
        levels: 5,
        l1d: vec![TlbArray::new(&[K4], Geometry::new(64, 4))],
        l1i: vec![TlbArray::new(&[K4], Geometry::new(64, 4))],
        l2: vec![TlbArray::new(&[K4], Geometry::new(1536, 12))],
        l2_cycles: 8,
        pwc: PwcKind::PerLevel(vec![
            Geometry::new(32, 8),
            Geometry::new(8, 4),
            Geometry::new(4, 2),
            Geometry::new(2, 2),
        ]),
        walkers: 5,
        ..common()
    }
}

/// Zen 4 (the machine the project's own measurements ran on): fully associative first level for
/// all sizes, second level of 3072 entries for 4 KB and 2 MB, six walkers; the 64-entry unified
/// page-walk cache and the nested TLB's size are from the vendor's optimisation guide and choice.
pub fn zen4() -> MmuConfig {
    MmuConfig {
        levels: 4,
        l1d: vec![TlbArray::new(&[K4, M2, G1], Geometry::full(72))],
        l1i: vec![TlbArray::new(&[K4, M2, G1], Geometry::full(64))],
        l2: vec![TlbArray::new(&[K4, M2], Geometry::new(3072, 12))],
        l2_cycles: 7,
        pwc: PwcKind::Unified(Geometry::full(64)),
        nested_tlb: Some(Geometry::full(64)),
        walkers: 6,
        ..common()
    }
}

/// Makes a preset.
pub type Make = fn() -> MmuConfig;

/// Preset names and what makes them.
pub const PRESETS: &[(&str, Make)] = &[
    ("directseg-sandybridge", directseg_sandybridge),
    ("perforated-skylake", perforated_skylake),
    ("contiguitas-table1", contiguitas_table1),
    ("skylake", skylake),
    ("sapphire-rapids", sapphire_rapids),
    ("champsim-default", champsim_default),
    ("zen4", zen4),
];

/// The preset of a name.
///
/// # Errors
/// If there is none; the message lists those that exist.
pub fn by_name(name: &str) -> Result<MmuConfig, ConfigError> {
    let found = PRESETS.iter().find(|(known, _)| *known == name);
    found
        .map(|(_, make)| make())
        .ok_or_else(|| ConfigError::Unknown {
            what: "preset",
            name: name.to_owned(),
            known: PRESETS
                .iter()
                .map(|(n, _)| *n)
                .collect::<Vec<_>>()
                .join(", "),
        })
}
