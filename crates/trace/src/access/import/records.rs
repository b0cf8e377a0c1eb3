// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of records of one size.

use std::io::Read;

/// Reads the next record; false at the end of the stream.
///
/// # Errors
/// If the stream fails or ends inside the record: what is wrong, in words.
pub(super) fn next_record<const BYTES: usize>(
    input: &mut dyn Read,
    record: &mut [u8; BYTES],
) -> Result<bool, String> {
    let mut filled = 0;
    while filled < BYTES {
        match input.read(&mut record[filled..]) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(format!("the trace ends after {filled} of {BYTES} bytes")),
            Ok(count) => filled += count,
            Err(source) => return Err(format!("the compressed stream is damaged: {source}")),
        }
    }
    Ok(true)
}
