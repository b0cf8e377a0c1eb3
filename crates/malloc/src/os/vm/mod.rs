// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtual memory as the page heap sees it: real, or pretended.
//!
//! The page heap hands out addresses and never reads or writes the memory behind them, so the
//! same code runs over a pretended address space in tests and in trace replay (paper section 6.2),
//! where a heap of 64 GiB costs nothing but its metadata.

pub mod fake;
pub mod real;

use crate::units::HugeRange;

/// How the system maps a hugepage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugeBacking {
    /// As one page.
    Huge,
    /// With native pages, so many of which have memory.
    Native(usize),
}

/// Why a hugepage was not rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The system has no hugepage to give, or the control group may not have one.
    NoHugepage,
    /// Something holds a page of this one at present.
    Busy,
    /// It cannot be done: the system does not know the call, or the memory is not fit for it.
    Unfit,
}

/// What the page heap asks of the operating system.
///
/// None of these may allocate through the heap that calls them.
pub trait Vm {
    /// Reserves at least `min_hugepages` hugepages of address space, zeroed on first touch; more
    /// if that is cheap. `None` when the system refuses.
    fn reserve(&mut self, min_hugepages: usize) -> Option<HugeRange>;

    /// Gives the memory behind whole pages back to the system; the addresses stay ours and read
    /// as zero. False if the system refused, in which case nothing changed.
    fn unback(&self, address: usize, bytes: usize) -> bool;

    /// Gives back several such ranges of one hugepage, as address and length; false if the system
    /// refused one.
    fn unback_all(&self, ranges: &mut dyn Iterator<Item = (usize, usize)>) -> bool {
        ranges.fold(true, |succeeded, (address, bytes)| {
            self.unback(address, bytes) && succeeded
        })
    }

    /// Asks that a range be made of hugepages from now on, or of native pages. False if refused, or
    /// if the heap does not ask for hugepages at all.
    fn set_huge(&self, range: HugeRange, huge: bool) -> bool;

    /// Asks that one hugepage be rebuilt as such, with what it holds.
    ///
    /// # Errors
    /// If the system refuses.
    fn collapse(&self, address: usize) -> Result<(), Refusal>;

    /// How hugepages are mapped, by their numbers: `found` is as long, and filled with nothing as
    /// it comes. What the system does not tell is left so.
    fn look(&self, hugepages: &[usize], found: &mut [Option<HugeBacking>]);

    /// Monotonic time in nanoseconds.
    fn now_ns(&self) -> u64;
}
