// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a trace says about itself, and the limits that readers and writers share.

use crate::Region;
use serde::{Deserialize, Serialize};

/// What a file starts with.
pub(super) const MAGIC: &[u8; 8] = b"AMPLTRC1";
/// Accesses of a whole block.
pub(super) const RECORDS_PER_BLOCK: usize = 64 << 10;
/// Bytes of a block before compression, at most: a reader refuses more before it allocates.
pub(super) const MAX_RAW_BYTES: u32 = 4 << 20;
/// Bytes of a header, at most.
pub(super) const MAX_HEADER_BYTES: u32 = 16 << 20;

/// What a trace says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceHeader {
    /// Program or command.
    pub program: String,
    /// Its address space.
    pub regions: Vec<Region>,
    /// Recording was ended by hand.
    #[serde(default)]
    pub partial: bool,
}
