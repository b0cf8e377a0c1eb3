// SPDX-License-Identifier: MIT OR Apache-2.0
//! What runs on every host of a fleet: when to scan, where to keep the scans, whom to tell.

mod exporter;
mod http;
mod schedule;
mod spool;

pub use exporter::Exporter;
pub use http::{Served, answer_to};
pub use schedule::{Schedule, rest};
pub use spool::{Delivered, LastScan, Spool, Usage, write_whole};
