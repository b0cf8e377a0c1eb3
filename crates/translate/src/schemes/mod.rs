// SPDX-License-Identifier: MIT OR Apache-2.0
//! The translation schemes, one file each.

mod colt;
pub(crate) mod paging;
mod perforated;
mod rmm;
mod segment;

pub use colt::colt;
pub use paging::paging;
pub use perforated::{
    perforated, perforated_apart, perforated_keep, perforated_keep_apart, perforated_parallel,
};
pub use rmm::rmm;
pub use segment::segment;
