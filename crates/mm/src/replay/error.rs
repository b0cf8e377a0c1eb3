// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can go wrong with a recording.

use crate::server::ServerError;
use ample_trace::pages::PageTraceError;

/// Why a recording could not be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file could not be opened.
    #[error("cannot open {name}: {source}")]
    Open {
        /// Path of the recording, or the name that was given for its bytes.
        name: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not a file that can be read twice.
    #[error("{name} is not a regular file; save the trace to a file first")]
    NotAFile {
        /// What was given.
        name: String,
    },
    /// Its events cannot be read.
    #[error(transparent)]
    Trace(#[from] PageTraceError),
    /// Nothing to replay.
    #[error(
        "{name}: none of its {lines} lines is an mm_page_alloc or mm_page_free event; record \
         kmem:mm_page_alloc, kmem:mm_page_free and kmem:mm_page_free_batched"
    )]
    NoEvents {
        /// Path of the recording, or the name that was given for its bytes.
        name: String,
        /// Lines read.
        lines: u64,
    },
    /// The file changed between the two passes over it.
    #[error("{name} changed while it was read; replay a file that nobody writes to")]
    Changed {
        /// Path of the recording, or the name that was given for its bytes.
        name: String,
    },
    /// The snapshot is of another machine.
    #[error(
        "{name} names frame {frame:#x}, but the machine of the snapshot ends at frame {end:#x}; \
         take the snapshot on the machine that is recorded, right before the recording"
    )]
    WrongSnapshot {
        /// Path of the recording, or the name that was given for its bytes.
        name: String,
        /// Last frame it names.
        frame: u64,
        /// One past the last frame of the snapshot.
        end: u64,
    },
    /// The memory size is not one the model can have.
    #[error(transparent)]
    Server(#[from] ServerError),
}
