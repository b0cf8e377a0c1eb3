// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page tables: what stands in memory and what the walkers read.

pub mod entry;
pub mod holes;
pub mod page_table;
