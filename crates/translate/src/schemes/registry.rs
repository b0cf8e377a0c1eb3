// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of all schemes.

use super::scheme::Scheme;
use super::{colt, paging, perforated, rmm, segment};
use crate::error::ConfigError;

/// A registered scheme.
pub struct SchemeEntry {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is, in one line.
    pub what: &'static str,
    /// Makes one.
    pub make: fn() -> Box<dyn Scheme>,
}

/// All schemes. A new one is a file in `schemes/` and a line here.
pub const REGISTRY: &[SchemeEntry] = &[
    SchemeEntry {
        name: "paging",
        what: "page tables and TLBs as they are",
        make: paging::paging,
    },
    SchemeEntry {
        name: "segment",
        what: "a direct segment beside the D-TLB",
        make: segment::segment,
    },
    SchemeEntry {
        name: "perforated",
        what: "2 MB pages with 4 KB holes",
        make: perforated::perforated,
    },
    SchemeEntry {
        name: "perforated-parallel",
        what: "perforated pages, the bitmap asked together with the page",
        make: perforated::perforated_parallel,
    },
    SchemeEntry {
        name: "perforated-apart",
        what: "perforated pages, bitmaps in an array of their own",
        make: perforated::perforated_apart,
    },
    SchemeEntry {
        name: "perforated-keep",
        what: "perforated pages, 4 KB translations kept once a bitmap has confirmed them",
        make: perforated::perforated_keep,
    },
    SchemeEntry {
        name: "perforated-keep-apart",
        what: "perforated pages, both of these",
        make: perforated::perforated_keep_apart,
    },
    SchemeEntry {
        name: "colt",
        what: "coalesced L2 TLB entries",
        make: colt::colt,
    },
    SchemeEntry {
        name: "rmm",
        what: "redundant memory mappings: a range TLB",
        make: rmm::rmm,
    },
];

/// Makes the scheme of a name.
///
/// # Errors
/// If there is none; the message lists those that exist.
pub fn by_name(name: &str) -> Result<Box<dyn Scheme>, ConfigError> {
    let found = REGISTRY.iter().find(|entry| entry.name == name);
    found
        .map(|entry| (entry.make)())
        .ok_or_else(|| ConfigError::Unknown {
            what: "scheme",
            name: name.to_owned(),
            known: REGISTRY
                .iter()
                .map(|e| e.name)
                .collect::<Vec<_>>()
                .join(", "),
        })
}
