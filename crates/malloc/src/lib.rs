// SPDX-License-Identifier: MIT OR Apache-2.0
//! A malloc that fills hugepages.

pub mod bits;
pub mod heap;
pub mod lock;
pub mod meta;
pub mod sys;
pub mod units;
pub mod vm;
