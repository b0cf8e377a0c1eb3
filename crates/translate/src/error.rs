// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be wrong with a configuration or a request, in words a user can act on.

use ample_kit::names;
use thiserror::Error;

/// An impossible piece of hardware or layout.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// Entries and ways do not make whole sets.
    #[error(
        "{what}: {entries} entries of {ways} ways do not make whole sets; \
             give at least one entry and a divisor of it as ways"
    )]
    Geometry {
        /// Which array.
        what: String,
        /// Entries asked for.
        entries: u32,
        /// Ways asked for.
        ways: u32,
    },
    /// Tree-PLRU without a whole tree.
    #[error("{what}: PLRU needs 1, 2, 4, 8 or 16 ways, not {ways}; use LRU or change the ways")]
    Plru {
        /// Which array.
        what: String,
        /// Ways asked for.
        ways: u32,
    },
    /// An unknown name.
    #[error("there is no {what} named '{name}'; {}", names::known(name, known))]
    Unknown {
        /// Kind of thing.
        what: &'static str,
        /// The name given.
        name: String,
        /// The names that exist.
        known: Vec<&'static str>,
    },
    /// Something else that cannot be built.
    #[error("{0}")]
    Invalid(String),
}

/// A mapping request that cannot be granted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MapError {
    /// Not aligned to its page size.
    #[error("address {va:#x} is not aligned to its page of {page_bytes} bytes")]
    Unaligned {
        /// Virtual address of the request.
        va: u64,
        /// Page size, bytes.
        page_bytes: u64,
    },
    /// Not an address the page table can hold.
    #[error("address {va:#x} is not canonical with {levels} page-table levels")]
    NotCanonical {
        /// Virtual address of the request.
        va: u64,
        /// Levels of the page table.
        levels: u8,
    },
    /// Something is mapped there already.
    #[error("address {va:#x} is already mapped; unmap it first")]
    Occupied {
        /// Virtual address of the request.
        va: u64,
    },
    /// Nothing is mapped there.
    #[error("address {va:#x} is not mapped")]
    Unmapped {
        /// Virtual address of the request.
        va: u64,
    },
    /// A hole or patch outside a perforated page.
    #[error("address {va:#x} does not lie in a perforated page; make one before punching holes")]
    NotPerforated {
        /// Virtual address of the request.
        va: u64,
    },
    /// No frame of that size is left.
    #[error(
        "no free block of order {order} is left ({free_frames} frames free); \
             give more memory or use smaller pages"
    )]
    OutOfFrames {
        /// Order asked for.
        order: u32,
        /// Frames still free.
        free_frames: u64,
    },
    /// A recorded way through a guest's page tables that cannot be one.
    #[error("the path to {va:#x} is wrong at level {level}: {why}")]
    Path {
        /// Virtual address of the path.
        va: u64,
        /// Level of the entry that does not fit, the root's the highest.
        level: u8,
        /// What does not fit.
        why: &'static str,
    },
    /// A segment that memory cannot hold.
    #[error("a segment of {bytes} bytes at {base:#x} does not fit: {why}")]
    Segment {
        /// Base address.
        base: u64,
        /// Length of the segment.
        bytes: u64,
        /// What is in the way.
        why: String,
    },
}
