// SPDX-License-Identifier: MIT OR Apache-2.0
//! The translation schemes: their interface, a file for each, and the list of all.

mod colt;
pub(crate) mod paging;
mod perforated;
mod registry;
mod rmm;
pub mod scheme;
mod segment;

pub use colt::colt;
pub use paging::paging;
pub use perforated::{
    perforated, perforated_apart, perforated_keep, perforated_keep_apart, perforated_parallel,
};
pub use registry::{REGISTRY, SchemeEntry, SchemeParameter, SchemeValues, base_name, by_name};
pub use rmm::rmm;
pub use segment::segment;

/// The scheme of the guide (docs/translation.md), where it would be moved to.
#[cfg(test)]
#[path = "../../tests/victim/mod.rs"]
mod victim;
