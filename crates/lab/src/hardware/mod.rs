// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiments: each is a function of its parameters that returns something to serialize.

pub mod losses;
pub mod one_page;
mod stats;
pub mod steps;
pub mod sweep;
pub mod traffic;
pub mod unavailable;
mod way;
mod workload;

pub use stats::{Range, mean_and_ci};
pub use way::Way;
pub use workload::{BUFFER_PAGES, Requests, Server, Service};
