// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tools around the allocator's page heap, over pretended memory: replay of traces, the figures of
//! Temeraire (OSDI 2021) and the paper's empirical driver. They use the standard library freely and
//! are no part of the allocator, whose crate does not depend on this one.

pub mod bench;
pub mod driver;
pub mod figures;
pub mod fill;
pub mod heaps;
pub mod replay;

/// A small generator for experiments: splitmix64. The seed is part of every result.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator with this seed.
    pub const fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.draw()) * bound as u128) >> 64) as usize
    }

    /// A number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / 9_007_199_254_740_992.0
    }

    /// An exponentially distributed number with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -(1.0 - self.unit()).ln() * mean
    }
}

/// Sizes of spans in pages with their weights: mostly one page, then eight, a thin tail (paper,
/// figure 5: most spans have one or two pages, four in five are below a hugepage). The weights
/// are the page histogram that the filler test of google/tcmalloc prints, rescaled and rounded.
const SPAN_WEIGHTS: [(usize, u32); 24] = [
    (1, 4450),
    (2, 710),
    (3, 420),
    (4, 520),
    (5, 210),
    (6, 190),
    (7, 110),
    (8, 2470),
    (9, 45),
    (10, 300),
    (12, 70),
    (13, 55),
    (16, 210),
    (21, 50),
    (25, 50),
    (30, 35),
    (32, 36),
    (40, 20),
    (50, 13),
    (64, 12),
    (80, 11),
    (96, 6),
    (113, 3),
    (128, 4),
];

/// A span length in pages, at most half a hugepage.
pub fn span_pages(random: &mut Random) -> usize {
    let total: u32 = SPAN_WEIGHTS.iter().map(|entry| entry.1).sum();
    let mut left = random.below(total as usize) as u32;
    for (pages, weight) in SPAN_WEIGHTS {
        if left < weight {
            return pages;
        }
        left -= weight;
    }
    1
}
