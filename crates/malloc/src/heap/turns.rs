// SPDX-License-Identifier: MIT OR Apache-2.0
//! What [`super::holes`] keeps: how far the hugepages have been gone through, and steps under way.

use super::huge_cache::MinMax;
use super::regret::Eager;
use crate::heap::bits::PageBits;

/// How far the hugepages have been gone through.
pub struct Holes {
    /// The highest number of pages that live objects take, over the lasting window.
    pub(super) live_peak: MinMax,
    /// The tracker that was looked at last.
    pub(super) last: u32,
    /// Whole hugepages are broken up to so many eighths in use, less one.
    pub(super) step: usize,
    /// Whether it has begun: it goes on until no more than the policy's share is left.
    pub(super) begun: bool,
    pub(super) not_before_ns: u64,
    pub(super) regret: Eager,
}

impl Holes {
    /// Nothing looked at yet.
    pub(super) const fn new() -> Self {
        Holes {
            live_peak: MinMax::new(),
            last: 0,
            step: 0,
            begun: false,
            not_before_ns: 0,
            regret: Eager::new(),
        }
    }

    /// Sets the window of the peak, in multiples of 2 s.
    pub(super) const fn configure(&mut self, windows: u32) {
        self.live_peak.set_windows(windows);
    }
}

/// The spans of a hugepage, at one moment.
#[derive(Clone, Copy, Debug)]
pub struct HugeSpans {
    /// The tracker of the hugepage.
    pub tracker: u32,
    /// Number of the hugepage.
    pub hugepage: usize,
    /// Pages in use.
    pub used: PageBits,
    /// How often it was rebuilt: what spans have noted of holes holds for one epoch.
    pub epoch: u16,
}

/// A step that makes holes: what it has begun with, and whether the hugepage is to be marked as one
/// that stays broken.
#[derive(Clone, Copy, Debug)]
pub struct HoleRelease {
    /// The tracker of the hugepage, which is busy.
    pub tracker: u32,
    /// Free pages that have memory, which go back too.
    pub free: PageBits,
    /// See [`super::Release::Part`].
    pub mark: bool,
}
