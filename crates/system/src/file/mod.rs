// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recorded machine: the words of all rings in one file, to be simulated again and again.
//!
//! ```text
//! file   = "AMPSYS01", u32 header length, header (JSON: FileHeader), u32 CRC of the header,
//!          block*, end
//! block  = u32 CPU, u32 words, u32 raw bytes, u32 stored bytes, u32 CRC-32 of the raw bytes,
//!          zstd frame
//! end    = u32 0xffffffff, u64 words in all
//! ```
//! All integers are little-endian. A block holds whole records of one CPU and can be read by
//! itself (`code`). Blocks of different CPUs come as they were taken; those of one CPU are in
//! its order. A file that was cut off is read up to its last whole block.

mod code;
mod reader;
mod writer;

pub use reader::{ReadEnd, RecordingReader};
pub use writer::RecordingWriter;

use serde::{Deserialize, Serialize};
use thiserror::Error;

const MAGIC: &[u8; 8] = b"AMPSYS01";
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
    #[error("no recording of a machine: it does not begin with AMPSYS01")]
    NotOurs,
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
