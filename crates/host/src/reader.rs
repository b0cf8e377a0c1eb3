// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a reader of a machine's pages has to offer.

use crate::HostError;
use ample_pfn::{Coverage, MigrateType, PageSource, PfnRange};
use serde::{Deserialize, Serialize};

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

    /// Migratetypes of the pageblocks, ascending, where the reader can see them.
    ///
    /// # Errors
    /// [`HostError::Bpf`] when the reader should see them and does not.
    fn pageblocks(&mut self) -> Result<Option<Vec<PageblockRun>>, HostError> {
        Ok(None)
    }

    /// What a user should know about this reading, a sentence each.
    fn notes(&self) -> Vec<String>;
}

/// Neighbouring pageblocks of one migratetype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageblockRun {
    /// First frame of the first block, a multiple of 512.
    pub start_pfn: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Their migratetype.
    pub migratetype: MigrateType,
}
