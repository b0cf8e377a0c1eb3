// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results as text and figures.

pub mod figures;
pub mod generic;
pub mod hardware_figures;
pub mod paging_figures;
pub mod tables;
pub mod translation_figures;
