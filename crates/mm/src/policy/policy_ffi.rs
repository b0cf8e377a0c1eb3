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

impl ResizeParams {
    /// Those that the kernel series is built with: `CTG_KERNEL_PARAMS`.
    pub fn kernel() -> ResizeParams {
        // SAFETY: a pure function; both sides have the same six integers.
        unsafe { ample_ctg_kernel_params() }
    }
}

/// Times by which the kernel series resizes, in milliseconds.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelTimes {
    /// A region that is larger than at boot is looked at this often.
    pub review_ms: u32,
    /// Between two steps beyond the maximum, for requests that wait.
    pub beyond_ms: u32,
    /// Back-off after the first failed resize; it doubles.
    pub backoff_ms: u32,
    /// Back-off at most.
    pub backoff_cap_ms: u32,
}

impl KernelTimes {
    /// Those of the header.
    pub fn get() -> KernelTimes {
        // SAFETY: a pure function; both sides have the same four integers.
        unsafe { ample_ctg_kernel_times() }
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
    fn ample_ctg_enough_pages(s: *const ResizeState) -> u64;
    fn ample_ctg_limit_pages(s: *const ResizeState, beyond: i32) -> u64;
    fn ample_ctg_round_pages(
        p: *const ResizeParams,
        s: *const ResizeState,
        urgent: i32,
        limit: u64,
    ) -> u64;
    fn ample_ctg_must(s: *const ResizeState, urgent: i32) -> i32;
    fn ample_ctg_backed_off(must: i32, hard: i32, waits: i32) -> i32;
    fn ample_ctg_step_pages(s: *const ResizeState, target: u64, wanted: u64, must: i32) -> u64;
    fn ample_ctg_max_pages(node_pages: u64, initial_pages: u64, block_pages: u64) -> u64;
    fn ample_ctg_kernel_params() -> ResizeParams;
    fn ample_ctg_kernel_times() -> KernelTimes;
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

/// With so many pages free a region does not grow: `ctg_enough_pages`.
pub fn enough_pages(state: &ResizeState) -> u64 {
    // SAFETY: as in `target_pages`.
    unsafe { ample_ctg_enough_pages(state) }
}

/// How large the region may become for a request that waits now, in pages: `ctg_limit_pages`.
/// `beyond`: it is time for another step beyond the maximum.
pub fn limit_pages(state: &ResizeState, beyond: bool) -> u64 {
    // SAFETY: as in `target_pages`.
    unsafe { ample_ctg_limit_pages(state, i32::from(beyond)) }
}

/// What a round of the resizer makes for, in pages, `limit` at most for who waits (`urgent`):
/// `ctg_round_pages`.
///
/// # Panics
/// If `block_pages` is not a power of two.
pub fn round_pages(params: &ResizeParams, state: &ResizeState, urgent: bool, limit: u64) -> u64 {
    assert!(state.block_pages.is_power_of_two(), "block_pages");
    // SAFETY: as in `target_pages`.
    unsafe { ample_ctg_round_pages(params, state, i32::from(urgent), limit) }
}

/// Whether a growth has to gain room at once: `ctg_must`.
pub fn must(state: &ResizeState, urgent: bool) -> bool {
    // SAFETY: as in `target_pages`.
    unsafe { ample_ctg_must(state, i32::from(urgent)) != 0 }
}

/// Whether the back-off of a failed growth, which had to succeed if `hard` and is not over if
/// `waits`, holds one that has to if `must`: `ctg_backed_off`.
pub fn backed_off(must: bool, hard: bool, waits: bool) -> bool {
    // SAFETY: a pure function of three integers.
    unsafe { ample_ctg_backed_off(must.into(), hard.into(), waits.into()) != 0 }
}

/// How far a growth to `target` that was to gain `wanted`, and has to if `must`, goes before it
/// is looked at again, in pages; 0 when it is over: `ctg_step_pages`.
pub fn step_pages(state: &ResizeState, target: u64, wanted: u64, must: bool) -> u64 {
    // SAFETY: as in `target_pages`.
    unsafe { ample_ctg_step_pages(state, target, wanted, must.into()) }
}

/// Maximum of a region that was not given another, in pages: `ctg_max_pages`.
///
/// # Panics
/// If `block_pages` is not a power of two.
pub fn max_pages(node_pages: u64, initial_pages: u64, block_pages: u64) -> u64 {
    assert!(block_pages.is_power_of_two(), "block_pages");
    // SAFETY: a pure function of three integers.
    unsafe { ample_ctg_max_pages(node_pages, initial_pages, block_pages) }
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
