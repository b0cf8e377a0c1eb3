// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams of memory accesses: where they come from and how they are kept.
//!
//! A *program* pushes [`Access`] records into a [`Recorder`], which hands them on in blocks to a
//! [`Consumer`] (a model of a machine, or a trace writer). Programs really run their algorithm on
//! host data; only the addresses are those of a simulated process, laid out in [`Region`]s.

pub mod access;
pub mod address_map;
pub mod capture;
pub mod error;
pub mod export;
pub mod files;
pub mod format;
pub mod import;
pub mod pages;
pub mod programs;
pub mod region;
pub mod replay;

pub use access::{Access, BLOCK, Consumer, Kind, MapChange, Recorder};
pub use address_map::AddressMap;
pub use error::TraceError;
pub use format::{TraceHeader, TraceReader, TraceWriter};
pub use programs::{Program, Scale};
pub use region::{Backing, Layout, Region};
pub use replay::Replay;
