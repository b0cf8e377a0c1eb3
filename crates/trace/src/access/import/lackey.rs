// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of Valgrind's lackey.

use super::decompressed;
use crate::access::error::TraceError;
use crate::{Access, AccessKind};
use std::io::{BufRead, BufReader, Read};

/// Lines of this many bytes are refused.
const LINE_BYTES: u64 = 4096;

/// A line that describes an access: its letter, address and bytes; `None` for a comment.
fn parse(line: &[u8]) -> Result<Option<(&str, u64, u8)>, &'static str> {
    if line.len() as u64 == LINE_BYTES {
        return Err("longer than any line of lackey's");
    }
    let text = std::str::from_utf8(line).map_err(|_| "not text")?;
    if text.trim().is_empty() || text.starts_with("==") || text.starts_with("--") {
        return Ok(None);
    }
    let mut words = text.split_whitespace();
    let letter = words.next().unwrap_or_default();
    let place = words.next().ok_or("no address")?;
    let (va, bytes) = place.split_once(',').ok_or("no size")?;
    let va = u64::from_str_radix(va, 16).map_err(|_| "not a hexadecimal address")?;
    let bytes: u32 = bytes.parse().map_err(|_| "not a size")?;
    Ok(Some((letter, va, bytes.clamp(1, 64) as u8)))
}

/// Reads lackey's `--trace-mem=yes` text; returns the number of accesses.
///
/// # Errors
/// If a line cannot be understood: its number.
pub fn lackey<R: Read>(input: R, mut visit: impl FnMut(Access) -> bool) -> Result<u64, TraceError> {
    let mut accesses = 0;
    let mut gap = 0u16;
    let mut fetched = u64::MAX;
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
        let about = |what: &str| {
            let start = String::from_utf8_lossy(&line[..line.len().min(60)]);
            bad(format!("{what}: '{}'", start.trim_end()))
        };
        let Some((letter, va, bytes)) = parse(&line).map_err(about)? else {
            continue;
        };
        let kinds: &[AccessKind] = match letter {
            "I" => {
                gap = gap.saturating_add(1);
                if va >> 6 == fetched {
                    continue;
                }
                fetched = va >> 6;
                &[AccessKind::Fetch]
            }
            "L" => &[AccessKind::Load],
            "S" => &[AccessKind::Store],
            "M" => &[AccessKind::Load, AccessKind::Store],
            _ => return Err(about("not one of I, L, S, M")),
        };
        for &kind in kinds {
            accesses += 1;
            let access = match kind {
                AccessKind::Fetch => Access::fetch(fetched << 6),
                _ => Access {
                    va,
                    gap: gap.saturating_sub(1),
                    dep: 0,
                    kind,
                    bytes,
                    thread: 0,
                },
            };
            if !visit(access) {
                return Ok(accesses);
            }
            if kind != AccessKind::Fetch {
                gap = 0;
            }
        }
    }
    Ok(accesses)
}
