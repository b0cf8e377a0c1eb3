// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps keyed by lines, and the lines of a slice.

use ample_migration::protocol::{HomeLine, LineAddr, LineStore};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A fast hash for line numbers; they come from the simulator, not from an adversary.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineHasher(u64);

impl Hasher for LineHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u64(&mut self, x: u64) {
        let mixed = (self.0 ^ x).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }
}

/// A map keyed by lines.
pub type LineMap<T> = HashMap<LineAddr, T, BuildHasherDefault<LineHasher>>;

/// Lines of one slice, made when first touched.
#[derive(Clone, Debug, Default)]
pub struct MappedLines(LineMap<HomeLine<u64>>);

impl MappedLines {
    /// The line, if it was ever touched.
    pub(super) fn peek(&self, at: LineAddr) -> Option<&HomeLine<u64>> {
        self.0.get(&at)
    }
}

impl LineStore<u64> for MappedLines {
    fn line(&mut self, at: LineAddr) -> &mut HomeLine<u64> {
        self.0.entry(at).or_insert_with(|| HomeLine::new(0))
    }
}
