// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be wrong with the text of a page-event trace.

/// Why the events of a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PageTraceError {
    /// Reading stopped.
    #[error("{name}: line {line}: cannot read on: {source}")]
    Read {
        /// Path of the trace, as given.
        name: String,
        /// The line that reading came to.
        line: u64,
        /// What the system (or the decompressor) said.
        source: std::io::Error,
    },
    /// Too many lines make no sense.
    #[error(
        "{name}: {unreadable} of {lines} lines cannot be read, more than {limit_ratio} of them; \
         first {first}. Is this the text of a page-event trace?"
    )]
    TooManyUnreadable {
        /// Path of the trace, as given.
        name: String,
        /// Lines that could not be read.
        unreadable: u64,
        /// Lines so far.
        lines: u64,
        /// Share that is allowed.
        limit_ratio: f64,
        /// The first of them, with its field.
        first: String,
    },
}
