// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reader of a trace.

use super::header::{MAGIC, MAX_HEADER_BYTES, MAX_RAW_BYTES, TraceHeader};
use super::record::{Coder, decode};
use crate::Access;
use crate::access::error::TraceError;
use std::io::Read;

/// Reads a trace block by block.
pub struct TraceReader<R: Read> {
    input: R,
    /// What the trace says about itself.
    pub header: TraceHeader,
    at: u64,
    records: u64,
    ended: bool,
}

impl<R: Read> TraceReader<R> {
    /// Opens a trace.
    ///
    /// # Errors
    /// If it is none, or its header is damaged.
    pub fn new(input: R) -> Result<Self, TraceError> {
        let header = TraceHeader::default();
        let mut reader = TraceReader {
            input,
            header,
            at: 0,
            records: 0,
            ended: false,
        };
        let mut magic = [0; 8];
        if reader.fill(&mut magic).is_err() || &magic != MAGIC {
            return Err(TraceError::Magic);
        }
        let length = reader.u32()?;
        if length > MAX_HEADER_BYTES {
            return Err(reader.damaged(8, format!("a header of {length} bytes")));
        }
        let mut text = vec![0; length as usize];
        reader.fill(&mut text)?;
        let crc = reader.u32()?;
        if crc32fast::hash(&text) != crc {
            return Err(reader.damaged(12, "the header's checksum is wrong".into()));
        }
        reader.header = serde_json::from_slice(&text)
            .map_err(|e| reader.damaged(12, format!("the header does not parse: {e}")))?;
        Ok(reader)
    }

    /// What comes after the header, unread.
    pub(crate) fn input(&mut self) -> &mut R {
        &mut self.input
    }

    fn damaged(&self, at: u64, what: String) -> TraceError {
        TraceError::Damaged {
            at,
            what,
            good_records: self.records,
        }
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), TraceError> {
        let at = self.at;
        self.input
            .read_exact(buffer)
            .map_err(|source| match source.kind() {
                std::io::ErrorKind::UnexpectedEof => {
                    self.damaged(at, "the file ends in the middle".into())
                }
                _ => TraceError::Io { at, source },
            })?;
        self.at += buffer.len() as u64;
        Ok(())
    }

    fn u32(&mut self) -> Result<u32, TraceError> {
        let mut bytes = [0; 4];
        self.fill(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// The next block of accesses; None after the end. After an error the trace is over.
    ///
    /// # Errors
    /// If the block is damaged; the position is the block's.
    pub fn next_block(&mut self, accesses: &mut Vec<Access>) -> Result<bool, TraceError> {
        accesses.clear();
        if self.ended {
            return Ok(false);
        }
        self.ended = true;
        let at = self.at;
        let records = self.u32()?;
        if records == 0 {
            let (low, high) = (self.u32()?, self.u32()?);
            let total = u64::from(low) | u64::from(high) << 32;
            if total != self.records {
                let what = format!("{} records found, {total} announced", self.records);
                return Err(self.damaged(at, what));
            }
            return Ok(false);
        }
        let (raw_bytes, stored_bytes, crc) = (self.u32()?, self.u32()?, self.u32()?);
        if raw_bytes > MAX_RAW_BYTES || stored_bytes > MAX_RAW_BYTES || records > raw_bytes {
            let what = format!(
                "impossible block ({records} records, {raw_bytes} bytes, {stored_bytes} stored)"
            );
            return Err(self.damaged(at, what));
        }
        let mut stored = vec![0; stored_bytes as usize];
        self.fill(&mut stored)?;
        let raw = zstd::bulk::decompress(&stored, raw_bytes as usize)
            .map_err(|e| self.damaged(at, format!("the block does not decompress: {e}")))?;
        if raw.len() != raw_bytes as usize || crc32fast::hash(&raw) != crc {
            return Err(self.damaged(at, "the block's checksum is wrong".into()));
        }
        let mut coder = Coder::new();
        let mut rest = raw.as_slice();
        for _ in 0..records {
            match decode(&mut coder, &mut rest) {
                Some(access) => accesses.push(access),
                None => return Err(self.damaged(at, "a record does not decode".into())),
            }
        }
        if !rest.is_empty() {
            return Err(self.damaged(at, format!("{} bytes after the last record", rest.len())));
        }
        self.records += u64::from(records);
        self.ended = false;
        Ok(true)
    }
}
