// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading ahead: loops that visit frames in random order read the frames of the next steps
//! together ([`super::frames::Frames::touch`]), so that their cache misses overlap instead of
//! following each other. Results are the same with and without.

/// Frames that are read together: about what one core keeps in flight.
pub(crate) const AHEAD: usize = 16;

/// Whether step `done` of a loop begins a new group of [`AHEAD`].
#[inline]
pub(crate) fn begins_group(done: u32) -> bool {
    (done as usize).is_multiple_of(AHEAD)
}
