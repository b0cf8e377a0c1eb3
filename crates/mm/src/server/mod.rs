// SPDX-License-Identifier: MIT OR Apache-2.0
//! One simulated server: what owners can do with its pages, and runs of workloads on it.

mod huge;
mod model;
mod snapshot;

pub use model::{ServerError, ServerModel};
pub(crate) use snapshot::is_placed;
