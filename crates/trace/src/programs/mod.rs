// SPDX-License-Identifier: MIT OR Apache-2.0
//! Built-in programs. Each runs its real algorithm on host data and reports the addresses that a
//! process with its own layout would touch.

mod micro;

pub use micro::{Chase, Gups, Stream};

use crate::{Recorder, Region};

/// A source of accesses.
pub trait Program {
    /// Name as used on the command line.
    fn name(&self) -> &str;
    /// The address space it lives in.
    fn regions(&self) -> &[Region];
    /// Runs until the recorder is done. Calling it again goes on where the last call stopped, at
    /// the program's own granularity.
    fn run(&mut self, recorder: &mut Recorder<'_>);
    /// Bytes of all regions.
    fn footprint_bytes(&self) -> u64 {
        self.regions().iter().map(|r| r.bytes).sum()
    }
}

/// How large a program's data are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scale {
    /// For tests: a few megabytes.
    Tiny,
    /// For quick looks: hundreds of megabytes.
    Quick,
    /// For published figures: as large as a desktop machine allows.
    Full,
}
