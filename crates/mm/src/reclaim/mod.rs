// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reclaim of page cache, slab pages and, with swap, user memory (`mm/vmscan.c`, 6.12).

pub(crate) mod kswapd;
pub(crate) mod shrink;
pub(crate) mod swap;
pub(crate) mod writeback;
