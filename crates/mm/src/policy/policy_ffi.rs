// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shared resizing policy in C (`kernel/src/include/linux/contiguitas_policy.h`), as safe
//! functions.
//!
//! This is the one file of the crate with `unsafe` code: the kernel and the model must run the
//! same lines, and those are C. The functions are pure and take plain integers.
#![allow(unsafe_code)]

use serde::{Deserialize, Serialize};

/// Tunables of Algorithm 1 (`struct ctg_params`). Pressures in basis points of time, weights in
/// thousandths. The paper gives no values; these were chosen once, before any prediction.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResizeParams {
    /// Threshold_unmov, in basis points of time.
    pub threshold_unmov_bp: u32,
    /// Threshold_mov, in basis points of time.
    pub threshold_mov_bp: u32,
    /// Expansion: weight of unmovable pressure.
    pub c_ue_milli: u32,
    /// Expansion: weight of movable slack.
    pub c_me_milli: u32,
    /// Shrinking: weight of unmovable slack.
    pub c_us_milli: u32,
    /// Shrinking: weight of movable pressure.
    pub c_ms_milli: u32,
}

impl Default for ResizeParams {
    fn default() -> Self {
        ResizeParams {
            threshold_unmov_bp: 50,
            threshold_mov_bp: 1000,
            c_ue_milli: 50,
            c_me_milli: 0,
            c_us_milli: 1,
            c_ms_milli: 20,
        }
    }
}

/// What the resizer knows when it decides (`struct ctg_state`). Pages of 4 KB.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ResizeState {
    /// Pages that the border can range over.
    pub node_pages: u64,
    /// Size of the unmovable region now.
    pub unmov_pages: u64,
    /// Free pages inside it.
    pub unmov_free_pages: u64,
    /// Free pages of the movable region.
    pub mov_free_pages: u64,
    /// Low watermark of the unmovable region.
    pub unmov_low_wmark_pages: u64,
    /// Low watermark of the movable region.
    pub mov_low_wmark_pages: u64,
    /// Smallest size of the unmovable region.
    pub min_pages: u64,
    /// Largest size of the unmovable region.
    pub max_pages: u64,
    /// Granule of the border, a power of two.
    pub block_pages: u64,
    /// Pressure_unmov in basis points of time.
    pub pressure_unmov_bp: u32,
    /// Pressure_mov in basis points of time.
    pub pressure_mov_bp: u32,
}

unsafe extern "C" {
    fn ample_ctg_target_pages(p: *const ResizeParams, s: *const ResizeState) -> u64;
    fn ample_ctg_review_pages(p: *const ResizeParams, s: *const ResizeState) -> u64;
    fn ample_ctg_step_pages(s: *const ResizeState, target: u64, wanted: u64) -> u64;
    fn ample_ctg_initial_pages(node_pages: u64, boot_used_pages: u64, block_pages: u64) -> u64;
    fn ample_ctg_backoff_ms(failures: u32, base_ms: u32, cap_ms: u32) -> u32;
}

/// Size that Algorithm 1 gives the unmovable region, in pages: `ctg_target_pages`.
///
/// # Panics
/// If `block_pages` is not a power of two or a threshold is 0: the C code divides by both.
pub fn target_pages(params: &ResizeParams, state: &ResizeState) -> u64 {
    assert!(state.block_pages.is_power_of_two(), "block_pages");
    // SAFETY: both structs are `repr(C)` with the fields of the header in order; the function
    // reads them and returns an integer.
    unsafe { ample_ctg_target_pages(params, state) }
}

/// Size the region should have for a resizer that asks again while it works, in pages:
/// `ctg_review_pages`.
///
/// # Panics
/// If `block_pages` is not a power of two.
pub fn review_pages(params: &ResizeParams, state: &ResizeState) -> u64 {
    assert!(state.block_pages.is_power_of_two(), "block_pages");
    // SAFETY: as in `target_pages`.
    unsafe { ample_ctg_review_pages(params, state) }
}

/// How far a growth to `target` that was to gain `wanted` goes before it is looked at again, in
/// pages; 0 when it is over: `ctg_step_pages`.
pub fn step_pages(state: &ResizeState, target: u64, wanted: u64) -> u64 {
    // SAFETY: as in `target_pages`.
    unsafe { ample_ctg_step_pages(state, target, wanted) }
}

/// Initial size of the unmovable region, in pages: `ctg_initial_pages`.
///
/// # Panics
/// If `block_pages` is not a power of two.
pub fn initial_pages(node_pages: u64, boot_used_pages: u64, block_pages: u64) -> u64 {
    assert!(block_pages.is_power_of_two(), "block_pages");
    // SAFETY: a pure function of three integers.
    unsafe { ample_ctg_initial_pages(node_pages, boot_used_pages, block_pages) }
}

/// Wait after `failures` failed resizes in a row, in milliseconds: `ctg_backoff_ms`.
pub fn backoff_ms(failures: u32, base_ms: u32, cap_ms: u32) -> u32 {
    // SAFETY: a pure function of three integers.
    unsafe { ample_ctg_backoff_ms(failures, base_ms, cap_ms) }
}
