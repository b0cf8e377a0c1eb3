// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams of memory accesses: where they come from and how they are kept.
//!
//! A [`Program`](record::Program) pushes [`Access`](record::Access) records into a
//! [`Recorder`](record::Recorder), which hands them on in blocks to a
//! [`Consumer`](record::Consumer) (a model of a machine, or a trace writer). Programs run their
//! algorithm on host data; only the addresses are those of a simulated process, laid out in
//! [`Region`](region::Region)s.

mod address_map;
pub mod capture;
mod error;
pub mod export;
pub mod files;
pub mod format;
pub mod import;
pub mod programs;
pub mod record;
pub mod region;
mod replay;

pub use address_map::AddressMap;
pub use error::TraceError;
pub use replay::Replay;
