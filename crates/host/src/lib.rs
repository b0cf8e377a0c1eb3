// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading the physical memory of a live Linux, page by page.
//!
//! Two readers stand behind one trait, [`Reader`]: `/proc/kpageflags` ([`ProcfsReader`]) and, with
//! the feature `bpf`, a BPF program that copies `struct page` in bulk. [`scan_live`] picks one,
//! and answers with a [`Scan`]: everything the metrics and the server model need, run-length
//! coded. [`snapshot`] keeps a scan on disk.
//!
//! ```no_run
//! use ample_host::{ScanOptions, scan_live};
//! use ample_pfn::{MetricsBuilder, SizeList};
//!
//! let mut scan = scan_live(&ScanOptions::default())?;
//! let metrics = MetricsBuilder::collect(&mut scan, &SizeList::standard())?
//!     .finish(&scan.meta.coverage);
//! println!("{} bytes of memory", metrics.total.memory_bytes);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bench;
#[cfg(feature = "bpf")]
mod bpf;
mod cgroups;
mod chase;
mod clock;
mod error;
pub mod flags;
mod mapped;
#[cfg(feature = "bpf")]
mod narrow;
mod page_owner;
mod printable;
pub mod proc;
mod processor;
mod procfs;
mod reader;
mod root;
mod runs;
mod scan;
pub mod snapshot;
mod spoiling;
pub mod structpage;
mod symbols;
mod traffic;
#[cfg(feature = "bpf")]
mod watch;
mod who;

pub use bench::{ReaderTimes, bench_readers};
#[cfg(feature = "bpf")]
pub use bpf::{BpfReader, TrafficRecorder};
pub use cgroups::Cgroups;
pub use chase::{LoadPattern, PageBacking, TestMemory};
pub use clock::clock_ghz;
pub use error::HostError;
pub use mapped::{MappedMemory, MappedSize, MappedTarget, read_mapped};
#[cfg(feature = "bpf")]
pub use narrow::give_up_sys_admin;
pub use page_owner::{Owners, PAGE_OWNER};
pub use printable::printable;
pub use proc::{System, ZoneCounters, zones};
pub use processor::{CacheShape, Processor};
pub use procfs::ProcfsReader;
pub use reader::{PageblockRun, Reader};
pub use root::Root;
pub use runs::{PageRuns, RunEncoder, RunError};
pub use scan::{ReaderChoice, Scan, ScanMeta, ScanOptions, scan_live};
pub use spoiling::{Harm, SpoilEvent, SpoilSite, SpoilSites, spoiled_blocks};
pub use symbols::KernelSymbols;
pub use traffic::{LIFETIME_BUCKETS, TrafficCounts, TrafficOrigin};
#[cfg(feature = "bpf")]
pub use watch::SpoilWatch;
pub use who::{OwnerCell, OwnerKind, PageOwner, Who};
