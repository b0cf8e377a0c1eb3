// SPDX-License-Identifier: MIT OR Apache-2.0
//! The contiguity metrics. Specification: `docs/definitions.md`.

use crate::class::{Definition, Source};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the reader of the pages could see: decides which definitions exist and how wide their
/// intervals are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// At most so many of the ambiguous pages are free (per-CPU lists, memory not yet
    /// initialised), in pages. `None`: any number of them may be.
    pub ambiguous_free_pages: Option<u64>,
    /// Whether owners (allocation flags) are known, so that definition O exists.
    pub owners: bool,
}

impl Coverage {
    /// A source that knows everything, such as the server model.
    pub fn exact() -> Coverage {
        Coverage {
            ambiguous_free_pages: Some(0),
            owners: true,
        }
    }
}

/// A count that the data bound but may not fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Interval {
    /// Smallest value that fits the data.
    pub low: u64,
    /// Largest value that fits the data.
    pub high: u64,
}

/// A ratio that the data bound but may not fix; `None` when its denominator is 0.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct RatioInterval {
    /// Smallest value that fits the data.
    pub low: Option<f64>,
    /// Largest value that fits the data.
    pub high: Option<f64>,
}

/// Free memory at one block size, and the headline values of definition K.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeMetrics {
    /// Block size in bytes.
    pub size_bytes: u64,
    /// Aligned blocks with at least one frame of memory.
    pub blocks: u64,
    /// Aligned blocks without a hole.
    pub whole_blocks: u64,
    /// Aligned, wholly free blocks.
    pub free_blocks: u64,
    /// Free bytes in aligned, wholly free blocks ÷ free bytes.
    pub free_contiguity_ratio: Option<f64>,
    /// Upper bound of the unmovable share under K.
    pub unmovable_ratio: Option<f64>,
    /// Lower bound of the potential contiguity under K.
    pub potential_ratio: Option<f64>,
}

/// One definition at one block size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DefinitionSize {
    /// Block size in bytes.
    pub size_bytes: u64,
    /// Aligned blocks with at least one unmovable page.
    pub unmovable_blocks: Interval,
    /// The same ÷ all blocks.
    pub unmovable_ratio: RatioInterval,
    /// Aligned blocks without a hole and without an unmovable page.
    pub potential_blocks: Interval,
    /// Bytes in such blocks ÷ all bytes: what a perfect compaction could form.
    pub potential_ratio: RatioInterval,
}

/// How many unmovable pages the polluted 2 MB blocks hold (ambiguous pages counted), in pages.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UnmovableSpread {
    /// 10th percentile over these blocks.
    pub p10_pages: u64,
    /// In the median block.
    pub p50_pages: u64,
    /// 90th percentile over these blocks.
    pub p90_pages: u64,
    /// In the block that has most.
    pub max_pages: u64,
}

/// Everything about one definition of "unmovable".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DefinitionMetrics {
    /// Unmovable 4 KB pages.
    pub unmovable_pages: Interval,
    /// The same ÷ all pages.
    pub unmovable_page_ratio: RatioInterval,
    /// Per block size, ascending.
    pub sizes: Vec<DefinitionSize>,
    /// Free pages in 2 MB blocks that hold an unmovable page ÷ pages of those blocks.
    pub internal_fragmentation_ratio: RatioInterval,
    /// Scatter of unmovable pages over those blocks.
    pub spread: UnmovableSpread,
}

/// Unmovable pages of one source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceMetrics {
    /// Who asked for them.
    pub source: Source,
    /// 4 KB pages that any definition calls unmovable or ambiguous.
    pub pages: u64,
    /// Share of the pages of all sources.
    pub ratio: Option<f64>,
    /// 2 MB blocks that hold at least one of them.
    pub blocks_2m: u64,
}

/// Metrics of the whole machine, of one node or of one zone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupMetrics {
    /// NUMA node, if the group is a node or a zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Zone name, if the group is a zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Bytes of memory (holes excluded).
    pub memory_bytes: u64,
    /// Free bytes: buddy, per-CPU lists where visible, uninitialised memory.
    pub free_bytes: u64,
    /// Pages of each class that occurs, by class name.
    pub class_pages: BTreeMap<String, u64>,
    /// Free contiguity per block size, ascending, and the headline of definition K.
    pub sizes: Vec<SizeMetrics>,
    /// Definition K (kernel).
    pub k: DefinitionMetrics,
    /// Definition P (paper-like page-flag walk).
    pub p: DefinitionMetrics,
    /// Definition O (owner); `None` where the reader knows no owners.
    pub o: Option<DefinitionMetrics>,
    /// Sources, in the order of [`Source::ALL`].
    pub sources: Vec<SourceMetrics>,
}

impl GroupMetrics {
    /// The metrics of one definition, if the data allow it.
    pub fn definition(&self, definition: Definition) -> Option<&DefinitionMetrics> {
        match definition {
            Definition::K => Some(&self.k),
            Definition::P => Some(&self.p),
            Definition::O => self.o.as_ref(),
        }
    }
}

/// All metrics of one state of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// The whole machine.
    pub total: GroupMetrics,
    /// One entry per NUMA node, ascending.
    pub nodes: Vec<GroupMetrics>,
    /// One entry per zone, by first frame.
    pub zones: Vec<GroupMetrics>,
}
