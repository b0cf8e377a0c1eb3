// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tools around the allocator's page heap, over pretended memory: replay of traces, the figures of
//! Temeraire (OSDI 2021) and the paper's empirical driver. They use the standard library freely and
//! are no part of the allocator, whose crate does not depend on this one.

pub mod attach;
pub mod bench;
pub mod driver;
pub mod figures;
pub mod fill;
pub mod heaps;
pub mod lifetime;
pub mod replay;
pub mod turnover;

use ample_kit::random::SplitMix64;
use serde::Serializer;

/// An exponentially distributed number with this mean.
fn exponential(random: &mut SplitMix64, mean: f64) -> f64 {
    -(1.0 - random.unit()).ln() * mean
}

/// An index below `len`.
fn index(random: &mut SplitMix64, len: usize) -> usize {
    random.below(len as u64) as usize
}

/// A number with so many digits after the point: more would be noise.
fn rounded(number: f64, digits: usize) -> f64 {
    format!("{number:.digits$}").parse().expect("a number")
}

/// Writes a number with four digits.
fn four_digits<S: Serializer>(share: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(rounded(*share, 4))
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
pub fn span_pages(random: &mut SplitMix64) -> usize {
    let total: u32 = SPAN_WEIGHTS.iter().map(|entry| entry.1).sum();
    let mut left = random.below(u64::from(total)) as u32;
    for (pages, weight) in SPAN_WEIGHTS {
        if left < weight {
            return pages;
        }
        left -= weight;
    }
    1
}
