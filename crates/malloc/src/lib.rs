// SPDX-License-Identifier: MIT OR Apache-2.0
//! A malloc that fills hugepages.

pub mod bits;
pub mod cache;
pub mod central;
#[cfg(all(feature = "preload", not(test), not(miri)))]
pub mod cxx;
pub mod dump;
pub mod fork;
pub mod front;
pub mod heap;
#[cfg(all(feature = "preload", not(test), not(miri)))]
pub mod interface;
pub mod lock;
pub mod meta;
pub mod observe;
pub mod options;
pub mod pageheap;
pub mod pagemap;
pub mod report;
pub mod rseq;
pub mod size_class;
pub mod span;
pub mod start;
pub mod stats;
pub mod sys;
pub mod threads;
pub mod trace;
pub mod units;
pub mod upkeep;
pub mod vm;
