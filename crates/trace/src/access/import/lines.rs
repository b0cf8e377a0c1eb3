// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text traces, a line at a time.

use super::decompressed;
use crate::access::error::TraceError;
use std::io::{BufRead, BufReader, Read};

/// Lines of this many bytes are refused.
const LINE_BYTES: u64 = 4096;

/// Hands each line of a possibly compressed text to `visit` until it returns false or what is wrong
/// with the line.
///
/// # Errors
/// If a line is wrong, not text or too long, or the stream is damaged: the line's number.
pub(super) fn each_line<R: Read>(
    input: R,
    mut visit: impl FnMut(&str) -> Result<bool, &'static str>,
) -> Result<(), TraceError> {
    let mut input = BufReader::new(decompressed(input)?);
    let mut line = Vec::new();
    for number in 1u64.. {
        line.clear();
        let bad = |what: String| TraceError::Syntax {
            place: format!("line {number}"),
            what,
        };
        let read = input.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line);
        if read.map_err(|source| bad(format!("the compressed stream is damaged: {source}")))? == 0 {
            break;
        }
        let known = match std::str::from_utf8(&line) {
            _ if line.len() as u64 == LINE_BYTES => Err("longer than any line of such a trace"),
            Ok(text) => visit(text),
            Err(_) => Err("not text"),
        };
        let goes_on = known.map_err(|what| {
            let start = String::from_utf8_lossy(&line[..line.len().min(60)]);
            bad(format!("{what}: '{}'", start.trim_end()))
        })?;
        if !goes_on {
            break;
        }
    }
    Ok(())
}
