// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of Valgrind's lackey.

use super::instructions::Instructions;
use super::lines::each_line;
use crate::access::error::TraceError;
use crate::{Access, AccessKind};
use std::io::Read;

/// A line that describes an access: its letter, address and bytes; `None` for a comment.
fn parse(text: &str) -> Result<Option<(&str, u64, u64)>, &'static str> {
    if text.trim().is_empty() || text.starts_with("==") || text.starts_with("--") {
        return Ok(None);
    }
    let mut words = text.split_whitespace();
    let letter = words.next().unwrap_or_default();
    let place = words.next().ok_or("no address")?;
    let (va, bytes) = place.split_once(',').ok_or("no size")?;
    let va = u64::from_str_radix(va, 16).map_err(|_| "not a hexadecimal address")?;
    let bytes: u32 = bytes.parse().map_err(|_| "not a size")?;
    Ok(Some((letter, va, bytes.into())))
}

/// Reads lackey's `--trace-mem=yes` text; returns the number of accesses.
///
/// # Errors
/// If a line cannot be understood: its number.
pub fn lackey<R: Read>(input: R, mut visit: impl FnMut(Access) -> bool) -> Result<u64, TraceError> {
    let mut accesses = 0;
    let mut instructions = Instructions::new();
    let mut has_instructions = false;
    each_line(input, |line| {
        let Some((letter, va, bytes)) = parse(line)? else {
            return Ok(true);
        };
        let kinds: &[AccessKind] = match letter {
            "I" => {
                has_instructions = true;
                instructions.another();
                let fetch = instructions.fetch(va);
                accesses += u64::from(fetch.is_some());
                return Ok(fetch.is_none_or(&mut visit));
            }
            "L" => &[AccessKind::Load],
            "S" => &[AccessKind::Store],
            "M" => &[AccessKind::Load, AccessKind::Store],
            _ => return Err("not one of I, L, S, M"),
        };
        // A text without instructions has one for each line.
        if !has_instructions {
            instructions.another();
        }
        for &kind in kinds {
            accesses += 1;
            if !visit(instructions.access(kind, va, bytes, 0)) {
                return Ok(false);
            }
        }
        Ok(true)
    })?;
    Ok(accesses)
}
