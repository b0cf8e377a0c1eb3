// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be wrong with a trace.

use thiserror::Error;

/// What is wrong with a trace, and where.
#[derive(Debug, Error)]
pub enum TraceError {
    /// Reading or writing failed.
    #[error("reading or writing failed at byte {at}")]
    Io {
        /// Position in the file.
        at: u64,
        /// What the system answered.
        source: std::io::Error,
    },
    /// Not such a file.
    #[error("this is not a trace of this format (it does not start with AMPLTRC1)")]
    Magic,
    /// Damaged content.
    #[error(
        "at byte {at}: {what}; the trace is damaged, {good_records} records before it are good"
    )]
    Damaged {
        /// Position in the file of the block that holds the damage.
        at: u64,
        /// What was found.
        what: String,
        /// Records read before.
        good_records: u64,
    },
    /// A text or foreign trace that cannot be understood.
    #[error("{place}: {what}")]
    Syntax {
        /// Line or record number.
        place: String,
        /// What was found.
        what: String,
    },
}

/// The first error of a writer that a program runs into: [`Consumer`](crate::Consumer)s can only
/// say that it is over, the end of the trace says why.
#[derive(Debug, Default)]
pub(crate) struct FirstError(Option<TraceError>);

impl FirstError {
    /// Keeps what went wrong; true if nothing did.
    pub(crate) fn keep(&mut self, written: Result<(), TraceError>) -> bool {
        let error = written.err();
        let sound = error.is_none();
        if self.0.is_none() {
            self.0 = error;
        }
        sound
    }

    /// Gives the error back, if there was one.
    pub(crate) fn check(&mut self) -> Result<(), TraceError> {
        self.0.take().map_or(Ok(()), Err)
    }
}
