// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel memory that a test writes itself.

use super::kernel::KernelMemory;
use crate::HostError;
use std::collections::HashMap;

pub const DIRECT_MAP: u64 = 0xffff_8880_0000_0000;
pub const MEMORY_MAP: u64 = 0xffff_ea00_0000_0000;

/// Words by address; what was not written reads as zero.
#[derive(Default)]
pub struct FakeKernel {
    pub words: HashMap<u64, u64>,
    pub offsets: HashMap<&'static str, u64>,
}

impl KernelMemory for FakeKernel {
    fn gather(&mut self, addresses: &[u64], bytes: usize) -> Result<Vec<u64>, HostError> {
        let at =
            |address: u64| (0..bytes as u64 / 8).map(move |word| address.wrapping_add(8 * word));
        let words = addresses.iter().flat_map(|&address| at(address));
        Ok(words
            .map(|at| self.words.get(&at).copied().unwrap_or(0))
            .collect())
    }

    fn offset(&mut self, path: &'static str) -> Option<u64> {
        self.offsets.get(path).copied()
    }

    fn size(&mut self, _: &'static str) -> Option<u64> {
        None
    }

    fn memory_map(&self) -> u64 {
        MEMORY_MAP
    }

    fn direct_map(&self) -> u64 {
        DIRECT_MAP
    }
}
