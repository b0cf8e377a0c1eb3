// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces: streams of memory accesses ([`access`]), and page events of a real kernel ([`pages`]).

pub mod access;
pub mod pages;

pub use access::format::{TraceHeader, TraceReader, TraceWriter};
pub use access::programs::{self, Scale};
pub use access::record::{Access, AccessKind, BLOCK, Consumer, MapChange, Program, Recorder};
pub use access::region::{Backing, Region, RegionLayout};
pub use access::{AddressMap, Replay, TraceError, capture, files, import};
