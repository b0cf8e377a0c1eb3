// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reclaim of page cache and slab pages (`mm/vmscan.c`, 6.12).

pub(crate) mod kswapd;
pub(crate) mod shrink;
