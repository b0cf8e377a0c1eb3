// SPDX-License-Identifier: MIT OR Apache-2.0
//! A scan on disk.
//!
//! ```text
//! offset  bytes  field
//!      0      8  magic "AMPLSNAP"
//!      8      4  version, 1
//!     12      4  length of the description, M
//!     16      8  length of the runs, uncompressed
//!     24      8  length of the runs, compressed, R
//!     32      M  description: JSON of `Description`
//!   32+M      R  runs (see `PageRuns`), zstd
//! 32+M+R      4  CRC-32 (IEEE) of everything before
//! ```
//! Integers are little-endian. A reader refuses versions it does not know.

mod read;
mod write;

pub use read::{SnapshotError, decode, read};
pub use write::{encode, write};

use crate::ScanMeta;
use ample_pfn::Zone;
use serde::{Deserialize, Serialize};

const MAGIC: [u8; 8] = *b"AMPLSNAP";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 32;
const CRC_BYTES: usize = 4;
/// Largest description: thousands of zones would fit.
const MAX_DESCRIPTION_BYTES: usize = 4 << 20;
/// Largest run stream: 256 million runs, more than any 4 TB machine was seen to have.
const MAX_RUN_BYTES: u64 = 256 << 20;
/// Widest span of frames, holes included: 16 TB. Bounds what the metrics allocate.
const MAX_SPAN_PAGES: u64 = 1 << 32;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    zones: Vec<Zone>,
    meta: ScanMeta,
}
