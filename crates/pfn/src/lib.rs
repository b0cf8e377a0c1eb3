// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page frames and the contiguity metrics of Ample.
//!
//! Everything that speaks about physical memory in this project (the live scan, snapshots on
//! disk, the server model, test guests) describes it as a sequence of [`PageClass`]es over page
//! frame numbers and hands it to one [`MetricsBuilder`]. The metrics are therefore the same
//! numbers everywhere. Their written specification is `docs/definitions.md`.
//!
//! ```
//! use ample_pfn::{Coverage, Layout, MetricsBuilder, PageClass, Pfn, SizeList};
//!
//! let layout = Layout::single(Pfn(0), 1024); // two 2 MB blocks
//! let mut pages = vec![PageClass::Free; 1024];
//! pages[700] = PageClass::Slab; // one slab page spoils the second block
//! let mut builder = MetricsBuilder::new(&layout, &SizeList::standard());
//! builder.push(Pfn(0), &pages);
//! let metrics = builder.finish(&Coverage::exact());
//! assert_eq!(metrics.total.sizes[0].blocks, 2);
//! assert_eq!(metrics.total.k.sizes[0].unmovable_ratio.high, Some(0.5));
//! ```

mod aggregate;
mod class;
mod culprits;
mod frame;
mod layout;
mod metrics;
mod migratetype;
mod sizes;
mod tally;

pub use class::{CLASS_COUNT, ClassSet, Definition, Mobility, PageClass, Source};
pub use culprits::Culprit;
pub use frame::{
    BASE_PAGE_BYTES, MAX_PAGE_ORDER, Order, PAGEBLOCK_ORDER, PAGES_PER_PAGEBLOCK, Pfn, PfnRange,
};
pub use layout::{Layout, LayoutError, Zone};
pub use metrics::{
    Coverage, DefinitionMetrics, DefinitionSize, GroupMetrics, Interval, Metrics, RatioInterval,
    SizeMetrics, SourceMetrics, UnmovableSpread,
};
pub use migratetype::{MigrateType, is_movable};
pub use sizes::{SizeError, SizeList, format_bytes, parse_bytes};
pub use tally::{BlockState, BlockTally, MetricsBuilder, PageSource};
