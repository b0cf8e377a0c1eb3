// SPDX-License-Identifier: MIT OR Apache-2.0
//! One simulated server: what owners can do with its pages, and runs of workloads on it.

mod huge;
mod model;
mod restart;
mod snapshot;

pub use model::{ServerError, ServerModel};
pub use restart::{CompactionState, Obtained, PageFlags};
pub(crate) use snapshot::is_placed;
