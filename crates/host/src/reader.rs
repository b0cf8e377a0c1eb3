// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a reader of a machine's pages has to offer.

use crate::{HostError, PageRuns, Who};
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

    /// Keeps what names the owners of unmovable pages, for [`Reader::who`], from now on.
    ///
    /// # Errors
    /// [`HostError::Bpf`] when this reader cannot see owners, and what can.
    fn keep_owners(&mut self) -> Result<(), HostError> {
        Err(HostError::Bpf(format!(
            "the reader {} sees no owners; --who needs the BPF reader (root, BTF, a build with \
             the feature bpf), --owners a kernel booted with page_owner=on",
            self.name()
        )))
    }

    /// Who holds the unmovable pages that were read; `None` if that was not kept.
    ///
    /// # Errors
    /// [`HostError::Bpf`] when the kernel's structures cannot be followed.
    fn who(&mut self, _pages: &PageRuns) -> Result<Option<Who>, HostError> {
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
