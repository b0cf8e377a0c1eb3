// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a reader of a machine's pages has to offer.

use crate::HostError;
use ample_pfn::{Coverage, PageSource, PfnRange};

/// A way to look at every page of a machine.
///
/// Reading never changes the machine: no file below `/proc` or `/sys` is written.
pub trait Reader: PageSource<Error = HostError> {
    /// Name as printed: `procfs`, `bpf`.
    fn name(&self) -> &'static str;

    /// What the reader can and cannot tell. Complete only after all pages were read.
    fn coverage(&self) -> Coverage;

    /// Reads only these frames from now on, ascending; others stay holes.
    fn restrict(&mut self, ranges: Vec<PfnRange>);

    /// What a user should know about this reading, a sentence each.
    fn notes(&self) -> Vec<String>;
}
