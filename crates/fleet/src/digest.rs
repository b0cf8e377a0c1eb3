// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sum over the values of a table, by which its file says what was written.
//!
//! Compressed numbers that were damaged on a disk or on a way may still be numbers, and
//! the library that writes Parquet writes no sums of pages. The sum of the rows' hashes does not
//! depend on their order and is added up when tables are put together.

use crate::row::FleetRow;
use std::fmt;
use twox_hash::XxHash3_128;

/// Under which key a file keeps it.
pub const DIGEST_KEY: &str = "ample.digest";

/// By which a file says who wrote it. One that does and has no sum has been damaged.
pub const WRITER: &str = concat!("ample-fleet version ", env!("CARGO_PKG_VERSION"));

/// The sum of the rows' hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowDigest(u128);

impl RowDigest {
    /// Of these rows.
    pub fn of(rows: &[FleetRow]) -> RowDigest {
        let mut digest = RowDigest::default();
        let mut buffer = Vec::new();
        for row in rows {
            digest.add_row(row.texts(), row.numbers(), &mut buffer);
        }
        digest
    }

    /// Adds a row; `buffer` is room to work in.
    pub fn add_row<'a>(
        &mut self,
        texts: impl IntoIterator<Item = Option<&'a str>>,
        numbers: impl IntoIterator<Item = Option<i64>>,
        buffer: &mut Vec<u8>,
    ) {
        buffer.clear();
        for text in texts {
            buffer.push(text.is_some().into());
            if let Some(text) = text {
                buffer.extend((text.len() as u64).to_le_bytes());
                buffer.extend(text.as_bytes());
            }
        }
        for number in numbers {
            buffer.push(number.is_some().into());
            buffer.extend(number.unwrap_or(0).to_le_bytes());
        }
        self.0 = self.0.wrapping_add(XxHash3_128::oneshot(buffer));
    }

    /// Of the rows of both.
    pub fn and(self, other: RowDigest) -> RowDigest {
        RowDigest(self.0.wrapping_add(other.0))
    }
}

impl fmt::Display for RowDigest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:032x}", self.0)
    }
}
