// SPDX-License-Identifier: MIT OR Apache-2.0
//! What runs on every host of a fleet: when to scan, where to keep the scans, whom to tell.

mod exporter;
mod schedule;
mod spool;

pub use exporter::{Exporter, Served, answer_to};
pub use schedule::{Schedule, rest};
pub use spool::{LastScan, Spool, Usage, write_whole};
