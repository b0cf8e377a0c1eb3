// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the operating system knows of a program's memory, and the price of its work.

use crate::table::entry::PageSize;
use serde::{Deserialize, Serialize};

/// A range of virtual memory that faults bring in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vma {
    /// First address.
    pub base: u64,
    /// First address after it.
    pub end: u64,
    /// Rights of its pages.
    pub flags: u64,
    /// Largest page a fault may bring in where a whole one fits and a block is free.
    pub largest: PageSize,
}

/// Costs of operating-system work in cycles, by default those of a bare-metal server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OsCosts {
    /// A minor fault on a 4 KB page, zeroing included.
    pub fault_4k_cycles: u32,
    /// A fault that brings in a 2 MB page.
    pub fault_2m_cycles: u32,
    /// A copy-on-write fault.
    pub cow_cycles: u32,
    /// A context switch.
    pub switch_cycles: u32,
    /// Making one 2 MB page of 512 small ones: copying them, without the shootdown.
    pub promote_cycles: u32,
    /// Splitting a 2 MB page: a new table of 512 entries, without the shootdown.
    pub split_cycles: u32,
    /// Copying a 4 KB page.
    pub copy_4k_cycles: u32,
}

impl Default for OsCosts {
    fn default() -> Self {
        OsCosts {
            fault_4k_cycles: 1_200,
            fault_2m_cycles: 120_000,
            cow_cycles: 2_500,
            switch_cycles: 2_000,
            promote_cycles: 400_000,
            split_cycles: 3_000,
            copy_4k_cycles: 700,
        }
    }
}
