// SPDX-License-Identifier: MIT OR Apache-2.0
//! Experiments of the migration hardware (Contiguitas-HW) and of what it gives back.

pub mod defrag;
pub mod hugepages;
pub mod losses;
pub mod one_page;
mod stats;
pub mod steps;
pub mod sweep;
pub mod traffic;
pub mod unavailable;

pub use ample_machine::multi::{Requests, Server, Service, Way};
