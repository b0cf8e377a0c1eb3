// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page events of a real kernel (`kmem:mm_page_alloc` and its kin), read from the text of tracefs,
//! `trace-cmd report` or `perf script`, plain or zstd. Guide: `docs/replay.md`.

mod error;
mod event;
mod gfp;
mod line;
mod reader;

pub use error::PageTraceError;
pub use event::{EventKind, MAX_PFN, PageEvent, Task, Traced};
pub use gfp::Gfp;
pub use reader::{PageEventReader, ReadCounts};
