// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiments: each is a function of its parameters that returns something to serialize.

pub mod sweep;
pub mod traffic;
pub mod unavailable;
mod workload;

pub use workload::{BUFFER_PAGES, Server, Service};
