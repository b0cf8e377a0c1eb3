// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recorded machine: the words of all rings in one file, to be simulated again and again.
//!
//! ```text
//! file   = "AMPSYS02", u32 header length, header (JSON: FileHeader), u32 CRC of the header,
//!          block*, end
//! block  = u32 words, u32 raw bytes, u32 stored bytes, u32 CRC-32 of the raw bytes, zstd frame
//! end    = u32 0xffffffff, u64 words in all
//! ```
//! All integers are little-endian. A block holds whole records and can be read by itself (`code`).
//! Words are in the order of the CPUs' turns, those of several CPUs in one block, so that they are
//! simulated as they are read. A file that was cut off is read up to its last whole block. Files of
//! version 1 kept the CPUs apart and no order among them; they are refused.

mod code;
mod reader;
mod writer;

pub use reader::{ReadEnd, RecordingReader};
pub use writer::RecordingWriter;

use serde::{Deserialize, Serialize};
use thiserror::Error;

const MAGIC: &[u8; 8] = b"AMPSYS02";
/// Of files without an order among CPUs.
const OLD_MAGIC: &[u8; 8] = b"AMPSYS01";
const END: u32 = u32::MAX;
/// Raw bytes after which a block ends, and the most that one may have.
const BLOCK_BYTES: usize = 1 << 20;
const MOST_BLOCK_BYTES: u32 = 1 << 26;
/// No header is longer; what says so is damaged.
const MOST_HEADER_BYTES: u32 = 1 << 20;

/// What was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileHeader {
    /// Path of the kernel.
    pub kernel: String,
    /// What was added to its command line.
    pub append: String,
    /// Bytes of the guest's memory.
    pub memory_bytes: u64,
    /// Virtual CPUs.
    pub cpus: usize,
}

/// Why a file cannot be read.
#[derive(Debug, Error)]
pub enum FileError {
    /// The system says why.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It is no such file.
    #[error("no recording of a machine: it does not begin with AMPSYS02")]
    NotOurs,
    /// It was recorded before the order among CPUs was.
    #[error(
        "the recording is of version 1 (AMPSYS01), which does not tell in what order the CPUs took \
         turns; record the guest again"
    )]
    NoOrder,
    /// The header cannot be read.
    #[error("the header is damaged: {0}")]
    Header(String),
    /// A block cannot be read.
    #[error("block {block} is damaged: {what}")]
    Block {
        /// Number of the block.
        block: u64,
        /// What is wrong with it.
        what: &'static str,
    },
}

#[cfg(test)]
mod tests;
