// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples of `perf mem record`, as `perf mem -D report` prints them
//! (`tools/perf/builtin-mem.c`, Linux 4.14 to 6.12).

use super::instructions::Instructions;
use super::lines::each_line;
use crate::access::error::TraceError;
use crate::{Access, AccessKind};
use std::io::Read;

/// What the output starts with.
pub(crate) const START: &[u8] = b"# PID, TID, IP, ADDR,";

/// `PERF_MEM_OP_LOAD`, `_STORE` and `_EXEC` of `union perf_mem_data_src`.
const LOAD: u64 = 0x2;
const STORE: u64 = 0x4;
const EXEC: u64 = 0x10;

/// The columns that are read, by their place.
#[derive(Clone, Copy)]
struct Columns {
    address: usize,
    source: usize,
}

impl Columns {
    fn of(header: &str) -> Result<Self, &'static str> {
        let names: Vec<&str> = header
            .trim_start_matches('#')
            .split(',')
            .map(str::trim)
            .collect();
        let place = |name| names.iter().position(|&own| own == name);
        match (place("ADDR"), place("DSRC")) {
            (Some(address), Some(source)) => Ok(Columns { address, source }),
            _ => Err("no columns ADDR and DSRC"),
        }
    }

    /// The address of a sample and what it did; `None` for a sample without an address.
    fn sample(self, line: &str) -> Result<Option<(u64, AccessKind)>, &'static str> {
        let is_between = |c: char| c.is_whitespace() || matches!(c, ',' | ';' | '|');
        let words: Vec<&str> = line
            .split(is_between)
            .filter(|word| !word.is_empty())
            .collect();
        let number = |at: usize| {
            let word = words.get(at).and_then(|word| word.strip_prefix("0x"));
            let number = word.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            number.ok_or("no hexadecimal ADDR and DSRC in their columns")
        };
        let (va, source) = (number(self.address)?, number(self.source)?);
        let kind = match source {
            bits if bits & STORE != 0 => AccessKind::Store,
            bits if bits & EXEC != 0 => AccessKind::Fetch,
            bits if bits & LOAD != 0 => AccessKind::Load,
            _ => return Ok(None),
        };
        Ok((va != 0).then_some((va, kind)))
    }
}

/// Reads the samples that `perf mem -D report` prints; returns how many have an address. They are
/// single accesses out of many thousands: good for which pages a program uses, not for rates.
///
/// # Errors
/// If a line cannot be understood: its number.
pub fn perf<R: Read>(input: R, mut visit: impl FnMut(Access) -> bool) -> Result<u64, TraceError> {
    let mut samples = 0;
    let mut columns = None;
    let mut instructions = Instructions::new();
    each_line(input, |line| {
        if line.starts_with('#') {
            columns = Some(Columns::of(line)?);
            return Ok(true);
        }
        let Some(columns) = columns else {
            return Err("no line of columns before the samples");
        };
        if line.trim().is_empty() {
            return Ok(true);
        }
        let Some((va, kind)) = columns.sample(line)? else {
            return Ok(true);
        };
        samples += 1;
        instructions.another();
        Ok(visit(match kind {
            AccessKind::Fetch => Access::fetch(va & !63),
            _ => instructions.access(kind, va, 8, 0),
        }))
    })?;
    if columns.is_none() {
        return Err(TraceError::Syntax {
            place: "line 1".into(),
            what: "the file is empty".into(),
        });
    }
    Ok(samples)
}
