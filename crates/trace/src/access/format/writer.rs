// SPDX-License-Identifier: MIT OR Apache-2.0
//! The writer of a trace.

use super::header::{MAGIC, MAX_RAW_BYTES, RECORDS_PER_BLOCK, TraceHeader};
use super::record::{Coder, encode};
use crate::access::error::{FirstError, TraceError};
use crate::{Access, Consumer};
use std::io::Write;

/// Writes the start of a trace; returns its bytes.
pub(crate) fn write_header(out: &mut dyn Write, header: &TraceHeader) -> Result<u64, TraceError> {
    let text = serde_json::to_vec(header).map_err(|e| TraceError::Syntax {
        place: "header".into(),
        what: e.to_string(),
    })?;
    let mut start = MAGIC.to_vec();
    start.extend((text.len() as u32).to_le_bytes());
    start.extend(&text);
    start.extend(crc32fast::hash(&text).to_le_bytes());
    out.write_all(&start)
        .map_err(|source| TraceError::Io { at: 0, source })?;
    Ok(start.len() as u64)
}

/// Writes a trace; also a [`Consumer`], so that a program can run straight into a file.
pub struct TraceWriter<W: Write> {
    out: W,
    coder: Coder,
    raw: Vec<u8>,
    pending: u32,
    records: u64,
    bytes: u64,
    first_error: FirstError,
}

impl<W: Write> TraceWriter<W> {
    /// Starts a trace.
    ///
    /// # Errors
    /// If writing fails.
    pub fn new(mut out: W, header: &TraceHeader) -> Result<Self, TraceError> {
        let bytes = write_header(&mut out, header)?;
        Ok(TraceWriter {
            out,
            coder: Coder::new(),
            raw: Vec::new(),
            pending: 0,
            records: 0,
            bytes,
            first_error: FirstError::default(),
        })
    }

    /// Appends one access.
    ///
    /// # Errors
    /// If writing fails.
    pub fn push(&mut self, access: &Access) -> Result<(), TraceError> {
        encode(&mut self.coder, &mut self.raw, access);
        self.pending += 1;
        self.records += 1;
        if self.pending as usize == RECORDS_PER_BLOCK {
            self.end_block()
        } else {
            Ok(())
        }
    }

    fn write(&mut self, data: &[u8]) -> Result<(), TraceError> {
        let at = self.bytes;
        self.bytes += data.len() as u64;
        self.out
            .write_all(data)
            .map_err(|source| TraceError::Io { at, source })
    }

    fn end_block(&mut self) -> Result<(), TraceError> {
        if self.pending == 0 {
            return Ok(());
        }
        debug_assert!(self.raw.len() <= MAX_RAW_BYTES as usize);
        let stored = zstd::bulk::compress(&self.raw, 3).map_err(|source| TraceError::Io {
            at: self.bytes,
            source,
        })?;
        let mut head = Vec::with_capacity(16);
        for number in [
            self.pending,
            self.raw.len() as u32,
            stored.len() as u32,
            crc32fast::hash(&self.raw),
        ] {
            head.extend(number.to_le_bytes());
        }
        self.write(&head)?;
        self.write(&stored)?;
        self.raw.clear();
        self.pending = 0;
        // Each block can be read by itself.
        self.coder = Coder::new();
        Ok(())
    }

    /// Ends the trace; returns records and bytes written.
    ///
    /// # Errors
    /// If writing fails, or failed while a program ran into this writer.
    pub fn finish(self) -> Result<(u64, u64), TraceError> {
        let records = self.records;
        let (bytes, _) = self.into_inner()?;
        Ok((records, bytes))
    }

    /// As [`finish`](Self::finish); returns bytes written and the stream beneath.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub(crate) fn into_inner(mut self) -> Result<(u64, W), TraceError> {
        self.first_error.check()?;
        self.end_block()?;
        let mut end = 0u32.to_le_bytes().to_vec();
        end.extend(self.records.to_le_bytes());
        self.write(&end)?;
        self.out.flush().map_err(|source| TraceError::Io {
            at: self.bytes,
            source,
        })?;
        Ok((self.bytes, self.out))
    }
}

impl<W: Write> Consumer for TraceWriter<W> {
    fn consume(&mut self, block: &[Access]) -> bool {
        let written = block.iter().try_for_each(|access| self.push(access));
        self.first_error.keep(written)
    }
}
