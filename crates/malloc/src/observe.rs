// SPDX-License-Identifier: MIT OR Apache-2.0
//! Observing allocations: the sampled heap profile and guarded objects.

use crate::options::Options;

/// Applies the options.
pub fn configure(_options: &Options) {}
/// Samples an allocation.
pub fn allocate(_bytes: usize, _align: usize) -> Option<usize> {
    None
}
/// Forgets a sampled object.
pub fn forget(_address: usize) {}
/// Frees a guarded object.
pub fn free_guarded(_address: usize) {}
/// Size of a guarded object.
pub fn guarded_bytes(_address: usize) -> usize {
    0
}
/// Takes the lock before fork.
pub fn fork_prepare() {}
/// Gives the lock back after fork.
///
/// # Safety
/// [`fork_prepare`] was called.
pub unsafe fn fork_done() {}
